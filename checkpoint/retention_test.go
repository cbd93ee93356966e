package checkpoint_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
)

func TestPlanClean(t *testing.T) {
	file := func(n ids.CheckpointID) string {
		return names.File(checkpoint.Writer{Checkpoint: n, Task: task}, "f.sst")
	}
	other := checkpoint.Names{App: "app", Life: 0xb2}
	in := checkpoint.CleanInput{
		Names: names, ReadTo: 60, Undecided: []ids.CheckpointID{50},
		Retained: []checkpoint.Held{{Checkpoint: 40, Keys: []string{names.Manifest(40, 2), names.Marker(40), names.Part(40, inst, 0), file(40), file(10)}}},
		Bases:    []checkpoint.Held{{Checkpoint: 30, Keys: []string{file(30)}}},
		Savepoints: []checkpoint.Held{
			{Checkpoint: 20, Keys: []string{file(20)}},
		},
		Listing: []string{
			names.Manifest(40, 2), names.Manifest(40, 1), names.Marker(40), names.Part(40, inst, 0), names.Part(40, inst, 1), file(40), file(10),
			names.Manifest(30, 1), names.Marker(30), names.Part(30, inst, 0), file(30), file(20), file(11),
			file(50), names.Part(50, inst, 0), file(60), file(61), names.Manifest(61, 1),
			names.Share(inst), names.LifePrefix() + "strange", other.Manifest(1, 1), "app2/0000000000000001/x", file(11),
		},
		Incomplete: []checkpoint.Upload{
			{Key: file(60), ID: "a"}, {Key: file(50), ID: "b"}, {Key: file(45), ID: "d"}, {Key: file(40), ID: "c"},
			{Key: other.Manifest(1, 1), ID: "e"}, {Key: "x", ID: "f"},
		},
	}
	want := checkpoint.CleanPlan{
		Markers:   []string{names.Marker(30)},
		Manifests: []string{names.Manifest(30, 1), names.Manifest(40, 1)},
		Objects:   []string{file(11), names.Part(30, inst, 0), names.Part(40, inst, 1), names.Share(inst)},
		Uploads:   []checkpoint.Upload{{Key: file(40), ID: "c"}, {Key: file(45), ID: "d"}},
		Kept:      12,
		Unknown:   []string{names.LifePrefix() + "strange"},
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		if got := checkpoint.PlanClean(in); !reflect.DeepEqual(got, want) {
			t.Fatalf("\n%+v\nwant\n%+v", got, want)
		}
		rnd.Shuffle(len(in.Listing), func(i, j int) { in.Listing[i], in.Listing[j] = in.Listing[j], in.Listing[i] })
		rnd.Shuffle(len(in.Incomplete), func(i, j int) { in.Incomplete[i], in.Incomplete[j] = in.Incomplete[j], in.Incomplete[i] })
	}
}

func TestRetirable(t *testing.T) {
	for _, c := range []struct {
		completed []ids.CheckpointID
		keep      int
		pinned    []ids.CheckpointID
		want      []ids.CheckpointID
	}{
		{nil, 3, nil, nil},
		{[]ids.CheckpointID{5}, 0, nil, nil},
		{[]ids.CheckpointID{5, 1, 9, 7}, 2, nil, []ids.CheckpointID{1, 5}},
		{[]ids.CheckpointID{5, 1, 9, 7}, -1, []ids.CheckpointID{5}, []ids.CheckpointID{1, 7}},
	} {
		if got := checkpoint.Retirable(c.completed, c.keep, c.pinned); !slices.Equal(got, c.want) {
			t.Errorf("%v keep %d: %v, want %v", c.completed, c.keep, got, c.want)
		}
	}
}

// Without knowing what a retained checkpoint holds, nothing is deleted.
func TestCleanRefusesToGuess(t *testing.T) {
	w := newWorld(t, nil)
	e := newEngine()
	e.write("1.sst", large, 1)
	ref := w.take(e, 10, ids.NoCheckpoint)
	for _, key := range w.mem.Keys() {
		if strings.Contains(key, "/part/") {
			w.mem.Damage(key, 20)
		}
	}
	before := w.mem.Keys()
	_, err := w.cleaner.Clean(t.Context(), checkpoint.CleanRequest{ReadTo: 50, Retained: []checkpoint.CheckpointRef{ref}})
	if !errors.Is(err, checkpoint.ErrCorrupted) || !slices.Equal(w.mem.Keys(), before) {
		t.Fatal(err)
	}
	_, err = w.cleaner.Clean(t.Context(), checkpoint.CleanRequest{ReadTo: 50, Retained: []checkpoint.CheckpointRef{{Checkpoint: 11, Manifest: ref.Manifest}}})
	if err == nil {
		t.Fatal("another checkpoint's manifest was accepted")
	}
}

// TestStories runs random histories of checkpoints: several undecided, aborts,
// crashes with restore of the newest or an older one, late puts of the dead,
// retirement, cleaning at any time. What is retained can always be restored,
// byte for byte, and at the end nothing else is left.
func TestStories(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { newStory(t, seed).run(120) })
	}
}

type story struct {
	*world
	rnd       *rand.Rand
	e         *engine
	nextFile  int
	log       ids.CheckpointID // end of the control log
	undecided []*pending
	retained  []done
}

type pending struct {
	n, base ids.CheckpointID
	files   []checkpoint.FileRef
	e       *engine
	stored  bool
}

type done struct {
	ref checkpoint.CheckpointRef
	e   *engine
}

func newStory(t testing.TB, seed uint64) *story {
	s := &story{world: newWorld(t, nil), rnd: rand.New(rand.NewPCG(seed, 7)), e: newEngine(), log: 1}
	ref := s.finish(0, nil)
	s.retained = []done{{ref: ref, e: newEngine()}}
	return s
}

func (s *story) run(steps int) {
	for range steps {
		s.log += ids.CheckpointID(s.rnd.IntN(3))
		switch s.rnd.IntN(10) {
		case 0, 1, 2:
			s.write()
		case 3, 4:
			s.trigger()
		case 5:
			s.store()
		case 6:
			s.complete()
		case 7:
			s.abort()
		case 8:
			s.cleanNow()
		case 9:
			if s.rnd.IntN(3) == 0 {
				s.crash()
			}
		}
		s.checkRetained()
	}
	for len(s.undecided) > 0 {
		s.abort()
	}
	s.retained = s.retained[len(s.retained)-1:]
	s.cleanNow()
	held, err := s.catalog.Holds(s.Context(), s.retained[0].ref)
	s.ok(err)
	if keys := s.mem.Keys(); !slices.Equal(keys, held.Keys) {
		s.Fatalf("at the end the store has\n%s\nneeded are\n%s", strings.Join(keys, "\n"), strings.Join(held.Keys, "\n"))
	}
}

// write changes the engine's files as a flush or a compaction does.
func (s *story) write() {
	for range 1 + s.rnd.IntN(3) {
		size := small
		if s.rnd.IntN(2) == 0 {
			size = large
		}
		s.e.write(fmt.Sprintf("%d.sst", s.nextFile), size, s.rnd.IntN(1e9))
		s.nextFile++
	}
	s.e.write("MANIFEST", small, s.rnd.IntN(1e9))
	for _, name := range slices.Sorted(maps.Keys(s.e.files)) {
		if s.rnd.IntN(4) == 0 {
			delete(s.e.files, name)
		}
	}
}

func (s *story) trigger() {
	if len(s.undecided) == 2 {
		return
	}
	n := s.log
	s.log++
	s.undecided = append(s.undecided, &pending{n: n, base: s.last().ref.Checkpoint})
}

// store uploads the oldest undecided checkpoint that was not.
func (s *story) store() {
	for _, p := range s.undecided {
		if !p.stored {
			p.e, p.stored = s.e.copy(), true
			p.files = s.upload(s.e, p.n, p.base).Files
			return
		}
	}
}

func (s *story) complete() {
	for i, p := range s.undecided {
		if !p.stored {
			continue
		}
		for _, older := range s.undecided[:i] {
			s.e.table.Aborted(older.n) // R3: a Complete of a higher id aborts
		}
		s.undecided = s.undecided[i+1:]
		s.retained = append(s.retained, done{ref: s.finish(p.n, p.files), e: p.e})
		oldest := p.n
		for _, u := range s.undecided {
			oldest = min(oldest, u.base)
		}
		s.e.table.Completed(p.n, oldest)
		return
	}
}

func (s *story) abort() {
	if len(s.undecided) == 0 {
		return
	}
	i := s.rnd.IntN(len(s.undecided))
	s.e.table.Aborted(s.undecided[i].n)
	s.undecided = slices.Delete(s.undecided, i, i+1)
}

// crash loses the engine and all undecided checkpoints, perhaps with a put of
// the dead that arrives late; then the newest or an older one is restored.
func (s *story) crash() {
	if len(s.undecided) > 0 && s.rnd.IntN(2) == 0 {
		s.upload(s.e, s.undecided[0].n, s.undecided[0].base)
	}
	s.undecided = nil
	if s.rnd.IntN(3) == 0 {
		s.retained = s.retained[:1+s.rnd.IntN(len(s.retained))] // Restore retires what is later
	}
	s.e = s.restore(s.last().ref)
	// The new engine gives again the names that its MANIFEST does not know of.
	s.nextFile = 0
	for name := range s.e.files {
		var n int
		if _, err := fmt.Sscanf(name, "%d.sst", &n); err == nil {
			s.nextFile = max(s.nextFile, n+1)
		}
	}
}

func (s *story) cleanNow() {
	if n := len(s.retained); n > 2 {
		s.retained = s.retained[n-2:]
	}
	r := checkpoint.CleanRequest{ReadTo: s.log}
	for _, d := range s.retained {
		r.Retained = append(r.Retained, d.ref)
	}
	for _, u := range s.undecided {
		r.Undecided = append(r.Undecided, u.n)
		for _, d := range s.retained {
			if d.ref.Checkpoint == u.base {
				r.Bases = append(r.Bases, d.ref)
			}
		}
	}
	s.clean(r)
}

func (s *story) last() done { return s.retained[len(s.retained)-1] }

func (s *story) checkRetained() {
	keys := s.mem.Keys()
	for _, d := range s.retained {
		held, err := s.catalog.Holds(s.Context(), d.ref)
		s.ok(err)
		for _, key := range held.Keys {
			if _, ok := slices.BinarySearch(keys, key); !ok {
				s.Fatalf("checkpoint %d lost %s", d.ref.Checkpoint, key)
			}
		}
	}
	if s.rnd.IntN(8) == 0 {
		d := s.retained[s.rnd.IntN(len(s.retained))]
		s.same(s.restore(d.ref), d.e)
	}
}
