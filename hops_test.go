package tidegate_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

// twoHops counts words, and counts the updates by letter in windows.
func twoHops(t *testing.T) *tidegate.Topology {
	t.Helper()
	b := tidegate.NewBuilder()
	counts := b.Stream("in", serde.String(), serde.String()).
		GroupBy("by-word", func(_, v string) string { return v }, serde.String()).
		Count("counts").
		ToStream()
	counts.To("out")
	counts.
		GroupBy("by-bucket", func(w string, _ int64) string {
			h := fnv.New32a()
			_, _ = h.Write([]byte(w))
			return fmt.Sprint("b", h.Sum32()%8)
		}, serde.String()).
		WindowedBy(tidegate.Tumbling(10*time.Second).Grace(24*time.Hour), tidegate.ByWindow).
		Count("windows").
		ToStream().
		To("windows")
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// run runs an app until the test ends or stop is called.
func (c *cluster) run(app *tidegate.App) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := app.Run(ctx); err != nil {
			c.t.Errorf("run: %v", err)
		}
	}()
	stop = func() { cancel(); <-done }
	c.t.Cleanup(stop)
	return stop
}

func TestTwoHopsTwoInstances(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 4, "out": 4, "windows": 4})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	const rounds, n = 20, 5000
	a := c.app(twoHops(t), "a")
	c.run(a)
	c.run(c.app(twoHops(t), "b"))
	windows, err := c.client.Read("windows", 4, true)
	if err != nil {
		t.Fatal(err)
	}
	defer windows.Close()
	for r := range rounds {
		list := words(n, 100, 4)
		for i := range list {
			list[i].Timestamp += 1_700_000_000_000 + int64(r)*n
			if i%3 == 0 { // the key that the protocol uses, too
				list[i].Headers = record.Headers{{Key: barrier.HeaderKey, Value: []byte("mine")}}
			}
		}
		if err := c.client.Produce(ctx, "in", list); err != nil {
			t.Fatal(err)
		}
	}
	if err := windows.Await(ctx, func() bool { return windows.Count() >= rounds*n }); err != nil {
		t.Fatalf("%v; health %+v", err, a.Health())
	}
	checkRunning(t, windows.All())
	for _, list := range windows.All() {
		for _, m := range list {
			if len(m.Headers) > 1 || len(m.Headers) == 1 && string(m.Headers[0].Value) != "mine" {
				t.Fatalf("headers of the output: %q", m.Headers)
			}
		}
	}
}

// Two applications in one process share nothing: the second reads what the
// first writes.
func TestTwoApplicationsInOneProcess(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 2, "mid": 2, "out": 2})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	const n = 2000
	if err := c.client.Produce(ctx, "in", words(n, 50, 2)); err != nil {
		t.Fatal(err)
	}
	b := tidegate.NewBuilder()
	b.Stream("mid", serde.String(), serde.Int64()).
		GroupByKey("again").
		Count("counts").
		ToStream().
		To("out")
	second, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	c.run(c.app(counting(t, "in", "mid"), "a"))
	c.run(c.app(second, "b", tidegate.WithApplicationID("other")))
	out, err := c.client.Read("out", 2, true)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := out.Await(ctx, func() bool { return out.Count() >= n }); err != nil {
		t.Fatal(err)
	}
	checkRunning(t, out.All())
}

// At least once: without a failure nothing is doubled, output needs no
// transaction, and the group's offsets follow the checkpoints.
func TestAtLeastOnce(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 4, "out": 4, "windows": 4})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	const n = 5000
	if err := c.client.Produce(ctx, "in", words(n, 100, 4)); err != nil {
		t.Fatal(err)
	}
	app := c.app(twoHops(t), "a", tidegate.WithGuarantee(tidegate.AtLeastOnce))
	stop := c.run(app)
	out, err := c.client.Read("windows", 4, false)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := out.Await(ctx, func() bool { return out.Count() >= n }); err != nil {
		t.Fatal(err)
	}
	checkRunning(t, out.All())
	stop()
	var tps []ids.TopicPartition
	for p := range int32(4) {
		tps = append(tps, ids.TopicPartition{Topic: "in", Partition: p})
	}
	offsets, err := c.client.K.Admin().FetchOffsets(ctx, "app", tps...)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, o := range offsets {
		sum += o.Offset
	}
	if sum != n {
		t.Fatalf("the group stands at %d records of %d: %v", sum, n, offsets)
	}
	// It goes on where it was.
	if err := c.client.Produce(ctx, "in", words(n, 100, 4)); err != nil {
		t.Fatal(err)
	}
	c.run(c.app(twoHops(t), "a", tidegate.WithGuarantee(tidegate.AtLeastOnce)))
	if err := out.Await(ctx, func() bool { return out.Count() >= 2*n }); err != nil {
		t.Fatal(err)
	}
	checkRunning(t, out.All())
}
