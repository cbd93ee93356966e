package transactions

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
)

// LostError says that the output of a completed checkpoint cannot become
// visible: the broker ended its transaction without it (R23). State and group
// offsets have moved on, so running on would hide a gap.
type LostError struct {
	N     ids.CheckpointID
	Owner ids.InstanceID
	Txn   Listed
	// Code is the broker's answer to the commit; Broker is what it says of
	// the transactional id now.
	Code   Code
	Broker Described
}

// Error names checkpoint, transactional id, topics and time span, and what to
// do.
func (e *LostError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "output of completed checkpoint %d is lost: transaction %s of instance %s", e.N, e.Txn.Handle, e.Owner)
	if len(e.Txn.Topics) == 0 {
		b.WriteString(", which holds group offsets only,")
	} else {
		fmt.Fprintf(&b, " to %s, event times %s,", strings.Join(e.Txn.Topics, ", "), span(e.Txn.FirstTime, e.Txn.LastTime))
	}
	fmt.Fprintf(&b, " was ended by the broker before it was committed (%s)", e.Answer())
	b.WriteString(": most likely the restart took longer than the transaction timeout; restore an older checkpoint with AllowDuplicates to write this output again, and raise the transaction timeout or the expected restart")
	return b.String()
}

// Answer says what the broker answered, for whoever says the rest itself.
func (e *LostError) Answer() string {
	return fmt.Sprintf("answer %s; the broker now has %s", e.Code, e.broker())
}

func (e *LostError) broker() string {
	if e.Broker.Code != OK {
		return e.Broker.Code.String()
	}
	return fmt.Sprintf("producer %d, epoch %d, %s", e.Broker.ProducerID, e.Broker.Epoch, e.Broker.State)
}

func span(first, last int64) string {
	if first == 0 && last == 0 {
		return "unknown"
	}
	const layout = "2006-01-02T15:04:05.000Z"
	return time.UnixMilli(first).UTC().Format(layout) + " to " + time.UnixMilli(last).UTC().Format(layout)
}
