// Package timejumps tests that a jump of stream time gives what time gives that
// goes step by step.
package timejumps

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

const ms = time.Millisecond

// loneRows counts, per tumbling window, the rows of an outer join without a
// partner; the second window of the chain stands behind the first.
func loneRows(t *testing.T, onClose, restart bool, steps ...int64) []string {
	str := serde.String()
	b := tidegate.NewBuilder()
	joined := b.Stream("l", str, str).OuterJoinStream("j", b.Stream("r", str, str), tidegate.JoinWithin(10*ms),
		func(l, r tidegate.Opt[string]) string { return l.Or("-") + r.Or("-") }, str)
	windows := joined.GroupByKey("g").WindowedBy(tidegate.Tumbling(10*ms).Grace(20*ms), tidegate.ByWindow)
	if onClose {
		windows = windows.EmitOnClose()
	}
	windows.Reduce("first", func(a, v string) string { return a + "+" + v }).
		ToStream().
		SelectKey(func(w tidegate.Windowed[string], _ string) string { return w.Key }, str).
		GroupByKey("again").
		WindowedBy(tidegate.Tumbling(20*ms).Grace(30*ms), tidegate.ByWindow).EmitOnClose().
		Count("second").ToStream().
		To("out")
	top, err := b.Build()
	require.NoError(t, err)
	d := tidegatetest.New(t, top)
	l, r := d.Input("l", str, str), d.Input("r", str, str)
	l.Pipe("x", "x", tidegatetest.At(30))
	for _, at := range steps {
		if restart {
			d.Restart()
		}
		r.Pipe("y", fmt.Sprint("t", at), tidegatetest.At(at))
	}
	d.AdvanceStreamTime(1000)
	require.Zero(t, d.Late())
	var out []string
	for _, rec := range d.Output("out", serde.Windowed(str, 20*ms), serde.Int64()).ReadAll() {
		if rec.Key.Key == "x" {
			out = append(out, fmt.Sprint(rec.Key, "=", rec.Value, "@", rec.Timestamp))
		}
	}
	return out
}

// A jump from 30 to 100 once made the lone row of 30, which was due at 41, late
// for the window that closes at 60.
func TestJumpGivesWhatStepsGive(t *testing.T) {
	for _, onClose := range []bool{false, true} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint("on close ", onClose, ", restart ", restart), func(t *testing.T) {
				want := loneRows(t, onClose, restart, 41, 50, 60, 61, 75, 90, 100)
				require.NotEmpty(t, want)
				require.Equal(t, want, loneRows(t, onClose, restart, 100))
				require.Equal(t, want, loneRows(t, onClose, restart, 900))
			})
		}
	}
}
