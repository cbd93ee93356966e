package pebblestore

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// deepest is the number of sublevels in L0 from which they are compacted in
	// any case, since every read of a range has to look into all of them.
	deepest = 32
	// worthPercent is how large L0 is to be, in percent of the level that a
	// compaction would write anew with it.
	worthPercent = 28
	// manyScans between two snapshots make L0 be compacted as soon as Pebble wants
	// to: a scan looks into every sublevel, while a Get is kept out of nearly all
	// by bloom filters.
	manyScans = 1000
)

// worthwhile says whether compactions should run. Every snapshot adds to L0,
// and compacting it rewrites the level below, which the next checkpoint then
// uploads again: with 1 % of the keys changed by each, four sublevels would cost
// a whole upload of the state for 4 % of changes. So L0 waits until it is worth
// it; levels further down, whose compactions Pebble asks for only when they
// outgrow their size, never wait long. See docs/adr/0015.
func worthwhile(m *pebble.Metrics, scans int) bool {
	l0 := m.Levels[0]
	if l0.Sublevels >= deepest || scans >= manyScans {
		return true
	}
	for _, below := range m.Levels[1:] {
		if below.TablesSize > 0 {
			return l0.TablesSize*100 >= below.TablesSize*worthPercent || below.FillFactor >= 1.5
		}
	}
	return true
}

// gate is the compaction scheduler of one engine: one compaction at a time, and
// none while it is shut. It implements pebble.CompactionScheduler and is its own
// grant; unlike Pebble's default it has no goroutine. Pebble's lock comes before
// the gate's, so the database is called without it.
type gate struct {
	db pebble.DBForCompaction

	mu       sync.Mutex
	changed  sync.Cond
	open     bool
	running  bool
	granting bool // the database is being asked
	again    bool // somebody was turned away meanwhile
	gone     bool
}

func newGate() *gate {
	g := &gate{}
	g.changed.L = &g.mu
	return g
}

// set opens or shuts the gate; what runs goes on.
func (g *gate) set(open bool) {
	g.mu.Lock()
	was := g.open
	g.open = open
	g.mu.Unlock()
	if open && !was {
		g.grant()
	}
}

// Register implements pebble.CompactionScheduler.
func (g *gate) Register(_ int, db pebble.DBForCompaction) { g.db = db }

// Unregister implements pebble.CompactionScheduler.
func (g *gate) Unregister() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone = true
	for g.granting {
		g.changed.Wait()
	}
}

// free reports whether a compaction may begin. REQUIRES: g.mu is held.
func (g *gate) free() bool {
	return g.open && !g.running && !g.gone && g.db.GetAllowedWithoutPermission() > 0
}

// TrySchedule implements pebble.CompactionScheduler.
func (g *gate) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.granting || !g.free() {
		g.again = true
		return false, nil
	}
	g.running = true
	return true, g
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler. It is
// called with Pebble's lock held; the snapshot behind the flush that caused it
// opens the gate.
func (g *gate) UpdateGetAllowedWithoutPermission() {}

// grant asks the database whether a compaction waits, and lets it run.
func (g *gate) grant() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.granting && g.free() {
		g.granting, g.running, g.again = true, true, false
		g.mu.Unlock()
		waiting, _ := g.db.GetWaitingCompaction()
		accepted := waiting && g.db.Schedule(g)
		g.mu.Lock()
		g.granting = false
		g.changed.Broadcast()
		if accepted {
			continue // it may have ended already
		}
		g.running = false
		if !g.again {
			return
		}
	}
}

// Started implements pebble.CompactionGrantHandle.
func (g *gate) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (g *gate) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (g *gate) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle.
func (g *gate) Done() {
	g.mu.Lock()
	g.running = false
	g.mu.Unlock()
	g.grant()
}
