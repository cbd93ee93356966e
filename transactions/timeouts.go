package transactions

import (
	"errors"
	"fmt"
	"time"
)

// Timeouts are the settings that must fit together (R22). A transaction stays
// open from the first output of an interval until the checkpoint that ends the
// interval is complete, its successors if it is aborted, and a restart if its
// owner dies in between; a broker that ends it earlier destroys output that
// was decided.
type Timeouts struct {
	Interval          time.Duration // WithCheckpointInterval
	CheckpointTimeout time.Duration // WithCheckpointTimeout
	ToleratedAborts   int           // WithToleratedAborts
	Session           time.Duration // WithSessionTimeout
	LongestRestart    time.Duration // WithExpectedRestart
	Transaction       time.Duration // WithTransactionTimeout
	BrokerMax         time.Duration // the broker's transaction.max.timeout.ms
}

// Needed returns what the transaction timeout must exceed.
func (t Timeouts) Needed() time.Duration {
	return (t.Interval+t.CheckpointTimeout)*time.Duration(t.ToleratedAborts+1) + t.Session + t.LongestRestart
}

// CheckTimeouts returns nil if the settings fit, else an error that names
// every setting in conflict and what would do.
func CheckTimeouts(t Timeouts) error {
	var errs []error
	if t.Transaction <= t.Needed() {
		errs = append(errs, fmt.Errorf("WithTransactionTimeout(%s) is too short: it must exceed (WithCheckpointInterval(%s) + WithCheckpointTimeout(%s)) × (WithToleratedAborts(%d) + 1) + WithSessionTimeout(%s) + WithExpectedRestart(%s) = %s, or a restart may find decided output gone; raise it, or lower one of the others",
			t.Transaction, t.Interval, t.CheckpointTimeout, t.ToleratedAborts, t.Session, t.LongestRestart, t.Needed()))
	}
	if t.Transaction > t.BrokerMax {
		errs = append(errs, fmt.Errorf("WithTransactionTimeout(%s) is longer than the broker's transaction.max.timeout.ms (%s): lower it, or raise the broker's setting", t.Transaction, t.BrokerMax))
	}
	return errors.Join(errs...)
}

// MayComplete reports whether a checkpoint may still be decided: the oldest
// transaction of its acks, age old when it was listed, must outlive a crash
// right after the decision (R22). sinceTrigger is the time since the Trigger.
// If it returns false, the coordinator writes a Rollback instead.
func (t Timeouts) MayComplete(age, sinceTrigger time.Duration) bool {
	return age+sinceTrigger+t.Session+t.LongestRestart <= t.Transaction
}
