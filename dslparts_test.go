package tidegate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

type (
	strCtx    = tidegate.ProcessorContext[string, string]
	strProc   = tidegate.Processor[string, string, string, string]
	valCtx    = tidegate.ValueContext[string, string]
	valProc   = tidegate.ValueProcessor[string, string, string]
	processFn = func(k string, v tidegate.Opt[string]) error
)

// inline is a processor whose Init returns its Process.
type inline struct {
	init func(*strCtx) (processFn, error)
	f    processFn
}

func (p *inline) Init(c *strCtx) (err error)                     { p.f, err = p.init(c); return err }
func (p *inline) Process(k string, v tidegate.Opt[string]) error { return p.f(k, v) }

func proc(init func(*strCtx) (processFn, error)) func() strProc {
	return func() strProc { return &inline{init: init} }
}

type inlineValues struct {
	init func(*valCtx) (processFn, error)
	f    processFn
}

func (p *inlineValues) Init(c *valCtx) (err error)                     { p.f, err = p.init(c); return err }
func (p *inlineValues) Process(k string, v tidegate.Opt[string]) error { return p.f(k, v) }

func valueProc(init func(*valCtx) (processFn, error)) func() valProc {
	return func() valProc { return &inlineValues{init: init} }
}

var (
	longOut  = tidegate.Output("long", tidegate.With(str, serde.Int64()))
	emptyOut = tidegate.Output[string, string]("empty")
)

func TestProcessorOutputs(t *testing.T) {
	b := tidegate.NewBuilder()
	p := b.Stream("in", str, str).Process("route", proc(func(c *strCtx) (processFn, error) {
		long, err := c.Output(longOut)
		empty, err2 := c.Output(emptyOut)
		return func(k string, v tidegate.Opt[string]) error {
			switch s, ok := v.Get(); {
			case !ok:
				return long.ForwardTombstone(k)
			case s == "":
				return empty.ForwardAt(99, k, "!")
			case len(s) > 3:
				return errors.Join(long.Forward(k, int64(len(s))), c.Forward(k, s[:3]))
			default:
				return c.Forward(k, s)
			}
		}, errors.Join(err, err2)
	}), longOut, emptyOut)
	p.As(str, str).To("out")
	p.Output(longOut).MapValues(func(n int64) string { return fmt.Sprint(n) }, str).To("long")
	p.Output(longOut).MapValues(func(n int64) string { return fmt.Sprint(2 * n) }, str).To("long")
	top, err := b.Build()
	require.NoError(t, err)
	require.Contains(t, top.Describe(), "output long")
	r := start(t, b, map[string]int32{"in": 1})
	r.in("in", "a", "abc", 1)
	r.in("in", "b", "abcde", 2)
	r.in("in", "c", "", 3) // nobody reads that output
	r.in("in", "d", "null", 4)
	require.Equal(t, "a=abc@1 b=abc@2", r.out("out"))
	require.Equal(t, "b=5@2 b=10@2 d=null@4 d=null@4", r.out("long"))
}

func TestProcessorOutputMistakes(t *testing.T) {
	nothing := proc(func(c *strCtx) (processFn, error) {
		_, err := c.Output(longOut)
		return nil, err
	})
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).Process("p", nothing)
	r := start(t, b, map[string]int32{"in": 1})
	require.ErrorContains(t, r.d.Start(), `step "process p": init: output "long": pass its definition to Process("p", …)`)

	var nilDef *tidegate.OutputDef[string, string]
	var nilTable *tidegate.Table[string, string]
	other := tidegate.NewBuilder().Table("t", "t", str, str)
	for want, build := range map[string]func(strs){
		`not that of a processor with the output "long"`: func(s strs) {
			s.Process("p", nothing).Output(longOut)
		},
		`not that of a processor with the output "empty"`: func(s strs) {
			s.Process("p", nothing, longOut).Output(emptyOut)
		},
		`Output: the definition is nil`:            func(s strs) { s.Output(nilDef) },
		`Process("p"): a store definition, output`: func(s strs) { s.Process("p", nothing, nilTable) },
		`ProcessValues("p"): a store definition`: func(s strs) {
			s.ProcessValues("p", valueProc(nil), nil)
		},
		`ProcessValues("p"): the function is nil`: func(s strs) { s.ProcessValues[string]("p", nil) },
		`two outputs with the name "long"`: func(s strs) {
			s.Process("p", nothing, longOut, tidegate.Output[string, string]("long"))
		},
		`Output: the name is empty`:                        func(s strs) { s.Process("p", nothing, tidegate.Output[string, string]("")) },
		`Process("p"): the table comes from another Build`: func(s strs) { s.Process("p", nothing, other) },
		`pass the serdes to tidegate.Output or restate`: func(s strs) {
			s.Process("p", nothing, emptyOut).Output(emptyOut).To("out")
		},
	} {
		b := tidegate.NewBuilder()
		build(b.Stream("in", str, str))
		_, err := b.Build()
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "dslparts_test.go:")
	}
}

// ProcessValues keeps key, partitioning and the key's serde: no repartition topic
// follows.
func TestProcessValues(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).ProcessValues("v", valueProc(func(c *valCtx) (processFn, error) {
		seen, err := c.Store(seenStore)
		if err != nil {
			return nil, err
		}
		_, err = c.Schedule(10*ms, tidegate.StreamTime, func(int64) error {
			if err := c.Forward("x"); err == nil || !strings.Contains(err.Error(), "no record whose key") {
				return fmt.Errorf("forwarded without a key: %w", err)
			}
			return nil
		})
		return func(k string, v tidegate.Opt[string]) error {
			s, ok := v.Get()
			if !ok {
				return c.ForwardTombstone()
			}
			n, _, err := seen.Get(k)
			if err != nil {
				return err
			}
			c.Record().Headers = append(c.Record().Headers, record.Header{Key: "n", Value: []byte(fmt.Sprint(n))})
			return errors.Join(seen.Put(k, n+1), c.Forward(s+fmt.Sprint(n)), c.ForwardAt(7, s))
		}, err
	}), seenStore).MapValues(func(s string) string { return s }, str).GroupByKey("by").Count("n").ToStream().To("out")
	top, err := b.Build()
	require.NoError(t, err)
	require.Contains(t, top.Describe(), "Internal topics\n  none")
	r := start(t, b, map[string]int32{"in": 2})
	r.in("in", "a", "x", 1)
	r.in("in", "b", "x", 25)
	require.NoError(t, r.d.Restart())
	r.in("in", "a", "x", 50)
	r.in("in", "a", "null", 60)
	r.in("in", "null", "z", 70)
	require.Equal(t, int64(3), r.d.Metrics.NullDropped.Load(), "the null keys and the tombstone reach the count")
	out := ""
	for _, rec := range r.d.Take("out") {
		out += fmt.Sprintf("%s%d@%d %s;", rec.Key, rec.Value[7], rec.Timestamp, rec.Headers[0].Value)
	}
	require.Equal(t, "a1@1 0;a2@7 0;b1@25 0;b2@25 0;a3@50 1;a4@50 1;", out)
}

func TestProcessorReadsTable(t *testing.T) {
	for _, how := range []string{"table", "view", "aggregate"} {
		t.Run(how, func(t *testing.T) {
			b := tidegate.NewBuilder()
			tab := b.Table("rows", "rows", str, str)
			if how == "view" {
				tab = tab.Filter(func(_, v string) bool { return v != "hidden" }).MapValues(func(s string) string { return s }, str)
			}
			if how == "aggregate" {
				tab = b.Stream("rows", str, str).GroupByKey("g").Reduce("sum", func(_, v string) string { return v })
			}
			b.Stream("in", str, str).Process("p", proc(func(c *strCtx) (processFn, error) {
				rows, err := c.Rows(tab)
				return func(k string, _ tidegate.Opt[string]) error {
					v, ts, ok, err := rows.GetWithTimestamp(k)
					if v2, ok2, err2 := rows.Get(k); v2 != v || ok2 != ok || !errors.Is(err2, err) {
						return errors.New("Get and GetWithTimestamp differ")
					}
					return errors.Join(err, c.Forward(k, fmt.Sprint(v, ts, ok)))
				}, err
			}), tab).As(str, str).To("out")
			r := start(t, b, map[string]int32{"in": 2, "rows": 2})
			r.in("in", "a", "?", 1)
			r.in("rows", "a", "x", 5)
			r.in("in", "a", "?", 6)
			require.NoError(t, r.d.Restart())
			r.in("in", "a", "?", 7)
			require.Equal(t, "a=0 false@1 a=x5 true@6 a=x5 true@7", r.out("out"))
			if how == "view" {
				r.in("rows", "a", "hidden", 8)
				r.in("in", "a", "?", 9)
				require.Equal(t, "a=0 false@9", r.out("out"))
			}
		})
	}
	b := tidegate.NewBuilder()
	tab := b.Table("rows", "rows", str, str)
	b.Stream("in", str, str).Process("p", proc(func(c *strCtx) (processFn, error) {
		_, err := c.Rows(tab)
		return nil, err
	}))
	r := start(t, b, map[string]int32{"in": 1, "rows": 1})
	require.ErrorContains(t, r.d.Start(), `table "table rows": pass it to Process("p", …)`)

	b = tidegate.NewBuilder()
	tab = b.Table("rows", "rows", str, str)
	b.Stream("in", str, str).Process("p", proc(nil), tab)
	top, err := b.Build()
	require.NoError(t, err)
	_, err = top.Graph().Resolve("app", map[string]int32{"in": 2, "rows": 3})
	require.ErrorContains(t, err, "co-partitioned")
}

// Two processors use one store: what the first writes the second reads.
func TestProcessorsShareStore(t *testing.T) {
	shared := tidegate.KeyValueStore("shared", str, str)
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).Process("writer", proc(func(c *strCtx) (processFn, error) {
		s, err := c.Store(shared)
		return func(k string, v tidegate.Opt[string]) error {
			return errors.Join(s.Put(k, v.Or("")), c.Forward(k, "written"))
		}, err
	}), shared).Process("reader", proc(func(c *strCtx) (processFn, error) {
		s, err := c.Store(shared)
		return func(k string, v tidegate.Opt[string]) error {
			x, _, err := s.Get(k)
			return errors.Join(err, c.Forward(k, v.Or("")+" "+x), s.Delete(k))
		}, err
	}), shared).As(str, str).To("out")
	r := start(t, b, map[string]int32{"in": 1})
	r.in("in", "a", "1", 1)
	require.NoError(t, r.d.Restart())
	r.in("in", "a", "2", 2)
	require.Equal(t, "a=written 1@1 a=written 2@2", r.out("out"))
}

// A punctuation cancels itself and others, and schedules new ones.
func TestTimersFromWithinTimers(t *testing.T) {
	for _, kind := range []tidegate.TimeKind{tidegate.StreamTime, tidegate.WallClock} {
		b := tidegate.NewBuilder()
		b.Stream("in", str, str).Process("p", proc(func(c *strCtx) (processFn, error) {
			var once, other *tidegate.Timer
			say := func(what string, then func()) func(int64) error {
				return func(now int64) error {
					if then != nil {
						then()
					}
					return c.Forward(what, fmt.Sprint(now))
				}
			}
			var err, err2, err3 error
			once, err = c.Schedule(10*ms, kind, say("once", func() {
				once.Cancel()
				once.Cancel()
				other.Cancel()
				_, err2 = c.Schedule(5*ms, kind, say("late", nil))
			}))
			other, err3 = c.Schedule(10*ms, kind, say("other", nil))
			return func(string, tidegate.Opt[string]) error { return nil }, errors.Join(err, err2, err3)
		})).As(str, str).To("out")
		r := start(t, b, map[string]int32{"in": 1})
		tick := func(now int64) {
			if kind == tidegate.StreamTime {
				r.in("in", "k", "v", now)
			} else {
				require.NoError(t, r.d.Wall(now))
			}
		}
		require.NoError(t, r.d.Start())
		if kind == tidegate.WallClock {
			tick(0) // the timers see the clock
		}
		for _, now := range []int64{10, 12, 15, 40} {
			tick(now)
		}
		got := r.out("out")
		require.Equal(t, "once=10@10", strings.Fields(got)[0])
		require.NotContains(t, got, "other", "cancelled before its turn")
		require.Equal(t, 1, strings.Count(got, "once"))
		require.Contains(t, got, "late=40@40")
		require.NoError(t, r.d.Restart())
		tick(60)
		if kind == tidegate.StreamTime {
			require.Empty(t, r.out("out"), "timers of Init stay cancelled, later ones end with the task")
		}
	}
}
