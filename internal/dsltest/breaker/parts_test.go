package breaker_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

type proc struct {
	init func(*tidegate.ProcessorContext[string, string]) error
	f    func(ctx *tidegate.ProcessorContext[string, string], k, v string) error
	ctx  *tidegate.ProcessorContext[string, string]
}

func (p *proc) Init(ctx *tidegate.ProcessorContext[string, string]) error {
	p.ctx = ctx
	if p.init == nil {
		return nil
	}
	return p.init(ctx)
}
func (p *proc) Process(k string, v tidegate.Opt[string]) error {
	s, _ := v.Get()
	return p.f(p.ctx, k, s)
}

// What a processor asks for that is nil is an error, no panic.
func TestNilInProcessor(t *testing.T) {
	type ctx = *tidegate.ProcessorContext[string, string]
	for name, f := range map[string]func(c ctx) error{
		"store":       func(c ctx) error { _, err := c.Store[string, string](nil); return err },
		"list":        func(c ctx) error { _, err := c.ListStore[string, string](nil); return err },
		"session":     func(c ctx) error { _, err := c.SessionStore[string, string](nil); return err },
		"timestamped": func(c ctx) error { _, err := c.TimestampedStore[string, string](nil); return err },
		"versioned":   func(c ctx) error { _, err := c.VersionedStore[string, string](nil); return err },
		"window":      func(c ctx) error { _, err := c.WindowStore[string, string](nil); return err },
		"rows":        func(c ctx) error { _, err := c.Rows[string, string](nil); return err },
		"global":      func(c ctx) error { _, err := c.Global[string, string](nil); return err },
		"output":      func(c ctx) error { _, err := c.Output[string, string](nil); return err },
		"schedule":    func(c ctx) error { _, err := c.Schedule(time.Second, tidegate.StreamTime, nil); return err },
		"schedule 0": func(c ctx) error {
			_, err := c.Schedule(0, tidegate.StreamTime, func(int64) error { return nil })
			return err
		},
		"schedule -": func(c ctx) error {
			_, err := c.Schedule(-1<<63, tidegate.WallClock, func(int64) error { return nil })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := tidegate.NewBuilder()
			called := false
			b.Stream("in", str, str).Process("p", func() tidegate.Processor[string, string, string, string] {
				return &proc{init: func(c *tidegate.ProcessorContext[string, string]) error {
					called = true
					require.NotPanics(t, func() { require.Error(t, f(c)) })
					return nil
				}}
			})
			top, err := b.Build()
			require.NoError(t, err)
			tidegatetest.New(t, top)
			require.True(t, called)
		})
	}
}

// Whatever timestamp a processor forwards at, the output is right or the record
// fails alone.
func TestForwardAtAnyTime(t *testing.T) {
	for _, at := range []int64{math.MinInt64, -2, -1, 0, 9223372036854, math.MaxInt64} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			for name, below := range map[string]func(s stream){
				"sink":        func(s stream) { s.To("out") },
				"repartition": func(s stream) { s.Repartition("r").To("out") },
				"window": func(s stream) {
					send(s.GroupByKey("g").WindowedBy(tidegate.Tumbling(10*ms), tidegate.ByWindow).Count("n"))
				},
				"sliding": func(s stream) {
					send(s.GroupByKey("g").WindowedBy(tidegate.Sliding(10*ms), tidegate.ByWindow).EmitOnClose().Count("n"))
				},
				"session": func(s stream) {
					send(s.GroupByKey("g").SessionWindowedBy(tidegate.Session(10*ms), tidegate.ByWindow).Count("n"))
				},
				"monthly": func(s stream) {
					send(s.GroupByKey("g").WindowedBy(tidegate.Monthly(time.UTC), tidegate.ByWindow).Count("n"))
				},
				"suppress":         func(s stream) { send(s.ToTable("t").Suppress("s", tidegate.UntilTimeLimit(time.Hour))) },
				"longest suppress": func(s stream) { send(s.ToTable("t").Suppress("s", tidegate.UntilTimeLimit(longest))) },
				"versioned":        func(s stream) { send(s.ToVersionedTable("t", longest)) },
				"join": func(s stream) {
					s.OuterJoinStream("j", s, tidegate.JoinWithin((longest / 4).Truncate(ms)).Grace((longest / 4).Truncate(ms)), func(a, b tidegate.Opt[string]) string { return "" }, str).To("out")
				},
			} {
				t.Run(name, func(t *testing.T) {
					b := tidegate.NewBuilder()
					s := b.Stream("in", str, str).Process("p", func() tidegate.Processor[string, string, string, string] {
						return &proc{f: func(c *tidegate.ProcessorContext[string, string], k, v string) error {
							if v == "at" {
								return c.ForwardAt(at, k, v)
							}
							return c.Forward(k, v)
						}}
					}).As(str, str)
					below(s)
					top, err := b.Build()
					require.NoError(t, err)
					var got [2]string
					for i := range got {
						d := tidegatetest.New(t, top, tidegatetest.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Skip }))
						in := d.Input("in", str, str)
						for n, v := range []string{"a", "at", "b", "at", "c", "at"} {
							require.NoError(t, in.TryPipe("k", v, tidegatetest.At([]int64{0, 5, 100, 110, 9223372036854, 9223372036854}[n])))
							if i == 1 {
								d.Restart()
							}
						}
						d.AdvanceStreamTime(math.MaxInt64)
						got[i] = fmt.Sprint(d.Output("out", str, str).ReadAll(), d.Skipped(), d.Late())
					}
					require.Equal(t, got[0], got[1])
				})
			}
		})
	}
}

// A processor with every kind of store, outputs and timers gives the same
// results whenever it is restarted.
func TestProcessorRestart(t *testing.T) {
	run := func(t *testing.T, every int, cache int64) []string {
		kv := tidegate.KeyValueStore("kv", str, serde.Int64()).TTL(30 * ms)
		refresh := tidegate.KeyValueStore("kv2", str, str).TTL(20*ms, tidegate.RefreshOnRead)
		list := tidegate.ListStore("list", str, str)
		win := tidegate.WindowStore("win", 50*ms, str, str)
		ses := tidegate.SessionStore("ses", 50*ms, str, str)
		side := tidegate.Output("side", tidegate.With(str, str))
		b := tidegate.NewBuilder()
		p := b.Stream("in", str, str).Process("p", func() tidegate.Processor[string, string, string, string] {
			var kvs *tidegate.KV[string, int64]
			var rs *tidegate.KV[string, string]
			var ls *tidegate.ListKV[string, string]
			var ws *tidegate.WindowKV[string, string]
			var ss *tidegate.SessionKV[string, string]
			var out *tidegate.Outlet[string, string]
			return &proc{init: func(c *tidegate.ProcessorContext[string, string]) error {
				var e [7]error
				kvs, e[0] = c.Store(kv)
				rs, e[1] = c.Store(refresh)
				ls, e[2] = c.ListStore(list)
				ws, e[3] = c.WindowStore(win)
				ss, e[4] = c.SessionStore(ses)
				out, e[5] = c.Output(side)
				fired := 0
				var first *tidegate.Timer
				first, e[6] = c.Schedule(7*ms, tidegate.StreamTime, func(now int64) error {
					fired++
					if now > 150 {
						first.Cancel()
					}
					_, _, _ = rs.Get("ka")
					if err := check("punctuate"); err != "punctuate" {
						return errors.New("?")
					}
					v, ok, err := ls.RemoveFirst("ka")
					return errors.Join(err, out.Forward("t", fmt.Sprint("t", now, v, ok)))
				})
				_, err := c.Schedule(11*ms, tidegate.StreamTime, func(now int64) error {
					n, err := ls.Trim("kb", 2)
					return errors.Join(err, c.ForwardAt(now, "u", fmt.Sprint(n)))
				})
				return errors.Join(errors.Join(e[:]...), err)
			}, f: func(c *tidegate.ProcessorContext[string, string], k, v string) error {
				if failing {
					return errors.New("before")
				}
				n, ok, err := kvs.Get(k)
				err = errors.Join(err, kvs.Put(k, n+1))
				x, ok2, err2 := rs.Get(k)
				at := c.Record().Timestamp
				err = errors.Join(err, err2, rs.Put("k"+v[:1], v), ls.Append(k, v, v+"'"), ws.Put(k, at, v), ss.Put(k, at, at+n, v))
				text := fmt.Sprint(n, ok, x, ok2)
				err = errors.Join(err, ws.Range(0, 1<<40, func(s int64, k, v string) bool { text += fmt.Sprint(" w", s, k, v); return true }))
				err = errors.Join(err, ss.Find(k, 0, 1<<40, func(s, e int64, v string) bool { text += fmt.Sprint(" s", s, e, v); return true }))
				err = errors.Join(err, ls.Keys(func(k string, n int64) bool { text += fmt.Sprint(" l", k, n); return true }))
				if err != nil {
					return err
				}
				return errors.Join(c.Forward(k, text), out.ForwardTombstone(k))
			}}
		}, kv, refresh, list, win, ses, side)
		p.As(str, str).To("out")
		p.Output(side).To("out")
		top, err := b.Build()
		require.NoError(t, err)
		d := tidegatetest.New(t, top, tidegatetest.WithCacheBytes(cache), tidegatetest.WithPartitions(3), tidegatetest.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Skip }))
		in, out := d.Input("in", str, str), d.Output("out", str, str)
		var all []string
		for i, r := range inputs(1, 80, true) {
			if every > 0 && i%every == 0 {
				d.Restart()
			}
			failing = r.v[len(r.v)-1] == '!'
			require.NoError(t, in.TryPipe(r.k, r.v, tidegatetest.At(r.at)))
			failing = false
			for _, x := range out.ReadAll() {
				all = append(all, fmt.Sprint(i, x))
			}
		}
		return append(all, fmt.Sprint(d.Late(), len(d.Skipped())))
	}
	want := run(t, 0, 1<<20)
	require.Equal(t, want, run(t, 1, 0))
	require.Equal(t, want, run(t, 3, 1<<20))
	require.Equal(t, want, run(t, 7, 50))
}
