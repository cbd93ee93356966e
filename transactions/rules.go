package transactions

import "fmt"

// Rules switches single rules off, so that the simulation can prove that it
// would notice their absence. The zero value is the protocol; nothing but
// tests sets a field.
type Rules struct {
	// AckEarly (R16): a checkpoint counts as ready when all tasks passed its
	// barrier, though batches and offsets are still in doubt.
	AckEarly bool
	// ListNewestOnly (R16): an Ack lists only the transaction that its own
	// barrier closed, not the prepared ones of aborted checkpoints before it.
	ListNewestOnly bool
	// OneTransaction (R18): a task that passed the barrier goes on writing
	// into the transaction of its slower siblings.
	OneTransaction bool
	// NoOrderWait (R18): batches do not wait for the task's earlier ones in
	// the previous transaction.
	NoOrderWait bool
	// KeepEpoch (R20): the next transaction of an id uses the old handle.
	KeepEpoch bool
	// InitEarly (R20): an id is initialised again as soon as the end of its
	// transaction was requested.
	InitEarly bool
	// ReuseInDoubt (R20): an id whose InitProducerId got no answer is used
	// again.
	ReuseInDoubt bool
	// EndUnanswered (R19): a decided commit without an answer counts as carried
	// out.
	EndUnanswered bool
	// GoneIsDone (R23): a handle that is no longer the id's counts as committed.
	GoneIsDone bool
}

// Without returns the rules with one rule of the protocol removed: R16, R18,
// R19, R20 or R23, or one switch as in "R16/AckEarly".
func Without(rule string) (Rules, error) {
	switch rule {
	case "R16", "R16/AckEarly":
		return Rules{AckEarly: true}, nil
	case "R16/ListNewestOnly":
		return Rules{ListNewestOnly: true}, nil
	case "R18", "R18/OneTransaction":
		return Rules{OneTransaction: true}, nil
	case "R18/NoOrderWait":
		return Rules{NoOrderWait: true}, nil
	case "R20", "R20/KeepEpoch":
		return Rules{KeepEpoch: true}, nil
	case "R20/InitEarly":
		return Rules{InitEarly: true}, nil
	case "R20/ReuseInDoubt":
		return Rules{ReuseInDoubt: true}, nil
	case "R19", "R19/EndUnanswered":
		return Rules{EndUnanswered: true}, nil
	case "R23", "R23/GoneIsDone":
		return Rules{GoneIsDone: true}, nil
	}
	return Rules{}, fmt.Errorf("rule %q: package transactions can remove R16, R18, R19, R20 or R23", rule)
}
