package modes

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

const ms = time.Millisecond

// closingOutputs are the topics of closingTopology, one per kind of results that
// are sent when a window closes.
var closingOutputs = []string{"tumbling", "hopping", "session", "sliding", "suppressed"}

// closingTopology sends results of windows once, of records by their keys, or
// behind a repartition topic by their values. A record goes to "end" with its key
// behind all that.
func closingTopology(t *testing.T, repartition bool) *tidegate.Topology {
	t.Helper()
	b := tidegate.NewBuilder()
	s := b.Stream("in", str, str)
	if repartition {
		s = s.SelectKey(func(_, v string) string { return v }, str).Repartition("by-value")
	}
	g := s.GroupByKey("g")
	counts := map[string]*tidegate.Table[tidegate.Windowed[string], int64]{
		"tumbling":   g.WindowedBy(tidegate.Tumbling(100*ms).Grace(30*ms), tidegate.ByWindow).EmitOnClose().Count("tumbling"),
		"hopping":    g.WindowedBy(tidegate.Hopping(100*ms, 40*ms).Grace(30*ms), tidegate.ByWindow).EmitOnClose().Count("hopping"),
		"sliding":    g.WindowedBy(tidegate.Sliding(50*ms).Grace(30*ms), tidegate.ByWindow).EmitOnClose().Count("sliding"),
		"session":    g.SessionWindowedBy(tidegate.Session(25*ms).Grace(30*ms), tidegate.ByWindow).EmitOnClose().Count("session"),
		"suppressed": g.WindowedBy(tidegate.Tumbling(70*ms).Grace(30*ms), tidegate.ByWindow).Count("plain").Suppress("held", tidegate.UntilWindowCloses()),
	}
	for _, topic := range closingOutputs {
		counts[topic].ToStream().
			Map(func(w tidegate.Windowed[string], n int64) (string, int64) {
				return fmt.Sprintf("%s@%d-%d", w.Key, w.Start, w.End), n
			}).As(str, serde.Int64()).To(topic)
	}
	s.To("end")
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// closingInput is n records per partition with times that rise by 10 and are up
// to 40 out of order.
func closingInput(from, to int, partitions int32) (out []testkit.Message) {
	for i := from; i < to; i++ {
		for p := range partitions {
			out = append(out, testkit.Message{
				Partition: p, Key: fmt.Appendf(nil, "k%d-%d", p, i%3), Value: fmt.Appendf(nil, "v%d", i*i%5),
				Timestamp: int64(i)*10 + int64(i*7919%5)*10,
			})
		}
	}
	return out
}

// Results on close come once each, over stops after any record and starts on
// instances without local state, and they are those of the driver.
func TestResultsOnCloseOverRestarts(t *testing.T) {
	const n = 120
	for _, c := range []struct {
		repartition bool
		partitions  int32
		cuts        []int
	}{
		{false, 1, []int{n}},
		{false, 2, []int{7, 8, 31, 74, n}},
		{true, 1, []int{11, 52, 53, n}},
		{true, 2, []int{23, 66, n}},
	} {
		t.Run(fmt.Sprintf("repartition=%v/partitions=%d", c.repartition, c.partitions), func(t *testing.T) {
			topo := closingTopology(t, c.repartition)
			want := closedByDriver(t, topo, closingInput(0, n, c.partitions), c.partitions)
			got := closedByApps(t, topo, c.cuts, c.partitions)
			for _, topic := range closingOutputs {
				if len(want[topic]) < 10 {
					t.Errorf("%s: the driver wrote only %d records", topic, len(want[topic]))
				}
				if !slices.Equal(got[topic], want[topic]) {
					t.Errorf("%s: got\n%v\nwant\n%v", topic, got[topic], want[topic])
				}
			}
		})
	}
}

func closedByDriver(t *testing.T, topo *tidegate.Topology, input []testkit.Message, partitions int32) map[string][]string {
	t.Helper()
	d := tidegatetest.New(t, topo, tidegatetest.WithPartitions(partitions))
	in := d.Input("in", str, str)
	for _, m := range input {
		in.Pipe(string(m.Key), string(m.Value), tidegatetest.At(m.Timestamp), tidegatetest.Partition(m.Partition))
	}
	got := map[string][]string{}
	for _, topic := range closingOutputs {
		for _, r := range d.Output(topic, str, serde.Int64()).ReadAll() {
			got[topic] = append(got[topic], fmt.Sprintf("%s=%d at %d", r.Key, r.Value, r.Timestamp))
		}
		slices.Sort(got[topic])
	}
	return got
}

func closedByApps(t *testing.T, topo *tidegate.Topology, cuts []int, partitions int32) map[string][]string {
	t.Helper()
	topics := map[string]int32{"in": partitions, "end": partitions}
	for _, topic := range closingOutputs {
		topics[topic] = partitions
	}
	c := newCluster(t, topics)
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	end := c.read("end", partitions)
	from := 0
	for round, to := range cuts {
		if err := c.client.Produce(ctx, "in", closingInput(from, to, partitions)); err != nil {
			t.Fatal(err)
		}
		app := run(ctx, t, c.app(topo, fmt.Sprint("i", round)))
		await(ctx, t, end, to*int(partitions), app)
		app.end()
		from = to
	}
	got := map[string][]string{}
	for _, topic := range closingOutputs {
		all, err := c.client.ReadToEnd(ctx, topic, partitions, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range all {
			for _, m := range list {
				got[topic] = append(got[topic], fmt.Sprintf("%s=%d at %d", m.Key, binary.BigEndian.Uint64(m.Value), m.Timestamp))
			}
		}
		slices.Sort(got[topic])
	}
	return got
}
