package sim

import (
	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
)

// store is the object store.
type store struct {
	w       *World
	objects map[string]*object // looked up only; order is in list
	list    []*object
}

// object is one object. Exactly one of its contents is set.
type object struct {
	key      string
	life     ids.Life
	n        ids.CheckpointID // written for this checkpoint
	file     []change
	part     *part
	manifest *manifest
	marker   bool
	gone     bool
}

// change is one entry of a task's state file.
type change struct {
	slot  int32
	count int32
}

// part is what one instance stores of a checkpoint.
type part struct {
	tasks []taskPart
}

type taskPart struct {
	task      ids.TaskID
	files     []string
	positions []barrier.PartitionPosition
	inputs    []groupOffset
	times     barrier.TimesState
}

// manifest describes a checkpoint. zero is set for checkpoint 0 only.
type manifest struct {
	n    ids.CheckpointID
	acks []barrier.AckRef
	zero *part
	// carried are tasks that took no part, as they were (R26).
	carried []carriedPart
}

// carriedPart is a task as of an earlier checkpoint, and where the inputs stood
// there.
type carriedPart struct {
	taskPart
	cut []int64
}

// outcome is what became of a request to the store.
type outcome uint8

const (
	done outcome = iota
	exists
	missing
	failed
)

func (s *store) put(o *object, ifAbsent bool) outcome {
	old := s.objects[o.key]
	if old != nil && !old.gone && ifAbsent {
		return exists
	}
	if old != nil {
		s.w.oracle.overwritten(old, o)
		old.gone = true
	}
	s.objects[o.key] = o
	s.list = append(s.list, o)
	return done
}

func (s *store) get(key string) *object {
	if o := s.objects[key]; o != nil && !o.gone {
		return o
	}
	return nil
}

func (s *store) delete(key string) {
	if o := s.get(key); o != nil {
		s.w.oracle.deleted(o)
		o.gone = true
	}
}

// parts returns the parts of a completed checkpoint by its manifest's key;
// ok is false when an object is missing, whose key is then returned.
func (s *store) parts(key string) (parts []*part, absent string) {
	o := s.get(key)
	if o == nil || o.manifest == nil {
		return nil, key
	}
	m := o.manifest
	if m.zero != nil {
		return []*part{m.zero}, ""
	}
	for _, a := range m.acks {
		p := s.get(a.Ack.Part)
		if p == nil || p.part == nil {
			return nil, a.Ack.Part
		}
		parts = append(parts, p.part)
	}
	if len(m.carried) > 0 {
		old := &part{}
		for _, c := range m.carried {
			old.tasks = append(old.tasks, c.taskPart)
		}
		parts = append(parts, old)
	}
	return parts, ""
}

// carry returns what a checkpoint holds of tasks that take no part in the next.
func (s *store) carry(ref barrier.CheckpointRef, tasks barrier.TaskSet) (out []carriedPart, ok bool) {
	if len(tasks) == 0 {
		return nil, true
	}
	to, ok := s.w.oracle.cutOf(ref)
	if !ok {
		return nil, false
	}
	parts, _ := s.parts(ref.Manifest)
	for _, pt := range parts {
		for _, tp := range pt.tasks {
			if tasks.Contains(tp.task) {
				out = append(out, carriedPart{tp, to.of(tp.task)})
			}
		}
	}
	return out, len(out) == len(tasks)
}

// needs lists the keys of all objects that a checkpoint consists of.
func (s *store) needs(key string) []string {
	out := []string{key}
	o := s.get(key)
	if o == nil || o.manifest == nil {
		return out
	}
	for _, a := range o.manifest.acks {
		out = append(out, a.Ack.Part)
		if p := s.get(a.Ack.Part); p != nil && p.part != nil {
			for _, t := range p.part.tasks {
				out = append(out, t.files...)
			}
		}
	}
	for _, c := range o.manifest.carried {
		out = append(out, c.files...)
	}
	return out
}

// request sends a request to the store, which is slower than a broker and
// fails in its own ways: not at all reached, slow, failing, or carried out and
// then timed out.
func (s *store) request(p *process, do func() outcome, answer func(outcome)) {
	w := s.w
	if w.chaos && (w.now < w.storeDown || w.chance(w.plan.storeFails)) {
		if w.chance(300) {
			epoch := p.epoch
			w.after(w.between(1, w.plan.lateness+200), func() {
				w.stats.LateRequests++
				do()
			})
			p.laterAs(epoch, requestTimeout, func() { answer(failed) })
			return
		}
		p.later(w.between(1, 40), func() { answer(failed) })
		return
	}
	delay := w.between(1, 12)
	if w.chaos && w.chance(60) {
		delay += w.between(0, 400)
	}
	p.later(delay, func() {
		call(p, do, func(o outcome, ok bool) {
			if !ok {
				o = failed
			}
			answer(o)
		})
	})
}
