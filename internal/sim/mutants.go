package sim

import (
	"fmt"
	"strings"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/transactions"
)

// Rules removes rules of the protocol, to prove that the simulation notices.
// The zero value removes none.
type Rules struct {
	Barrier barrier.Rules
	Txn     transactions.Rules

	ReadTwice     bool // R1: what is read again counts as another record
	ReadGap       bool // R1: a fetch that was not answered is not repeated
	BarrierFirst  bool // R8: the barrier goes out before the records that precede it
	BarrierSkips  bool // R8: the barrier goes only to partitions that got records since the last
	SharedFirst   bool // R8: the barrier that tasks share goes out before the records of one of them
	SnapshotFirst bool // R14: the state is fixed before caches and buffers are flushed
	ReuseNames    bool // R15: object names do not contain incarnation, checkpoint and attempt
	StartStale    bool // R25: a new owner starts from what it prefetched
	TakeStale     bool // R26: a standby takes over what it fetched last
	PurgeConsumed bool // R29: what was consumed is purged
	ReadTrimmed   bool // trimming: who was too slow reads on where the log begins now
}

// Mutant is a protocol without one rule.
type Mutant struct {
	Name  string // the rule (trim: that of the control log), or rule/variant
	Rules Rules
}

// Mutants are all known mutants, in order of their rules.
func Mutants() []Mutant {
	b := func(r barrier.Rules) Rules { return Rules{Barrier: r} }
	t := func(r transactions.Rules) Rules { return Rules{Txn: r} }
	return []Mutant{
		{"R1/read-twice", Rules{ReadTwice: true}},
		{"R1/read-gap", Rules{ReadGap: true}},
		{"R2", b(barrier.Rules{SkipR2: true})},
		{"R3", b(barrier.Rules{SkipR3: true})},
		{"R6", b(barrier.Rules{SkipR6: true})},
		{"R6/oldest", b(barrier.Rules{SkipR6Oldest: true})},
		{"R8", Rules{BarrierFirst: true}},
		{"R8/not-everywhere", Rules{BarrierSkips: true}},
		{"R8/shared-first", Rules{SharedFirst: true}},
		{"R9", b(barrier.Rules{SkipR9: true})},
		{"R14", Rules{SnapshotFirst: true}},
		{"R15", Rules{ReuseNames: true}},
		{"R16", b(barrier.Rules{SkipR16: true})},
		{"R16/ack-early", t(transactions.Rules{AckEarly: true})},
		{"R16/list-newest-only", t(transactions.Rules{ListNewestOnly: true})},
		{"R18", t(transactions.Rules{OneTransaction: true})},
		{"R18/no-order-wait", t(transactions.Rules{NoOrderWait: true})},
		{"R19", t(transactions.Rules{EndUnanswered: true})},
		{"R20", t(transactions.Rules{KeepEpoch: true})},
		{"R20/init-early", t(transactions.Rules{InitEarly: true})},
		{"R20/reuse-in-doubt", t(transactions.Rules{ReuseInDoubt: true})},
		{"R22", b(barrier.Rules{SkipR22: true})},
		{"R23", t(transactions.Rules{GoneIsDone: true})},
		{"R23/silent", b(barrier.Rules{SkipR23: true})},
		{"R25", b(barrier.Rules{SkipR25: true})},
		{"R25/no-halt", b(barrier.Rules{SkipR25Halt: true})},
		{"R25/start-stale", Rules{StartStale: true}},
		{"R26", b(barrier.Rules{SkipR26Downstream: true})},
		{"R26/shared", b(barrier.Rules{SkipR26Shared: true})},
		{"R26/restore", b(barrier.Rules{SkipR26Restore: true})},
		{"R26/lineage", b(barrier.Rules{SkipR26Lineage: true})},
		{"R26/carried", b(barrier.Rules{SkipR26Carried: true})},
		{"R26/forget", b(barrier.Rules{SkipR26Forget: true})},
		{"R26/take-stale", Rules{TakeStale: true}},
		{"R27", b(barrier.Rules{SkipR27: true})},
		{"R29", Rules{PurgeConsumed: true}},
		{"trim/unread", b(barrier.Rules{TrimUnread: true})},
		{"trim/there", b(barrier.Rules{TrimThere: true})},
		{"trim/any-term", b(barrier.Rules{SkipTrimTerm: true})},
		{"trim/any-start", b(barrier.Rules{SkipTrimStart: true})},
		{"trim/no-undecided", b(barrier.Rules{SkipTrimOpen: true})},
		{"trim/no-uncommitted", b(barrier.Rules{SkipTrimUncommitted: true})},
		{"trim/read-on", Rules{ReadTrimmed: true}},
	}
}

// FindMutants returns the mutants of a rule, of one variant, or all of them.
func FindMutants(name string) ([]Mutant, error) {
	var out []Mutant
	for _, m := range Mutants() {
		if name == "all" || m.Name == name || strings.HasPrefix(m.Name, name+"/") {
			out = append(out, m)
		}
	}
	if out == nil {
		return nil, fmt.Errorf("no mutant %q: use all, or a rule such as R6, or a variant such as R18/no-order-wait", name)
	}
	return out, nil
}

// Hunt runs seeds from 1 until one finds the mutant.
func Hunt(m Mutant, seeds, steps int) (Result, bool) {
	for n := range seeds {
		if r := Run(uint64(n+1), Options{Steps: steps, Rules: m.Rules}); r.Err != nil {
			return r, true
		}
	}
	return Result{}, false
}
