package sim

import (
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
)

// A decided transaction that the broker ends leaves a gap in what consumers see,
// but excuses nothing unless everybody slept longer than the settings allow for.
// (Seed 6363: all slept for eight seconds over a commit; one of two decided
// transactions timed out, and the other was committed before the loss was told.)
func TestOversleptGap(t *testing.T) {
	h, other := ids.TxnHandle{TransactionalID: "a"}, ids.TxnHandle{TransactionalID: "b"}
	for _, c := range []struct {
		what  string
		ended ids.TxnHandle
		late  int64
		gap   bool
	}{
		{"slept too long", h, 1, true},
		{"in time", h, 0, false},
		{"not decided", other, 1, false},
	} {
		w := newWorld(1, Options{})
		w.trims.forfeit = false
		o := &w.oracle
		o.listed = []listing{{handle: h, n: 5}, {handle: other, n: 6}}
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
