package sim

import (
	"testing"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
)

// A decided transaction that the broker ends leaves a gap in what consumers see,
// but excuses nothing unless everybody slept longer than the settings allow for.
// (Seed 6363: all slept for eight seconds over a commit; one of two decided
// transactions timed out, and the other was committed before the loss was told.)
func TestOversleptGap(t *testing.T) {
	h, other, done := ids.TxnHandle{TransactionalID: "a"}, ids.TxnHandle{TransactionalID: "b"}, ids.TxnHandle{TransactionalID: "c"}
	for _, c := range []struct {
		what  string
		ended ids.TxnHandle
		late  int64
		gap   bool
	}{
		{"slept too long", h, 1, true},
		{"in time", h, 0, false},
		{"not decided", other, 1, false},
		{"committed before", done, 1, false},
	} {
		w := newWorld(1, Options{})
		w.trims.forfeit = false
		o := &w.oracle
		o.listed = []listing{{handle: h, n: 5}, {handle: other, n: 6}, {handle: done, n: 5}}
		o.closed = []ids.TxnHandle{done}
		o.cuts = []cut{{n: 5, at: 1000}}
		w.now = 1000 + sessionTimeout + w.plan.expectedRestart - lostSlack + c.late
		o.timesOut(c.ended)
		if o.gap != c.gap {
			t.Errorf("%s: gap %t", c.what, o.gap)
		}
		o.visible(w.sinks[0], &output{off: 1 << 40})
		if (w.failure == nil) != c.gap {
			t.Errorf("%s: output that belongs to nothing: %v", c.what, w.failure)
		}
	}
}

// Objects that a start needs may be missing only if a Restore that comes behind it
// in the log retired its checkpoint. (Seed 111691: a coordinator slept behind its
// own Start, and read it when its successor had restored and cleaned.)
func TestUndoneStart(t *testing.T) {
	for _, c := range []struct {
		what    string
		restore restoreAt
		fails   bool
	}{
		{"restored since", restoreAt{at: 30, n: 5}, false},
		{"restored before", restoreAt{at: 15, n: 5}, true},
		{"restored to itself", restoreAt{at: 30, n: 10}, true},
	} {
		w := newWorld(1, Options{})
		w.oracle.newestStart = 20
		w.oracle.restores = []restoreAt{c.restore}
		w.oracle.started(w.procs[0], barrier.DoStartTasks{Incarnation: 20, From: barrier.CheckpointRef{N: 10, Manifest: "gone"}})
		if (w.failure != nil) != c.fails {
			t.Errorf("%s: %v", c.what, w.failure)
		}
	}
}
