package tidegate_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

// inMode is an instance in a mode, with short intervals.
func (c *cluster) inMode(m tidegate.Mode, topo *tidegate.Topology, name string) *tidegate.App {
	return c.logApp(topo, name, tidegate.WithMode(m), tidegate.WithIdleTimeout(time.Second))
}

var bothModes = []tidegate.Mode{tidegate.Barrier, tidegate.Changelog}

// One upstream partition is an hour ahead of the other. No record of the slower
// one is late in either mode, also when another instance goes on in the middle.
func TestModesAgreeOnLateness(t *testing.T) {
	for _, mode := range bothModes {
		c := newCluster(t, map[string]int32{"in": 2, "out": 2})
		ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
		defer cancel()
		b := tidegate.NewBuilder()
		b.Stream("in", str, str).
			GroupBy("by-word", func(_, v string) string { return v }, str).
			WindowedBy(tidegate.Tumbling(time.Second), tidegate.ByWindow).
			Count("windows").
			ToStream().
			Map(func(w tidegate.Windowed[string], n int64) (string, int64) {
				return fmt.Sprintf("%s@%d", w.Key, w.Start), n
			}).
			As(str, serde.Int64()).
			To("out")
		topo, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.client.Read("out", 2, true)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		const half = 400
		late := int64(0)
		for round, name := range []string{"a", "b"} {
			var list []testkit.Message
			for i := range half {
				k := round*half + i
				for p := range int32(2) {
					list = append(list, testkit.Message{
						Partition: p, Value: fmt.Appendf(nil, "w%d", k%7), Timestamp: int64(k)*10 + int64(1-p)*3_600_000,
					})
				}
			}
			if err := c.client.Produce(ctx, "in", list); err != nil {
				t.Fatal(err)
			}
			app := launch(ctx, t, c.inMode(mode, topo, name))
			await(ctx, t, out, 2*half*(round+1), app)
			app.end()
			late += app.Health().Late
		}
		if late != 0 {
			t.Errorf("%v: %d records were late", mode, late)
		}
		checkRunning(t, out.All())
		last := map[string]uint64{}
		for _, list := range out.All() {
			for _, m := range list {
				last[string(m.Key)] = binary.BigEndian.Uint64(m.Value)
			}
		}
		sum := uint64(0)
		for _, n := range last {
			sum += n
		}
		if sum != 4*half {
			t.Errorf("%v: windows count %d records, want %d", mode, sum, 4*half)
		}
	}
}

// An outer join with rows that wait, a table and a store: another instance, which
// has no local state, goes on after every part of the input. The output is the
// same in both modes, and the same as that of one instance that did it all.
func TestModesAgreeOverRestarts(t *testing.T) {
	var want []string
	for _, mode := range bothModes {
		for _, parts := range []int{1, 4} {
			got := joinInParts(t, mode, parts)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v mode in %d parts:\n%v, want\n%v", mode, parts, got, want)
			}
		}
	}
	if len(want) < 50 {
		t.Errorf("only %d records: %v", len(want), want)
	}
}

func joinInParts(t *testing.T, mode tidegate.Mode, parts int) (got []string) {
	t.Helper()
	c := newCluster(t, map[string]int32{"l": 1, "r": 1, "t": 1, "out": 1, "end": 1})
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	b := tidegate.NewBuilder()
	w := tidegate.JoinWithin(20 * time.Millisecond)
	l := b.Stream("l", str, str)
	pair := func(l, r tidegate.Opt[string]) string { return l.Or("null") + "-" + r.Or("null") }
	l.OuterJoinStream("j", b.Stream("r", str, str), w, pair, str).To("out")
	l.LeftJoinTable("with-table", b.Table("t", "tab", str, str), func(l string, v tidegate.Opt[string]) string { return l + "+" + v.Or("null") }).As(str, str).To("out")
	l.Peek(func(string, string) {}).To("end")
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.client.Read("out", 1, true)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	end, err := c.client.Read("end", 1, true)
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	const n = 120
	for part := range parts {
		from, to := part*n/parts, (part+1)*n/parts
		for _, topic := range []string{"t", "r", "l"} {
			var list []testkit.Message
			for i := from; i < to; i++ {
				if topic == "r" && i%3 == 0 || topic == "t" && i%5 != 0 {
					continue
				}
				list = append(list, testkit.Message{
					Key: fmt.Appendf(nil, "k%d", i%4), Value: fmt.Appendf(nil, "%s%d", topic, i),
					Timestamp: int64(i)*10 + map[string]int64{"t": 0, "r": 1, "l": 2}[topic],
				})
			}
			if err := c.client.Produce(ctx, topic, list); err != nil {
				t.Fatal(err)
			}
		}
		app := launch(ctx, t, c.inMode(mode, topo, fmt.Sprint("i", part)))
		await(ctx, t, end, to, app)
		app.end()
	}
	// What the last record gave is committed with what end got of it, but read by
	// another reader.
	last := fmt.Sprintf("l%d", n-1)
	err = out.Await(ctx, func() bool {
		from := 0
		for _, m := range out.All()[0] {
			if strings.HasPrefix(string(m.Value), last) {
				from++
			}
		}
		return from == 2
	})
	if err != nil {
		t.Fatalf("what %s gave did not come: %v", last, err)
	}
	for _, m := range out.All()[0] {
		got = append(got, fmt.Sprintf("%s=%s@%d", m.Key, m.Value, m.Timestamp))
	}
	slices.Sort(got) // records of different keys have no common order
	return got
}
