package sim

import (
	"slices"
	"strings"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/transactions"
)

// oracle knows what must be true, from the closed form of the inputs, the
// control log's bytes and the broker's content alone: it does not trust the
// machines' view of the log.
type oracle struct {
	w *World

	// Of committed output, per source partition and key.
	done     [][keys]int32 // records whose commit is certain
	next     [][keys]int32 // records that a read-committed consumer saw
	nextLoop [][keys]int32
	count1   [][keys]int32       // per partition of hop 1
	count2   [][keys]int32       // per partition of hop 2
	loops    [][keys]int32       // per partition of hop 1
	lastInc  [][]ids.Incarnation // per sink partition and task that writes it
	taken    []takes
	stream   [][2][]int64 // per sink partition, loop or not, and task

	highest  []int64 // cut of any completed checkpoint, per source partition
	cuts     []cut   // of Complete records
	starts   []startOf
	retained []barrier.CheckpointRef // marked and not retired
	newest   ids.CheckpointID        // highest marked of the present history
	listed   []listing
	restored []ids.CheckpointID

	writers     []writerSeq
	restores    []restoreAt
	newestStart ids.Incarnation
	newestOf    []taskStart
	lostIn      ids.CheckpointID // of which the broker ended a transaction
	marks       int
	moving      bool // a Trigger with moves is undecided
	upset       bool // tasks rolled back where nothing failed, for a reason

	closed  []ids.TxnHandle // transactions that the broker was told to commit
	expired []ids.TxnHandle // transactions that the broker ended by its timeout
	waived  []ids.TxnHandle // given up by a Forfeit
	lossy   bool            // output of a completed checkpoint was lost, and the application goes on
	gap     bool            // such output was lost because nobody ran for too long, and the application is to stop
}

// cut is where a checkpoint's input positions are.
type cut struct {
	n  ids.CheckpointID
	at int64 // time of the Complete record
}

// reach is how far a checkpoint covers the inputs: carried tasks stand where an
// earlier one left them (R26).
type reach struct {
	to      []int64
	carried []carriedPart
}

// of returns what a task has behind it.
func (r reach) of(t ids.TaskID) []int64 {
	for _, c := range r.carried {
		if c.task == t {
			return c.cut
		}
	}
	return r.to
}

// below counts the records of a key whose output the checkpoint covers.
func (o *oracle) below(r reach, src, k int) int32 {
	return o.w.inputs[src].below(k, r.of(o.w.plan.lastTaskOf(src, k))[src])
}

type startOf struct {
	inc  ids.Incarnation
	n    ids.CheckpointID
	to   reach
	back bool // to an older checkpoint
}

// restoreAt is a Restore of a checkpoint that is kept.
type restoreAt struct {
	at int64
	n  ids.CheckpointID
}

// writerSeq is the last number of a writer of the control log.
type writerSeq struct {
	id  ids.InstanceID
	seq uint64
}

type listing struct {
	owner  ids.InstanceID
	handle ids.TxnHandle
	n      ids.CheckpointID
}

func newOracle(w *World) oracle {
	p := &w.plan
	src := len(w.inputs)
	o := oracle{
		w: w, done: make([][keys]int32, src), next: make([][keys]int32, src), nextLoop: make([][keys]int32, src),
		count1: make([][keys]int32, p.hop1), loops: make([][keys]int32, p.hop1), count2: make([][keys]int32, max(p.hop2, 1)),
		highest: make([]int64, src), newest: ids.NoCheckpoint,
	}
	for range p.sinkParts {
		o.lastInc = append(o.lastInc, make([]ids.Incarnation, 2*max(p.hop1, p.hop2)))
		var s [2][]int64
		for i := range s {
			for range max(p.hop1, p.hop2) {
				s[i] = append(s[i], barrier.NoTime)
			}
		}
		o.stream = append(o.stream, s)
	}
	return o
}

// ended reports whether one of the tasks was started again later: what the
// incarnation does now is a zombie's.
func (o *oracle) ended(tasks barrier.TaskSet, inc ids.Incarnation) bool {
	return slices.ContainsFunc(o.newestOf, func(x taskStart) bool { return tasks.Contains(x.task) && x.inc > inc })
}

// taskStart is the latest incarnation of a task that was given to anybody.
type taskStart struct {
	task ids.TaskID
	inc  ids.Incarnation
}

// given notes the incarnation of tasks that start.
func (o *oracle) given(tasks barrier.TaskSet, inc ids.Incarnation) {
	for _, t := range tasks {
		i := slices.IndexFunc(o.newestOf, func(x taskStart) bool { return x.task == t })
		if i < 0 {
			o.newestOf = append(o.newestOf, taskStart{t, inc})
		} else {
			o.newestOf[i].inc = max(o.newestOf[i].inc, inc)
		}
	}
}

// appended looks at every record of the control log.
func (o *oracle) appended(off int64, r barrier.Record) {
	st := &o.w.stats
	if o.copied(r) {
		return
	}
	switch b := r.Body.(type) {
	case barrier.Start:
		o.newestStart = max(o.newestStart, ids.Incarnation(off))
	case barrier.Trigger:
		st.Triggers++
		if o.moving = len(b.Moves) > 0; o.moving {
			o.w.onHandover(b.Moves)
		}
	case barrier.Abort:
		o.moving = false
		st.Aborts++
	case barrier.Rollback:
		st.Rollbacks++
		if len(b.Tasks) < len(o.w.plan.allTasks()) {
			st.Partial++
		}
		// Slow checkpoints may leave transactions too old for the next one (R22), also
		// where nothing fails.
		o.upset = o.upset || strings.HasPrefix(b.Reason, "transactions would outlive")
		if o.w.plan.gentle && !o.upset && b.Reason != "tasks were stopped" && b.Reason != "go on with the rollback that was found" {
			o.w.fail("tasks roll back though nothing failed: %s", b.Reason)
		}
	case barrier.Restore:
		st.Restores++
		if o.moving {
			st.RestoredMoves++
		}
		if slices.ContainsFunc(o.retained, func(ref barrier.CheckpointRef) bool { return ref.N == b.N }) {
			o.restores = append(o.restores, restoreAt{off, b.N})
		}
	case barrier.Forfeit:
		o.forfeits(b)
	case barrier.Committed:
		o.committedSaid(b)
	case barrier.Snapshot:
		if b.Part == b.Of-1 {
			st.Snapshots++
		}
	case barrier.Retire:
		o.retained = slices.DeleteFunc(o.retained, func(ref barrier.CheckpointRef) bool { return ref.N == b.N })
	case barrier.Ack:
		for _, t := range b.Txns {
			o.listed = append(o.listed, listing{r.Instance, t.Handle, b.N})
		}
	case barrier.Complete:
		o.moving = false
		to, ok := o.cutOf(barrier.CheckpointRef{N: b.N, Manifest: b.Manifest})
		if !ok {
			return // void, and its objects are gone; marked checks the valid ones
		}
		o.cuts = append(o.cuts, cut{n: b.N, at: o.w.now})
		if len(to.carried) > 0 {
			st.CarryingOver++
		}
		o.w.sleepOverCommit()
		for i, v := range to.to {
			o.highest[i] = max(o.highest[i], v)
		}
	}
}

// copied reports whether the writer appended the record before (R1).
func (o *oracle) copied(r barrier.Record) bool {
	for i := range o.writers {
		if w := &o.writers[i]; w.id == r.Instance {
			if r.Seq <= w.seq {
				return true
			}
			w.seq = r.Seq
			return false
		}
	}
	o.writers = append(o.writers, writerSeq{r.Instance, r.Seq})
	return false
}

// cutOf returns the input positions of a checkpoint.
func (o *oracle) cutOf(ref barrier.CheckpointRef) (reach, bool) {
	offs, absent := o.w.store.external(ref)
	if absent != "" {
		return reach{}, false
	}
	to := make([]int64, len(o.w.inputs))
	for _, x := range offs {
		to[o.w.plan.sourceIndex(x.tp)] = x.next
	}
	return reach{to, o.w.store.get(ref.Manifest).manifest.carried}, true
}

// marked: a coordinator says that a checkpoint is completed and committed.
func (o *oracle) marked(ref barrier.CheckpointRef) {
	w := o.w
	if ref.N < o.newest && o.mayWriteBack(ref.N) {
		// Behind a Restore: what is later is retired by it.
		o.retained = slices.DeleteFunc(o.retained, func(r barrier.CheckpointRef) bool { return r.N > ref.N })
	}
	if slices.ContainsFunc(o.retained, func(r barrier.CheckpointRef) bool { return r.N == ref.N }) || ref.N <= o.newest {
		return
	}
	if slices.ContainsFunc(o.starts, func(s startOf) bool { return s.back && s.n < ref.N && s.inc > ids.Incarnation(ref.N) }) {
		return // a coordinator that was replaced marks what a Restore retired
	}
	to, ok := o.cutOf(ref)
	if !ok && o.retired(ref.N) {
		return // a coordinator that was replaced is late with its marker
	}
	if !ok {
		w.fail("checkpoint %d is completed, but objects of it are missing", ref.N)
		return
	}
	o.marks++
	w.stats.Completes++
	o.newest = ref.N
	o.retained = append(o.retained, ref)
	if o.lossy {
		return
	}
	for src, in := range w.inputs {
		for k := range keys {
			if want := o.below(to, src, k); o.done[src][k] < want {
				w.fail("lost: checkpoint %d is committed with %s up to %d, but of its %d records with key %d only %d were output", ref.N, in.tp, to.to[src], want, k, o.done[src][k])
				return
			}
		}
	}
}

// committedOutput counts a record whose commit is certain.
func (o *oracle) committedOutput(r *output) {
	if r.committed || r.loop {
		return
	}
	r.committed = true
	if d := &o.done[r.src][r.key]; *d == r.idx {
		*d++
	}
}

// committing: the broker commits a transaction.
func (o *oracle) committing(h ids.TxnHandle) {
	for _, l := range o.listed {
		if l.handle != h {
			continue
		}
		if slices.ContainsFunc(o.cuts, func(c cut) bool { return c.n == l.n }) {
			o.closed = append(o.closed, h)
			return
		}
	}
	o.w.fail("transaction %v is committed, but no completed checkpoint lists it", h)
}

// visible: a read-committed consumer reads an output.
func (o *oracle) visible(s *sinkPartition, r *output) {
	w := o.w
	w.stats.Outputs++
	if o.lossy || o.gap {
		return // what is missing cannot be told from what is wrong
	}
	w.note(uint64(r.src), uint64(r.key), uint64(r.off), uint64(r.count1), uint64(r.count2))
	part := int(s.tp.Partition)
	writer := int(r.last)
	if w.plan.hop2 > 0 && !r.loop {
		writer += max(w.plan.hop1, w.plan.hop2)
	}
	last := &o.lastInc[part][writer]
	switch {
	case r.inc < *last:
		w.fail("%s: output of task partition %d's incarnation %d after one of %d", s.tp, r.last, r.inc, *last)
		return
	case r.inc > *last:
		*last = r.inc
		o.switched(s, r)
	}
	if r.off >= o.highest[r.src] {
		w.fail("%s: output of %s offset %d is committed, completed checkpoints reach to %d", s.tp, w.inputs[r.src].tp, r.off, o.highest[r.src])
		return
	}
	next, count, loop := &o.next[r.src][r.key], &o.count1[r.hop1][r.key], 0
	if r.loop {
		next, count, loop = &o.nextLoop[r.src][r.key], &o.loops[r.last][r.key], 1
	}
	if r.idx != *next {
		what := "lost"
		if r.idx < *next {
			what = "doubled"
		}
		w.fail("%s: %s: record %d of %s key %d (offset %d, cycle %t, incarnation %d) is output where record %d belongs", s.tp, what, r.idx, w.inputs[r.src].tp, r.key, r.off, r.loop, r.inc, *next)
		return
	}
	*next++
	if *count++; r.count1 != *count {
		w.fail("%s: %s offset %d key %d has running count %d, want %d", s.tp, w.inputs[r.src].tp, r.off, r.key, r.count1, *count)
		return
	}
	if w.plan.hop2 > 0 && !r.loop {
		c := &o.count2[r.last][r.key]
		if *c++; r.count2 != *c {
			w.fail("%s: %s offset %d key %d has second count %d, want %d", s.tp, w.inputs[r.src].tp, r.off, r.key, r.count2, *c)
			return
		}
	}
	if last := &o.stream[part][loop][r.last]; r.stream < *last {
		w.fail("%s: stream time of task partition %d falls from %d to %d", s.tp, r.last, *last, r.stream)
	} else {
		*last = r.stream
	}
}

// switched: a partition shows the first output of a task's incarnation. What it
// showed of the task before must be exactly what its checkpoint covers.
func (o *oracle) switched(s *sinkPartition, r *output) {
	w, p, inc := o.w, &o.w.plan, r.inc
	i := slices.IndexFunc(o.starts, func(x startOf) bool { return x.inc == inc })
	if i < 0 {
		w.fail("%s: output of incarnation %d, which nobody started", s.tp, inc)
		return
	}
	st := &o.starts[i]
	back := slices.ContainsFunc(o.starts[:i+1], func(x startOf) bool { return x.back })
	if back {
		for j := range o.stream[s.tp.Partition] {
			o.stream[s.tp.Partition][j][r.last] = barrier.NoTime
		}
	}
	if r.loop && p.hop2 > 0 {
		return // what hop 1 outputs of the cycle only
	}
	for src, in := range w.inputs {
		for k := range keys {
			if last := p.lastTask(src, k); last != int32(r.last) || p.sinkOf(last, k) != s.tp.Partition {
				continue
			}
			want := o.below(st.to, src, k)
			got := &o.next[src][k]
			if *got != want && !back {
				w.fail("%s: incarnation %d starts from checkpoint %d, which covers %d records of %s key %d, but %d were output before", s.tp, inc, st.n, want, in.tp, k, *got)
				return
			}
			if back {
				diff := want - *got
				o.count1[p.hop1From(src, k)][k] += diff
				if p.hop2 > 0 {
					o.count2[p.hop2Of(k)][k] += diff
				}
				*got = want
			}
		}
	}
}

// started: an instance begins to start tasks.
func (o *oracle) started(p *process, e barrier.DoStartTasks) {
	w := o.w
	o.given(e.Tasks, e.Incarnation)
	i := slices.IndexFunc(o.starts, func(x startOf) bool { return x.inc == e.Incarnation })
	if i >= 0 {
		if o.starts[i].n != e.From.N {
			w.fail("%s starts incarnation %d from checkpoint %d, others from %d", p.name, e.Incarnation, e.From.N, o.starts[i].n)
		}
		return
	}
	to, ok := o.cutOf(e.From)
	if !ok {
		if e.Incarnation >= o.newestStart && !o.undone(e) {
			w.fail("%s starts incarnation %d from checkpoint %d, of which objects are missing", p.name, e.Incarnation, e.From.N)
		}
		return
	}
	st := startOf{inc: e.Incarnation, n: e.From.N, to: to}
	if e.From.N < o.newest && e.Incarnation >= o.newestStart && !o.carries(e.Tasks) {
		st.back = true
		o.goneBack(st)
	}
	o.starts = append(o.starts, st)
	slices.SortFunc(o.starts, func(a, b startOf) int { return int(a.inc - b.inc) })
}

// carries reports whether the newest checkpoint holds tasks as an earlier one did:
// they may still start from that.
func (o *oracle) carries(tasks barrier.TaskSet) bool {
	i := slices.IndexFunc(o.retained, func(r barrier.CheckpointRef) bool { return r.N == o.newest })
	if i < 0 {
		return false
	}
	to, ok := o.cutOf(o.retained[i])
	return ok && !slices.ContainsFunc(tasks, func(t ids.TaskID) bool {
		return !slices.ContainsFunc(to.carried, func(c carriedPart) bool { return c.task == t })
	})
}

// undone reports whether a Restore behind a start retired its checkpoint: whoever
// reads the start late finds objects deleted, and soon reads why.
func (o *oracle) undone(e barrier.DoStartTasks) bool {
	return slices.ContainsFunc(o.restores, func(r restoreAt) bool { return r.n < e.From.N && r.at > int64(e.Incarnation) })
}

// goneBack: the application goes on from an older checkpoint.
func (o *oracle) goneBack(st startOf) {
	asked := slices.ContainsFunc(o.w.log.records, func(r barrier.Record) bool {
		b, ok := r.Body.(barrier.Restore)
		return ok && b.N == st.n
	})
	if !asked {
		o.w.fail("incarnation %d starts from checkpoint %d, but %d is completed and committed", st.inc, st.n, o.newest)
		return
	}
	o.restored = append(o.restored, st.n)
	o.newest = st.n
	o.retained = slices.DeleteFunc(o.retained, func(r barrier.CheckpointRef) bool { return r.N > st.n })
	for src := range o.w.inputs {
		for k := range keys {
			o.done[src][k] = o.below(st.to, src, k)
		}
	}
}

// offsetMoves: a group offset is overwritten. The copy of a request that was
// repeated, when it comes late (it may even begin another transaction under the
// old handle, which the next repetition of EndTxn commits), can move the mirror
// back; its tag says so, and R28 allows it.
func (o *oracle) offsetMoves(old, to groupOffset) {
	if to.again {
		return
	}
	_, was, _ := transactions.ParseOffsetMetadata(old.meta)
	_, n, tagged := transactions.ParseOffsetMetadata(to.meta)
	if tagged && (to.next < old.next || n < was) && !slices.Contains(o.restored, n) && !o.mayWriteBack(n) {
		o.w.fail("group offset of %s moves back from %d (%s) to %d (%s)", to.tp, old.next, old.meta, to.next, to.meta)
	}
}

// retired reports whether a record of the log retires checkpoint n.
func (o *oracle) retired(n ids.CheckpointID) bool {
	for _, r := range o.restores {
		if r.n < n && r.at > int64(n) {
			return true
		}
	}
	return slices.ContainsFunc(o.w.log.records[n:], func(r barrier.Record) bool {
		b, ok := r.Body.(barrier.Retire)
		return ok && b.N == n
	})
}

// mayWriteBack: a Restore of n was asked for. Offsets are overwritten before
// the Start that follows it, by which the oracle learns of it.
func (o *oracle) mayWriteBack(n ids.CheckpointID) bool {
	return slices.ContainsFunc(o.w.log.records, func(r barrier.Record) bool {
		b, ok := r.Body.(barrier.Restore)
		return ok && b.N == n
	})
}

// deleted: an object is removed.
func (o *oracle) deleted(obj *object) {
	for _, ref := range o.retained {
		if slices.Contains(o.w.store.needs(ref.Manifest), obj.key) {
			o.w.fail("object %s is deleted, but retained checkpoint %d needs it", obj.key, ref.N)
		}
	}
}

// overwritten: an object gets another content.
func (o *oracle) overwritten(old, to *object) {
	if slices.Equal(old.file, to.file) && old.part == to.part {
		return
	}
	for _, ref := range o.retained {
		if slices.Contains(o.w.store.needs(ref.Manifest), old.key) {
			o.w.fail("object %s, which retained checkpoint %d needs, is overwritten with another content", old.key, ref.N)
		}
	}
}

// purged: repartition records are deleted.
func (o *oracle) purged(r *repPartition) {
	for _, ref := range o.retained {
		parts, absent := o.w.store.parts(ref.Manifest)
		if absent != "" {
			continue
		}
		for _, pos := range positionsOf(parts, r.tp) {
			// The target of a Restore does without: its upstream tasks write
			// the records again (R29).
			needed := ref.N == o.newest && !o.mayWriteBack(ref.N) || pos.InFlight(ref.N)
			if pos.Next < r.start && needed {
				o.w.fail("%s is purged up to %d, checkpoint %d needs it from %d", r.tp, r.start, ref.N, pos.Next)
			}
		}
	}
}

// positionBelowStart: a restore finds a position that was purged (R29).
func (o *oracle) positionBelowStart(p *process, e barrier.DoStartTasks, r *repPartition, next int64) {
	if e.Incarnation >= o.newestStart && !slices.ContainsFunc(o.restored, func(n ids.CheckpointID) bool { return n == e.From.N }) {
		o.w.fail("%s restores %s at %d from checkpoint %d, below its start %d", p.name, r.tp, next, e.From.N, r.start)
	}
}

// lostSlack is what requests may take between the decision and its execution.
const lostSlack = 300

// overslept reports whether more time went by since a Complete than the settings
// allow for until its transactions are committed (R22).
func (o *oracle) overslept(c cut) bool {
	return o.w.now-c.at > sessionTimeout+o.w.plan.expectedRestart-lostSlack
}

// fatal: a machine or pool gives up.
func (o *oracle) fatal(p *process, err error) {
	w := o.w
	if strings.HasPrefix(err.Error(), "restore from checkpoint") {
		return // refused: it was retired meanwhile
	}
	for _, c := range o.cuts {
		if c.n == o.lostIn && o.overslept(c) && w.stats.TxnTimeouts > 0 {
			w.stats.LostByTimeout++
			w.tracef("%s: %v", p.name, err)
			return
		}
	}
	w.fail("%s ends with: %v", p.name, err)
}

// complete reports whether everything was output.
func (o *oracle) complete() bool {
	if o.lossy {
		return true
	}
	for src, in := range o.w.inputs {
		for k := range keys {
			all := int32(len(in.byKey[k]))
			if o.gap { // what consumers see is not followed any more
				if o.done[src][k] < all {
					return false
				}
				continue
			}
			if o.next[src][k] < all || o.w.plan.loops(k) && o.nextLoop[src][k] < all {
				return false
			}
		}
	}
	return true
}

// timesOut: the broker ends a transaction that nobody ended in time. If it was
// decided and everybody slept for too long, its output is lost and the
// application will stop, but commits what else was decided before (R23): what
// consumers see until then has a gap. That it does stop is still checked: no
// checkpoint may be marked any more (marked). An empty transaction that a late
// request begins under the handle of a committed one takes nothing along.
func (o *oracle) timesOut(h ids.TxnHandle) {
	o.expired = append(o.expired, h)
	if slices.Contains(o.closed, h) {
		return
	}
	for _, l := range o.listed {
		if l.handle != h {
			continue
		}
		for _, c := range o.cuts {
			if c.n == l.n {
				o.lossy = o.lossy || o.w.trims.forfeit
				o.gap = o.gap || o.overslept(c)
			}
		}
	}
}

// forfeits: a transaction is given up. It must be one that the broker ended.
func (o *oracle) forfeits(b barrier.Forfeit) {
	switch {
	case !o.w.trims.forfeit:
		o.w.fail("transaction %s is given up, which nobody allowed", b.Handle)
	case !slices.Contains(o.expired, b.Handle):
		o.w.fail("transaction %s of checkpoint %d is given up, but the broker did not end it", b.Handle, b.N)
	default:
		o.waived = append(o.waived, b.Handle)
		o.lossy = true
		o.w.stats.Forfeits++
	}
}

// committedSaid: somebody says that all of an instance's transactions of a
// checkpoint are committed. Those that got lost must have been given up before
// (R23: never in silence).
func (o *oracle) committedSaid(b barrier.Committed) {
	for _, l := range o.listed {
		lost := slices.Contains(o.expired, l.handle) && !slices.Contains(o.closed, l.handle)
		if l.owner == b.Owner && l.n == b.N && lost && !slices.Contains(o.waived, l.handle) {
			o.w.fail("transactions of %s for checkpoint %d are said to be committed, but the broker ended %s, and nobody gave it up", b.Owner, b.N, l.handle)
		}
	}
}
