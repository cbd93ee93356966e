package tasks

import (
	"slices"
	"testing"
	"time"
)

func TestUpstreamWaitsForTheReader(t *testing.T) {
	var b backpressure
	begin := time.Unix(100, 0)
	// Subtopology 3 reads what 1 writes, which reads what 0 writes; 2 is another
	// region.
	round := func(after time.Duration, behind bool, want ...int) {
		t.Helper()
		b.begin(begin.Add(after))
		got := []int{b.most(3)}
		if behind {
			b.behind([]int32{1, 0})
		}
		got = append(got, b.most(2), b.most(1), b.most(0))
		if !slices.Equal(got, want) {
			t.Errorf("after %v, behind %v: turns %v, want %v", after, behind, got, want)
		}
		if b.heldBack != behind {
			t.Errorf("after %v: held back %v, want %v", after, b.heldBack, behind)
		}
	}
	round(0, false, budget, budget, budget, budget)
	round(time.Millisecond, true, budget, budget, 0, 0)
	round(upstreamTurn, true, budget, budget, upstreamBudget, upstreamBudget)
	round(upstreamTurn+time.Millisecond, true, budget, budget, 0, 0)
	round(upstreamTurn+2*time.Millisecond, false, budget, budget, budget, budget)
}

// A task is behind when a repartition partition holds more than it takes in
// 100 ms, unless another one is read to its end.
func TestBehind(t *testing.T) {
	j := newJoining(t)
	is := func(want bool, why string) {
		t.Helper()
		if got := j.behind(); got != want {
			t.Errorf("%s: behind %v, want %v", why, got, want)
		}
	}
	j.internal.next, j.internal.end = 50, 50+leastBacklog
	is(false, "no pace yet, the least backlog")
	j.internal.end++
	is(true, "one more")
	for range 40 {
		j.pace.records = 5000
		j.pace.look(50 * time.Millisecond)
	}
	j.internal.end = j.internal.next + 4900 // of 10,000 in 100 ms, for two inputs
	is(false, "less than 100 ms")
	j.internal.end += 200
	is(true, "more than 100 ms")
	other := &input{spec: InputSpec{Internal: true}, end: 7, next: 7}
	j.inputs = append(j.inputs, other)
	is(false, "another partition is read to its end")
	other.end = 8
	is(true, "another partition is empty, but has more")
	j.parked = true
	is(false, "stopped behind a barrier")
	j.parked, j.external.end = false, 1<<40
	j.internal.end = j.internal.next
	is(false, "a long source topic")
}
