package elastic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

// Tasks with much state move to a new instance one at a time, if the option says
// so, each as soon as the one before has moved.
func TestMaxWarmups(t *testing.T) {
	c := newCluster(t)
	b := tidegate.NewBuilder()
	b.Stream("in", serde.Bytes(), serde.Bytes()).GroupByKey("by-key").
		Reduce("last", func(_, v []byte) []byte { return v }).ToStream().
		Filter(func(_, v []byte) bool { return len(v) < 10 }).To("out")
	var err error
	if c.topo, err = b.Build(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	old := c.start("a", tidegate.WithMaxWarmups(1))
	c.running(old)
	const values, size = 700, 16 << 10 // above 8 MiB per task
	rng := rand.NewChaCha8([32]byte{})
	for i := range values {
		var list []testkit.Message
		for p := range int32(partitions) {
			v := make([]byte, size)
			_, _ = rng.Read(v)
			list = append(list, testkit.Message{Partition: p, Key: fmt.Appendf(nil, "%d-%d", p, i), Value: v})
		}
		if err := c.client.Produce(context.Background(), "in", list); err != nil {
			t.Fatal(err)
		}
	}
	var last []testkit.Message
	for p := range int32(partitions) {
		last = append(last, testkit.Message{Partition: p, Key: fmt.Appendf(nil, "last-%d", p), Value: []byte("last")})
	}
	if err := c.client.Produce(context.Background(), "in", last); err != nil {
		t.Fatal(err)
	}
	c.eventually("all was processed", func() bool { return c.out.Count() == partitions })
	c.checkpoints(old, 1)
	added := c.start("b", tidegate.WithMaxWarmups(1))
	seen := 0
	for seen < partitions/2 {
		if time.Since(begun) > time.Minute {
			t.Fatalf("the new instance has %d tasks after a minute", seen)
		}
		time.Sleep(time.Millisecond)
		if n := len(added.Health().Tasks); n > seen+1 {
			t.Fatalf("%d tasks moved at once", n-seen)
		} else if n > seen {
			seen = n
		}
	}
	c.running(old, added)
	if n := len(old.Health().Tasks); n != partitions/2 {
		t.Errorf("%d tasks stay", n)
	}
}
