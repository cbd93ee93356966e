package tidegate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/testkit"
)

// TestForeignKeyJoinOverABroker runs a foreign-key join, whose answers go round a
// cycle, on two instances with several tasks, through checkpoints, a clean stop,
// a return and a failure. The result must be that of a plain join, and counts
// made of its old and new values, which any lost or doubled change would shift,
// those of its rows.
func TestForeignKeyJoinOverABroker(t *testing.T) {
	for _, kind := range []string{"inner", "left"} {
		t.Run(kind, func(t *testing.T) {
			const lefts, rights = 4, 3
			c := newCluster(t, map[string]int32{"l": lefts, "r": rights, "out": lefts, "counts": lefts})
			var fail atomic.Bool
			topo := build(t, func(b *tidegate.Builder) {
				joined := joinForeign(kind, b.Table("l", "lt", str, str), b.Table("r", "rt", str, str).
					Filter(func(string, string) bool {
						if fail.CompareAndSwap(true, false) {
							panic("once")
						}
						return true
					}))
				joined.ToStream().To("out")
				joined.GroupBy("by", func(_, v string) (string, string) { return v, v }, str, str).
					Count("n").ToStream().MapValues(itoa, str).To("counts")
			})
			out, counts := c.reader("out", lefts), c.reader("counts", lefts)
			rnd := rand.New(rand.NewPCG(8, uint64(len(kind)))) //nolint:gosec // a test's seed
			left, right := table{}, table{}
			now := int64(1_700_000_000_000)
			feed := func(n int) {
				var ls, rs []testkit.Message
				message := func(k, v string, partitions int32) testkit.Message {
					now++
					m := testkit.Message{Key: []byte(k), Value: []byte(v), Timestamp: now, Partition: ids.Partition([]byte(k), partitions)}
					if v == "null" {
						m.Value = nil
					}
					return m
				}
				for range n {
					k, v := fmt.Sprint("k", rnd.IntN(40)), fmt.Sprint(string("abc"[rnd.IntN(3)]), "|", rnd.IntN(12))
					switch rnd.IntN(8) {
					case 0:
						v = "null"
					case 1:
						v = "a"
					}
					left.set(k, v)
					ls = append(ls, message(k, v, lefts))
					if rnd.IntN(4) == 0 {
						k, v = fmt.Sprint(rnd.IntN(12)), fmt.Sprint("r", rnd.IntN(5))
						if rnd.IntN(4) == 0 {
							v = "null"
						}
						right.set(k, v)
						rs = append(rs, message(k, v, rights))
					}
				}
				c.produce("l", ls...)
				c.produce("r", rs...)
			}
			got := func(r *testkit.Reader) table {
				all := table{}
				for _, list := range r.All() {
					for _, m := range list {
						v := string(m.Value)
						if m.Value == nil {
							v = "null"
						}
						all.set(string(m.Key), v)
					}
				}
				return all
			}
			settled := func(what string) {
				t.Helper()
				want, wantCounts := table{}, map[string]int{}
				for k, l := range left {
					fk, named := foreignOf("", l)
					rv, there := right[fk]
					switch {
					case named && there:
						want[k] = "(" + l + "," + rv + ")"
					case kind == "left":
						want[k] = "(" + l + ",null)"
					default:
						continue
					}
					wantCounts[want[k]]++
				}
				same := func() bool {
					rows, ns := got(out), got(counts)
					if fmt.Sprint(rows) != fmt.Sprint(want) {
						return false
					}
					for v, n := range ns {
						if fmt.Sprint(wantCounts[v]) != n {
							return false
						}
					}
					return len(ns) >= len(wantCounts)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
				defer cancel()
				if err := out.Await(ctx, same); err != nil {
					require.Equal(t, want, got(out), what)
					require.Equal(t, wantCounts, got(counts), what)
				}
			}

			a, b := c.start(c.app(topo, "a")), c.start(c.app(topo, "b"))
			for range 5 {
				feed(400)
			}
			settled("two instances")
			for range 3 {
				feed(400)
			}
			b.close()
			feed(400)
			settled("one instance, after a clean stop with records on their way")
			b = c.start(c.app(topo, "b"))
			feed(400)
			settled("both again")
			for range 4 {
				feed(200)
			}
			fail.Store(true)
			feed(400)
			failed, other := a, b
			select {
			case <-a.done:
			case <-b.done:
				failed, other = b, a
			case <-time.After(45 * time.Second):
				t.Fatal("no instance failed")
			}
			require.ErrorContains(t, failed.err, "once")
			name := "a"
			if failed == b {
				name = "b"
			}
			feed(200)
			again := c.start(c.app(topo, name))
			feed(400)
			settled("after a failure")
			again.close()
			other.close()
			// All stopped: everything on its way is in the last checkpoint.
			a = c.start(c.app(topo, "a"))
			feed(300)
			settled("all stopped and one started")
			a.close()
		})
	}
}
