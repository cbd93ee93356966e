package pebblestore

import (
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	stdruntime "runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tidegate/tidegate/state"
)

func TestWorthwhile(t *testing.T) {
	for _, c := range []struct {
		name      string
		sublevels int32
		l0, l5    int64
		l6        int64
		fill      float64
		scans     int
		want      bool
	}{
		{name: "nothing below", sublevels: 1, l0: 10, want: true},
		{name: "1 % of the state", sublevels: 4, l0: 1, l6: 100},
		{name: "just below", sublevels: 27, l0: 27, l6: 100},
		{name: "worth it", sublevels: 28, l0: 28, l6: 100, want: true},
		{name: "a state that changes wholly", sublevels: 4, l0: 100, l6: 100, want: true},
		{name: "few scans", sublevels: 4, l0: 1, l6: 100, scans: manyScans - 1},
		{name: "many scans", sublevels: 4, l0: 1, l6: 100, scans: manyScans, want: true},
		{name: "too deep", sublevels: deepest, l0: 1, l6: 100_000, want: true},
		{name: "the level above the bottom counts", sublevels: 5, l0: 28, l5: 100, l6: 10_000, want: true},
		{name: "that level is too large", sublevels: 5, l0: 1, l5: 100, l6: 10_000, fill: 1.5, want: true},
	} {
		var m pebble.Metrics
		m.Levels[0].Sublevels, m.Levels[0].TablesSize = c.sublevels, c.l0
		m.Levels[5].TablesSize, m.Levels[6].TablesSize = c.l5, c.l6
		m.Levels[5].FillFactor = c.fill
		if got := worthwhile(&m, c.scans); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// asking is a database that wants so many compactions and runs each for a
// moment on a goroutine, under a lock where Pebble has one.
type asking struct {
	t *testing.T
	g *gate

	mu      sync.Mutex
	waiting int
	running atomic.Int32
	done    sync.WaitGroup
}

func (a *asking) GetAllowedWithoutPermission() int { return 1 }

func (a *asking) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	return a.left() > 0, pebble.WaitingCompaction{}
}

func (a *asking) left() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting
}

func (a *asking) Schedule(h pebble.CompactionGrantHandle) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting == 0 {
		return false
	}
	a.waiting--
	a.start(h)
	return true
}

func (a *asking) start(h pebble.CompactionGrantHandle) {
	if a.running.Add(1) > 1 {
		a.t.Error("two compactions at a time")
	}
	a.done.Go(func() {
		h.Started()
		a.running.Add(-1)
		h.Done()
	})
}

// want asks for one more, as after a flush.
func (a *asking) want() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ok, h := a.g.TrySchedule(); ok {
		a.start(h)
	} else {
		a.waiting++
	}
}

// Whoever is turned away gets a turn once the gate opens or the running one
// ends, and never two at a time.
func TestGateForgetsNobody(t *testing.T) {
	g := newGate()
	a := &asking{t: t, g: g}
	g.Register(1, a)
	var askers sync.WaitGroup
	stop := make(chan struct{})
	askers.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				g.set(i%3 == 0)
			}
		}
	})
	for range 2000 {
		a.want()
	}
	close(stop)
	askers.Wait()
	g.set(false)
	g.set(true)
	for deadline := time.Now().Add(10 * time.Second); a.left() > 0; stdruntime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d compactions wait for ever", a.left())
		}
	}
	a.done.Wait()
	g.Unregister()
	if ok, _ := g.TrySchedule(); ok {
		t.Error("a compaction was let in after the end")
	}
}

// With 1 % of the keys changed between two snapshots, what is new in each is a
// few percent of the state, not what four sublevels would make it.
func TestSnapshotsOfALargeStateStaySmall(t *testing.T) {
	const keys, rounds = 60_000, 60
	s := NewShared(SharedOptions{})
	defer s.Close()
	dir := t.TempDir()
	e, err := Open(s, filepath.Join(dir, "state"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	kv, err := e.Store("big")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 64)
	put := func(w state.Batch, k uint64) {
		for i := 0; i < len(value); i += 8 {
			binary.BigEndian.PutUint64(value[i:], r.Uint64())
		}
		if err := w.Set(binary.BigEndian.AppendUint64(nil, k), value); err != nil {
			t.Fatal(err)
		}
	}
	known := map[string]bool{}
	snapshot := func(n int) (fresh, full int64) {
		snap, err := e.Snapshot(filepath.Join(dir, "snap", strconv.Itoa(n)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range snap.Files {
			full += f.Size
			if isTable(f.Name) && !known[f.Name] {
				known[f.Name] = true
				fresh += f.Size
			}
		}
		return fresh, full
	}
	w := kv.(state.Batcher).Batch()
	for k := range uint64(keys) {
		put(w, k)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	snapshot(0)
	var fresh, full int64
	for n := range rounds {
		for range keys / 100 {
			put(w, r.Uint64N(keys))
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
		a, b := snapshot(n + 1)
		fresh, full = fresh+a, full+b
		for e.db.Metrics().Compact.NumInProgress > 0 {
			stdruntime.Gosched()
		}
	}
	if percent := float64(fresh) / float64(full) * 100; percent > 6.5 {
		t.Errorf("a snapshot has %.1f %% new tables, want at most 6.5 %%", percent)
	}
	if depth := e.db.Metrics().Levels[0].Sublevels; depth > deepest {
		t.Errorf("%d sublevels in L0, want at most %d", depth, deepest)
	}
}
