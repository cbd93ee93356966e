// Package changelog is the other protocol behind the Protocol seam of package
// tasks: every state change goes to a changelog topic, and output, repartition
// records, changelog records and source offsets commit in one transaction per
// instance and commit interval, as in Kafka Streams with exactly-once v2.
//
// # The idea
//
// A Machine decides what an instance does: when an interval ends, when its
// transaction may be committed, which tasks start and stop. It is pure: Step
// takes an event and returns effects. The shell in package runtime performs
// them. An Engine keeps a task's changes in layers until their transaction is
// committed, logs them, and restores a task from its changelogs.
//
//	record ─► operators ─► cache ─► Engine: layer ─────────────► engine below
//	                         │                  after the commit
//	                         └────► changelog batch ─┐
//	                                sink batch ──────┼─► transaction of the interval
//	                                repartition ─────┤
//	                                offsets ─────────┘
//
// docs/adr/0008 has the reasons; docs/guide/modes.md says what users see.
//
// # Invariants
//
//	D1  The engine below holds committed changes only.
//	D2  It holds all of them below its position.
//	D3  Reading a changelog again from any lower position leads to the same
//	    state, so a position may be too low, never too high.
//	D4  A restore reads, committed, up to the high watermark that was asked for
//	    after the task's offsets were stable.
//	D5  A transaction's offsets are those of tasks that passed its commit point,
//	    and all their records before it are acknowledged when it ends.
//	D6  Nothing of the next interval is sent before the commit of this one was
//	    answered.
//	D7  A task is given to another instance only when its owner closed it, or is
//	    out of the group.
//
// # What it does not do
//
// It starts no goroutine and knows no group protocol; package runtime does.
package changelog
