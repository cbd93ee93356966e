package barrier

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// stateVersion is the first byte of an encoded fold.
const stateVersion = 2

// stateOfAll is the version before tasks could be carried: as if none had
// started since the last checkpoint.
const stateOfAll = 1

// Bits of the flags of a fold, of an instance and of a checkpoint.
const (
	flagRestored = 1 << iota
	flagRestoring
	flagStopped
	flagHeldUp
	flagHasZero
)

const (
	flagOwned = 1 << iota
	flagLeaving
	flagDead
	flagAssigned
)

// AppendState appends the encoded fold (docs/format/control-log.md): everything
// that decides how later records are judged. Equal folds have equal encodings.
//
// REQUIRES: the log has a life.
func (l *Log) AppendState(dst []byte) []byte {
	e := stateEncoder{encoder: encoder{b: dst}}
	e.byte(stateVersion)
	e.varint(l.end)
	e.fixed(uint64(l.life))
	e.varint(l.term)
	e.instance(l.leader)
	e.varint(l.leadAt)
	e.flags(l.restored, l.restoring, l.stopped, l.heldUp, l.hasZero)
	e.uvarint(uint64(l.aborts))
	e.varint(l.trim.upTo)
	e.varint(l.trim.at)
	e.making(l.trim.making)
	e.registered(l.instances)
	e.removed(l.removed)
	e.started(l.start)
	e.rolledBack(l.rollback)
	e.uvarint(uint64(len(l.failures)))
	for _, f := range l.failures {
		e.instance(f.instance)
		e.varint(int64(f.rec.Incarnation))
		e.tasks(f.rec.Tasks)
		e.string(f.rec.Error)
	}
	lineages, open := l.lineages, l.undecided
	if l.rules.SkipTrimOpen {
		open = nil
	}
	e.lineages(lineages)
	e.undecided(open)
	e.undecided(l.lastAbort)
	e.uvarint(uint64(len(l.completed)))
	for _, c := range l.completed {
		e.completed(c, l.rules.SkipTrimUncommitted)
	}
	e.uvarint(uint64(len(l.restores)))
	for _, r := range l.restores {
		e.varint(int64(r.N))
		e.string(r.Nonce)
	}
	return e.b
}

// DecodeState is the inverse of AppendState. The result does not alias b.
func DecodeState(rules Rules, b []byte) (*Log, error) {
	d := stateDecoder{decoder: decoder{b: b}}
	v := d.byte()
	if d.ofAll = v == stateOfAll; d.err == nil && v != stateVersion && !d.ofAll {
		return nil, fmt.Errorf("the state has version %d, this program reads %d and %d: run the version of tidegate that wrote it", v, stateOfAll, stateVersion)
	}
	l := NewLog(rules)
	l.haveLife = true
	l.end, l.life = d.offset(), ids.Life(d.fixed())
	l.term, l.leader, l.leadAt = d.varint(), d.instance(), d.offset()
	f := d.byte()
	l.restored, l.restoring, l.stopped = f&flagRestored != 0, f&flagRestoring != 0, f&flagStopped != 0
	l.heldUp, l.hasZero = f&flagHeldUp != 0, f&flagHasZero != 0
	l.aborts = int(d.int32())
	l.trim = trimmable{upTo: d.offset(), at: d.offset(), making: d.making()}
	l.instances, l.removed = d.registered(), d.removed()
	l.start, l.rollback = d.started(), d.rolledBack()
	for range d.count(4) {
		l.failures = append(l.failures, failure{d.instance(), Failed{Incarnation: d.incarnation(), Tasks: d.tasks(), Error: d.string()}})
	}
	l.lineages = d.lineages()
	l.undecided, l.lastAbort = d.undecided(), d.undecided()
	for range d.count(5) {
		l.completed = append(l.completed, d.completed())
	}
	for range d.count(2) {
		l.restores = append(l.restores, Restore{N: d.checkpoint(), Nonce: d.string()})
	}
	if rules.SkipR2 {
		l.terms = append(l.terms, leadTerm{l.term, l.leader})
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return l, l.consistent()
}

// consistent checks what the rest of the fold relies on without looking.
func (l *Log) consistent() error {
	ascending := slices.IsSortedFunc(l.completed, func(a, b *completed) int { return int(a.ref.N - b.ref.N) })
	known := !slices.ContainsFunc(l.failures, func(f failure) bool { return l.find(f.instance) == nil })
	switch {
	case l.end < 1:
		return errors.New("the state is of no record")
	case !ascending:
		return errors.New("completed checkpoints are not in order")
	case !known:
		return errors.New("a failure is of an unknown instance")
	case (l.start != nil || l.undecided != nil) && len(l.completed) == 0:
		return errors.New("tasks run, but nothing completed")
	case l.undecided != nil && l.start == nil:
		return errors.New("a checkpoint is undecided, but no tasks run")
	}
	if l.start != nil {
		for _, o := range l.start.owners {
			if !l.start.tasks.ContainsAll(o.Tasks) {
				return fmt.Errorf("instance %s owns tasks that nobody started", o.Instance)
			}
		}
	}
	return nil
}

// stateEncoder and stateDecoder write and read the parts of a fold.
type stateEncoder struct{ encoder }

type stateDecoder struct {
	decoder
	ofAll bool // stateOfAll
}

func (e *encoder) flags(bits ...bool) {
	v := byte(0)
	for i, b := range bits {
		if b {
			v |= 1 << i
		}
	}
	e.byte(v)
}

func (e *stateEncoder) making(m makingSnapshot) {
	e.uvarint(uint64(m.of))
	if m.of > 0 {
		e.instance(m.writer)
		e.varint(m.term)
		e.varint(m.upTo)
		e.uvarint(uint64(m.next))
	}
}

func (d *stateDecoder) making() (m makingSnapshot) {
	if m.of = int(d.int32()); m.of > 0 {
		m.writer, m.term, m.upTo, m.next = d.instance(), d.varint(), d.offset(), int(d.int32())
	}
	return m
}

// prefixed writes strings that begin alike, each as what it shares with the one
// before and the rest.
func (e *encoder) prefixed(s []string) {
	e.uvarint(uint64(len(s)))
	last := ""
	for _, v := range s {
		n := 0
		for n < min(len(v), len(last)) && v[n] == last[n] {
			n++
		}
		e.uvarint(uint64(n))
		e.string(v[n:])
		last = v
	}
}

func (d *decoder) prefixed() []string {
	var out []string
	last := ""
	for range d.count(2) {
		n := d.uvarint()
		if n > uint64(len(last)) {
			d.fail(errors.New("a string shares more than the one before has"))
			return nil
		}
		// The same text over and over must not blow a small input up.
		if last = last[:n] + d.string(); len(last) > maxName {
			d.fail(errors.New("a name is too long"))
			return nil
		}
		out = append(out, last)
	}
	return out
}

// maxName is longer than any transactional id that Kafka takes.
const maxName = 32 << 10

// registered writes the instances. Their member lists are mostly the same one,
// so each different list is written once.
func (e *stateEncoder) registered(list []*instance) {
	var members [][]ids.InstanceID
	index := func(m []ids.InstanceID) int {
		i := slices.IndexFunc(members, func(o []ids.InstanceID) bool { return slices.Equal(o, m) })
		if i < 0 {
			i = len(members)
			members = append(members, m)
		}
		return i
	}
	for _, in := range list {
		if in.assignedAt >= 0 {
			index(in.assigned.Members)
		}
	}
	e.uvarint(uint64(len(members)))
	for _, m := range members {
		e.instances(m)
	}
	e.uvarint(uint64(len(list)))
	for _, in := range list {
		e.instance(in.id)
		e.uvarint(in.seq)
		e.varint(in.registered)
		e.prefixed(in.txnIDs)
		e.flags(in.owned, in.leaving, in.dead, in.assignedAt >= 0)
		e.tasks(in.ready)
		if in.dead {
			e.varint(in.deadAt)
			e.varint(in.deadTerm)
		}
		if in.assignedAt >= 0 {
			e.varint(in.assignedAt)
			e.varint(int64(in.assigned.Generation))
			e.tasks(in.assigned.Tasks)
			e.uvarint(uint64(index(in.assigned.Members)))
			e.string(in.assigned.Fingerprint)
		}
	}
}

func (d *stateDecoder) registered() []*instance {
	var members [][]ids.InstanceID
	for range d.count(1) {
		members = append(members, d.instances())
	}
	var out []*instance
	for range d.count(14) {
		in := &instance{id: d.instance(), seq: d.uvarint(), registered: d.offset(), txnIDs: d.prefixed(), assignedAt: -1}
		if k := len(out); k > 0 && out[k-1].id.Compare(in.id) >= 0 {
			d.fail(errors.New("instances are not sorted"))
		}
		f := d.byte()
		in.owned, in.leaving, in.dead = f&flagOwned != 0, f&flagLeaving != 0, f&flagDead != 0
		in.ready = d.tasks()
		if in.dead {
			in.deadAt, in.deadTerm = d.offset(), d.varint()
		}
		if f&flagAssigned != 0 {
			in.assignedAt = max(d.offset(), 0)
			in.assigned = Assigned{Generation: d.generation(), Tasks: d.tasks()}
			i := d.int32()
			if int(i) >= len(members) {
				d.fail(errors.New("a list of members is missing"))
				return nil
			}
			in.assigned.Members, in.assigned.Fingerprint = members[i], d.string()
		}
		out = append(out, in)
	}
	return out
}

// removed writes instances by name: one process that restarts often has one
// name and many numbers.
func (e *stateEncoder) removed(list []ids.InstanceID) {
	names := 0
	for i := range list {
		if i == 0 || list[i].Name != list[i-1].Name {
			names++
		}
	}
	e.uvarint(uint64(names))
	for i := 0; i < len(list); {
		j := i
		for j < len(list) && list[j].Name == list[i].Name {
			j++
		}
		e.string(list[i].Name)
		e.uvarint(uint64(j - i))
		for ; i < j; i++ {
			e.fixed(list[i].Rand)
		}
	}
}

func (d *stateDecoder) removed() []ids.InstanceID {
	var out []ids.InstanceID
	for range d.count(2) {
		name := d.string()
		for range d.count(8) {
			out = append(out, ids.InstanceID{Name: name, Rand: d.fixed()})
		}
	}
	if !slices.IsSortedFunc(out, ids.InstanceID.Compare) {
		d.fail(errors.New("removed instances are not sorted"))
	}
	return out
}

func (e *encoder) owners(list []Owner) {
	e.uvarint(uint64(len(list)))
	for _, o := range list {
		e.instance(o.Instance)
		e.tasks(o.Tasks)
	}
}

func (d *decoder) owners() []Owner {
	n := d.count(10)
	if n == 0 {
		return nil
	}
	out := make([]Owner, n)
	for i := range out {
		out[i] = Owner{Instance: d.instance(), Tasks: d.tasks()}
		if i > 0 && out[i-1].Instance.Compare(out[i].Instance) >= 0 {
			d.fail(errors.New("owners are not sorted"))
		}
	}
	return out
}

// started writes who runs what: the Start, the owners as of now, and the tasks
// by their incarnation.
func (e *stateEncoder) started(s *started) {
	e.bool(s != nil)
	if s == nil {
		return
	}
	e.varint(int64(s.at))
	e.start(s.rec)
	e.owners(s.owners)
	var incs []ids.Incarnation
	for _, inc := range s.incs {
		if !slices.Contains(incs, inc) {
			incs = append(incs, inc)
		}
	}
	slices.Sort(incs)
	e.uvarint(uint64(len(incs)))
	for _, inc := range incs {
		var of TaskSet
		for i, t := range s.tasks {
			if s.incs[i] == inc {
				of = append(of, t)
			}
		}
		e.varint(int64(inc))
		e.tasks(of)
	}
	e.tasks(s.running)
	e.tasks(s.fresh)
}

func (d *stateDecoder) started() *started {
	if !d.bool() {
		return nil
	}
	s := &started{at: d.incarnation(), rec: d.start(), owners: d.owners()}
	incs := map[ids.TaskID]ids.Incarnation{}
	for range d.count(2) {
		inc, of := d.incarnation(), d.tasks()
		s.tasks = s.tasks.Union(of)
		for _, t := range of {
			incs[t] = inc
		}
	}
	for _, t := range s.tasks {
		s.incs = append(s.incs, incs[t])
	}
	s.running = d.tasks()
	if !d.ofAll {
		s.fresh = d.tasks()
	}
	return s
}

func (e *stateEncoder) rolledBack(rb *rolledBack) {
	e.bool(rb != nil)
	if rb != nil {
		e.varint(rb.at)
		e.varint(rb.term)
		e.tasks(rb.tasks)
		e.tasks(rb.named)
	}
}

func (d *stateDecoder) rolledBack() *rolledBack {
	if !d.bool() {
		return nil
	}
	return &rolledBack{at: d.offset(), term: d.varint(), tasks: d.tasks(), named: d.tasks()}
}

func (e *encoder) lineages(l Lineages) {
	e.uvarint(uint64(len(l.Groups)))
	for _, g := range l.Groups {
		e.tasks(g.Tasks)
		e.uvarint(uint64(len(g.Lineage)))
		for _, p := range g.Lineage {
			e.varint(int64(p.Inc))
			e.varint(int64(p.End))
		}
	}
}

func (d *decoder) lineages() (l Lineages) {
	for range d.count(2) {
		g := LineageGroup{Tasks: d.tasks()}
		if len(g.Tasks) == 0 {
			d.fail(errors.New("a lineage is of no task"))
			return l
		}
		for range d.count(2) {
			g.Lineage = append(g.Lineage, Pair{Inc: d.incarnation(), End: d.checkpoint()})
		}
		l.Groups = append(l.Groups, g)
	}
	return l
}

func (e *encoder) ref(r CheckpointRef) {
	e.varint(int64(r.N))
	e.string(r.Manifest)
}

func (d *decoder) ref() CheckpointRef { return CheckpointRef{N: d.checkpoint(), Manifest: d.string()} }

func (e *encoder) acks(list []AckRef) {
	e.uvarint(uint64(len(list)))
	for _, a := range list {
		e.instance(a.Instance)
		e.tasks(a.Tasks)
		e.ack(a.Ack)
	}
}

func (d *decoder) acks() []AckRef {
	var out []AckRef
	for range d.count(15) {
		out = append(out, AckRef{Instance: d.instance(), Tasks: d.tasks(), Ack: d.ack()})
	}
	if !slices.IsSortedFunc(out, func(a, b AckRef) int { return a.Instance.Compare(b.Instance) }) {
		d.fail(errors.New("acks are not sorted"))
	}
	return out
}

func (e *stateEncoder) undecided(u *undecided) {
	e.bool(u != nil)
	if u == nil {
		return
	}
	e.varint(int64(u.n))
	e.varint(u.term)
	e.bool(u.stop)
	e.moves(u.moves)
	e.tasks(u.carried)
	e.ref(u.base)
	e.byte(byte(u.reason))
	e.acks(u.acks)
	e.uvarint(uint64(len(u.declines)))
	for _, x := range u.declines {
		e.instance(x.instance)
		e.varint(int64(x.decline.N))
		e.byte(byte(x.decline.Reason))
		e.string(x.decline.Detail)
	}
}

func (d *stateDecoder) undecided() *undecided {
	if !d.bool() {
		return nil
	}
	u := &undecided{n: d.checkpoint(), term: d.varint(), stop: d.bool(), moves: d.moves()}
	if !d.ofAll {
		u.carried = d.tasks()
	}
	u.base, u.reason, u.acks = d.ref(), AbortReason(d.byte()), d.acks()
	for range d.count(12) {
		u.declines = append(u.declines, declineEntry{d.instance(), Decline{N: d.checkpoint(), Reason: DeclineReason(d.byte()), Detail: d.string()}})
	}
	return u
}

func (e *stateEncoder) completed(c *completed, forget bool) {
	acks := c.acks
	if forget {
		acks = nil
	}
	e.ref(c.ref)
	e.bool(c.stop)
	e.acks(acks)
	e.instances(c.committed)
	e.uvarint(uint64(len(c.forfeited)))
	for _, h := range c.forfeited {
		e.handle(h)
	}
	e.lineages(c.lineages)
}

func (d *stateDecoder) completed() *completed {
	c := &completed{ref: d.ref(), stop: d.bool(), acks: d.acks(), committed: d.instances()}
	for range d.count(3) {
		c.forfeited = append(c.forfeited, d.handle())
	}
	c.lineages = d.lineages()
	return c
}
