package barrier

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestChaos plays random stories over the world and checks: folds agree; no
// decided transaction is aborted (R1, R19, R27); and at a quiet time everybody
// runs and checkpoints complete. internal/sim does this in depth; this is the
// package's own short form.
func TestChaos(t *testing.T) {
	seeds := 100
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		if msg := chaos(uint64(seed), Rules{}); msg != "" {
			t.Fatalf("seed %d: %s", seed, msg)
		}
	}
}

// TestChaosFindsMissingRules proves that the chaos can fail.
func TestChaosFindsMissingRules(t *testing.T) {
	for name, rules := range map[string]Rules{"R3": {SkipR3: true}, "R27": {SkipR27: true}} {
		found := false
		for seed := range uint64(60) {
			if found = chaos(seed, rules) != ""; found {
				break
			}
		}
		if !found {
			t.Errorf("without %s nothing goes wrong", name)
		}
	}
}

var chaosKinds = []string{"running", "passed", "prepared", "committed", "manifest", "marked", "fenced", "offsets", "zero", "cleaned", "prefetched", "append-a", "append-b", "append-c"}

func chaos(seed uint64, rules Rules) string {
	w := chaosWorld(seed, rules)
	if len(w.bad) > 0 {
		return w.bad[0]
	}
	return w.settle(chaosNames)
}

var chaosNames = []string{"a", "b", "c"}

// chaosWorld plays the random part of a story, up to its end or a violation.
func chaosWorld(seed uint64, rules Rules) *world {
	rnd := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(4, rules)
	w.rnd = rand.New(rand.NewPCG(seed, 2))
	names := chaosNames
	for _, n := range names {
		w.boot(n)
	}
	for range 60 {
		w.run(int64(10 + 10*rnd.IntN(60)))
		n := w.node(names[rnd.IntN(len(names))])
		kind := chaosKinds[rnd.IntN(len(chaosKinds))]
		switch rnd.IntN(10) {
		case 0:
			w.crash(n.name)
		case 1, 2:
			if n.m == nil {
				w.boot(n.name)
			}
		case 3:
			n.paused = !n.paused
		case 4:
			w.leave(n)
		case 5:
			w.hold[kind] = true
		case 6, 7:
			w.release(kind)
		case 8:
			if n.m != nil && n.m.part.inc != 0 && len(n.m.part.tasks) > 0 {
				w.step(n, EvTaskFailed{Incarnation: n.m.log.start.incOf(n.m.part.tasks[0]), Tasks: n.m.part.tasks[:1], Error: "user error"})
			}
		case 9:
			if rnd.IntN(3) == 0 {
				w.step(n, EvShutdown{})
			} else if w.fold.undecided != nil {
				w.step(n, EvDeclined{N: w.fold.undecided.n, Reason: DeclineUpload})
			}
		}
		if msg := w.check(); msg != "" {
			w.bad = append(w.bad, msg)
			return w
		}
	}
	return w
}

// settle ends all disturbance and expects progress.
func (w *world) settle(names []string) string {
	for _, k := range chaosKinds {
		w.release(k)
	}
	for _, name := range names {
		n := w.node(name)
		n.paused = false
		if n.m == nil {
			w.boot(name)
		} else if !n.member && n.m.joined {
			// The group dropped it while it did not look: its client joins again.
			n.member, w.dirty = true, true
		}
	}
	w.run(9000)
	for _, name := range names {
		n := w.node(name)
		if n.m == nil {
			w.boot(name)
		} else if !n.member && n.m.joined {
			n.member, w.dirty = true, true
		}
	}
	w.run(5000)
	before := w.fold.last()
	w.run(3000)
	if msg := w.check(); msg != "" {
		return msg
	}
	if before == nil || w.fold.last().ref.N <= before.ref.N {
		return fmt.Sprintf("no progress: last completed %+v, view %+v", before, w.fold.View())
	}
	for _, name := range names {
		if n := w.node(name); n.m == nil || n.m.state != StateRunning {
			return fmt.Sprintf("%s does not run", name)
		}
	}
	return ""
}

func (w *world) check() string {
	if len(w.bad) > 0 {
		return w.bad[0]
	}
	for _, n := range w.nodes {
		if n.m != nil && n.m.log.end == w.fold.end && !reflect.DeepEqual(n.m.log.View(), w.fold.View()) {
			return fmt.Sprintf("folds of %s differ:\n%+v\n%+v", n.name, n.m.log.View(), w.fold.View())
		}
	}
	return ""
}
