package barrier

import "testing"

// Snapshots come several times within a session timeout: each is trimmed to when
// it is a session timeout old, not never.
func TestTrimsThoughSnapshotsComeQuickly(t *testing.T) {
	w := newWorld(2, Rules{})
	w.quiet = true
	w.cfg.Interval, w.cfg.SnapshotRecords = 50, 8
	w.boot("a")
	w.run(6000)
	if len(w.trims) < 10 {
		t.Fatalf("%d trims in 6 s", len(w.trims))
	}
	written := map[int64]int64{} // upTo → number of the record
	for i, r := range w.log {
		if b, ok := r.Body.(Snapshot); ok {
			written[b.UpTo] = int64(i)
		}
	}
	for i, x := range w.trims {
		if _, ok := written[x.below]; !ok || i > 0 && x.below <= w.trims[i-1].below {
			t.Fatalf("trim %d to %d: no snapshot of that, or not above the one before", i, x.below)
		}
	}
	last := w.trims[len(w.trims)-1]
	if behind := int64(len(w.log)) - last.below; behind > 150 {
		t.Errorf("the log is %d records long", behind)
	}
}

// A log of which records were deleted without a Snapshot is refused.
func TestTrimmedLogWithoutSnapshot(t *testing.T) {
	w := newWorld(2, Rules{})
	cfg := w.cfg
	cfg.Self = instA
	m, err := NewMachine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Step(0, EvLogOpened{Start: 5, End: 6})
	m.Step(1, EvRecord{Offset: 5, Record: Record{Instance: instB, Seq: 9, Body: Leaving{}}})
	if ended, err := m.Ended(); !ended || err == nil {
		t.Fatal("it goes on")
	}
	m, _ = NewMachine(cfg)
	m.Step(0, EvLogOpened{End: 0})
	for _, e := range m.Step(1, EvLogTrimmed{Start: 7}) {
		if _, ok := e.(DoBecomeNew); ok {
			return
		}
	}
	t.Fatal("an instance below the log's start does not begin anew")
}
