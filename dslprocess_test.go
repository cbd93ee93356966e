package tidegate_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

var seenStore = tidegate.KeyValueStore("seen", serde.String(), serde.Int64())

// dedup passes the first record of each key, and reports how many it saw when
// stream time passes another 10 ms.
type dedup struct {
	ctx    *tidegate.ProcessorContext[string, string]
	seen   *tidegate.KV[string, int64]
	timer  *tidegate.Timer
	closed *int
}

func (d *dedup) Init(ctx *tidegate.ProcessorContext[string, string]) (err error) {
	d.ctx = ctx
	if d.seen, err = ctx.Store(seenStore); err != nil {
		return err
	}
	if d.timer, err = ctx.Schedule(10*time.Millisecond, tidegate.StreamTime, d.report); err != nil {
		return err
	}
	_, err = ctx.Schedule(time.Second, tidegate.WallClock, func(now int64) error {
		return ctx.Forward("wall", fmt.Sprint(now))
	})
	return err
}

func (d *dedup) report(now int64) error {
	n := 0
	if err := d.seen.All(func(string, int64) bool { n++; return true }); err != nil {
		return err
	}
	return d.ctx.Forward("report", fmt.Sprint(n))
}

func (d *dedup) Process(k string, v tidegate.Opt[string]) error {
	s, ok := v.Get()
	switch {
	case d.ctx.KeyIsNull():
		return nil
	case !ok:
		return errors.Join(d.seen.Delete(k), d.ctx.ForwardTombstone(k))
	case s == "cancel":
		d.timer.Cancel()
		return nil
	}
	if _, dup, err := d.seen.Get(k); dup || err != nil {
		return err
	}
	if err := d.seen.Put(k, d.ctx.Record().Timestamp); err != nil {
		return err
	}
	return d.ctx.Forward(k, s)
}

func (d *dedup) Close() error { *d.closed++; return nil }

func TestProcessor(t *testing.T) {
	b := tidegate.NewBuilder()
	closed := 0
	b.Stream("in", str, str).
		Process("dedup", func() tidegate.Processor[string, string, string, string] { return &dedup{closed: &closed} }, seenStore).
		As(str, str).To("out")
	r := start(t, b, map[string]int32{"in": 1})
	r.in("in", "a", "1", 3) // stream time is first known: the timer fires
	r.in("in", "a", "2", 5)
	r.in("in", "b", "3", 9)
	require.Equal(t, "a=1@3 report=1@3 b=3@9", r.out("out"))
	r.in("in", "null", "x", 35)
	require.Equal(t, "report=2@35", r.out("out"), "once, though three multiples passed")
	require.NoError(t, r.d.Restart())
	require.Equal(t, 1, closed)
	r.in("in", "b", "4", 39)
	require.Empty(t, r.out("out"), "the restored timer is due at 40")
	r.in("in", "a", "null", 41)
	require.Equal(t, "a=null@41 report=1@41", r.out("out"))
	r.in("in", "a", "cancel", 45)
	require.NoError(t, r.d.Restart())
	r.in("in", "a", "5", 99)
	require.Equal(t, "a=5@99", r.out("out"), "a cancelled timer stays cancelled after a restore")

	require.NoError(t, r.d.Wall(999))
	require.Empty(t, r.out("out"))
	require.NoError(t, r.d.Wall(1000))
	require.Equal(t, "wall=1000@1000", r.out("out"))
	require.NoError(t, r.d.Restart())
	require.NoError(t, r.d.Wall(1999))
	require.Empty(t, r.out("out"), "wall-clock timers begin anew with a restart")
	require.NoError(t, r.d.Wall(2500))
	require.Equal(t, "wall=2500@2500", r.out("out"))
}

type faulty struct {
	ctx *tidegate.ProcessorContext[string, string]
}

func (f *faulty) Init(ctx *tidegate.ProcessorContext[string, string]) error {
	f.ctx = ctx
	_, err := ctx.Store(seenStore)
	return err
}
func (f *faulty) Process(string, tidegate.Opt[string]) error { return errors.New("no") }

func TestProcessorErrors(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).
		Process("p", func() tidegate.Processor[string, string, string, string] { return &faulty{} })
	r := start(t, b, map[string]int32{"in": 1})
	require.ErrorContains(t, r.d.Start(), `step "process p": init: store "seen": pass its definition to Process("p", …)`)

	b = tidegate.NewBuilder()
	newFaulty := func() tidegate.Processor[string, string, string, string] { return &faulty{} }
	b.Stream("in", str, str).Process("p", newFaulty, seenStore)
	b.Stream("in2", str, str).Process("q", newFaulty, seenStore)
	r = start(t, b, map[string]int32{"in": 1, "in2": 1})
	require.Len(t, r.d.Resolved().Subtopologies(), 1, "a shared store joins subtopologies")
	failed := r.pipe("in", "k", "v", 1)
	require.ErrorContains(t, failed, `step "process p" user function failed on record in-0@0: no`)
	require.ErrorContains(t, failed, `/dslprocess_test.go:125: step`)

	b = tidegate.NewBuilder()
	b.Stream("in", str, str).Process("p", newFaulty, seenStore, tidegate.KeyValueStore("seen", str, str))
	_, err := b.Build()
	require.ErrorContains(t, err, `store name "seen" is already used at`)

	b = tidegate.NewBuilder()
	b.Stream("in", str, str).Process("p", newFaulty, seenStore).To("out")
	_, err = b.Build()
	require.ErrorContains(t, err, `needs it: restate it with As`)
}

type windower struct {
	ctx *tidegate.ProcessorContext[string, string]
	st  *tidegate.WindowKV[string, string]
}

var winStore = tidegate.WindowStore("win", 20*time.Millisecond, serde.String(), serde.String())

func (w *windower) Init(ctx *tidegate.ProcessorContext[string, string]) (err error) {
	w.ctx = ctx
	w.st, err = ctx.WindowStore(winStore)
	return err
}

func (w *windower) Process(k string, v tidegate.Opt[string]) error {
	ts := w.ctx.Record().Timestamp
	if err := w.st.Put(k, ts, v.Or("")); err != nil {
		return err
	}
	all := ""
	err := w.st.Range(0, ts+1, func(start int64, _ string, v string) bool {
		all += fmt.Sprint(start, v, ";")
		return true
	})
	return errors.Join(err, w.ctx.ForwardAt(ts+1, k, all))
}

func TestWindowStore(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).
		Process("w", func() tidegate.Processor[string, string, string, string] { return &windower{} }, winStore).
		As(str, str).To("out")
	r := start(t, b, map[string]int32{"in": 1})
	r.in("in", "a", "x", 5)
	r.in("in", "a", "y", 10)
	r.in("in", "a", "z", 31)
	r.in("in", "a", "u", 32)
	require.Equal(t, "a=5x;@6 a=5x;10y;@11 a=31z;@32 a=31z;32u;@33", r.out("out"))
}
