package barrier

import "testing"

// A second answer to the check of R28 can come when tasks run again and have
// committed later offsets: it must not end the instance. (Seed 1096 of the
// simulation.)
func TestLateOffsetsAnswerIsIgnored(t *testing.T) {
	w := newWorld(2, Rules{})
	w.boot("a")
	w.run(5000)
	a := w.node("a")
	m := a.m
	last := m.log.last()
	if last == nil || last.ref.N == 0 || !m.Leading() {
		t.Fatalf("no checkpoint completed: %+v", last)
	}
	m.coord.offsets = offsetsState{n: last.ref.N, asked: true, done: true}
	w.step(a, EvOffsetsChecked{N: last.ref.N, Refusal: "offset of in-0 is 5 with the tag of a later checkpoint"})
	if ended, err := m.Ended(); ended {
		t.Fatalf("a late answer ended the instance: %v", err)
	}
	// One that is waited for counts when the log was read to its end: it may
	// show a later coordinator and its checkpoints.
	m.coord.offsets.done = false
	w.step(a, EvOffsetsChecked{N: last.ref.N, Refusal: "somebody reset them", LogEnd: m.LogEnd() + 1})
	if ended, err := m.Ended(); ended {
		t.Fatalf("judged before the log was read: %v", err)
	}
	m.coord.offsets.logEnd = m.LogEnd()
	w.step(a, EvTick{})
	if ended, _ := m.Ended(); !ended {
		t.Fatal("the refusal must end the instance")
	}
}
