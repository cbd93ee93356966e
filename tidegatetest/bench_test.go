package tidegatetest

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/harness"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/pebblestore"
)

// benchKeys is how many keys the benchmarks have; benchRun how many records are
// queued before they are processed, like a batch of a fetch.
const (
	benchKeys = 10_000
	benchRun  = 512
)

// benchCase is a topology with the topics that get its records in turn.
type benchCase struct {
	topics []string
	build  func(b *tidegate.Builder)
}

func benchStream(b *tidegate.Builder, topic string) *tidegate.Stream[int64, []byte] {
	return b.Stream(topic, serde.Int64(), serde.Bytes())
}

// benchCases have one subtopology each, so that a record is one record for one
// task. "passthrough" is the floor: the harness, a source and a sink.
var benchCases = map[string]benchCase{
	"passthrough": {[]string{"in"}, func(b *tidegate.Builder) { benchStream(b, "in").To("out") }},
	"map": {[]string{"in"}, func(b *tidegate.Builder) {
		benchStream(b, "in").Map(func(k int64, v []byte) (int64, []byte) { return k + 1, v }, tidegate.With(serde.Int64(), serde.Bytes())).To("out")
	}},
	"aggregate": {[]string{"in"}, func(b *tidegate.Builder) {
		benchStream(b, "in").GroupByKey("g").
			Aggregate("a", func() int64 { return 0 }, func(_ int64, v []byte, a int64) int64 { return a + int64(len(v)) }, serde.Int64()).
			ToStream().To("out")
	}},
	"windowed-aggregate": {[]string{"in"}, func(b *tidegate.Builder) {
		benchStream(b, "in").GroupByKey("g").WindowedBy(tidegate.Tumbling(time.Minute).Grace(time.Minute), tidegate.ByWindow).
			Aggregate("a", func() int64 { return 0 }, func(_ int64, v []byte, a int64) int64 { return a + int64(len(v)) }, serde.Int64()).
			ToStream().To("out")
	}},
	"join-stream": {[]string{"in", "right"}, func(b *tidegate.Builder) {
		benchStream(b, "in").JoinStream("j", benchStream(b, "right"), tidegate.JoinWithin(20*time.Second),
			func(l, _ []byte) []byte { return l }, serde.Bytes()).To("out")
	}},
	"left-join-stream": {[]string{"in", "right"}, func(b *tidegate.Builder) {
		// Keys come every ten seconds: no left record has a partner.
		benchStream(b, "in").LeftJoinStream("j", benchStream(b, "right"), tidegate.JoinWithin(0).Grace(time.Second),
			func(l []byte, _ tidegate.Opt[[]byte]) []byte { return l }, serde.Bytes()).To("out")
	}},
	"session-aggregate": {[]string{"in"}, func(b *tidegate.Builder) {
		// Sessions of a few records: every other key's gap ends them.
		benchStream(b, "in").GroupByKey("g").SessionWindowedBy(tidegate.Session(15*time.Second).Grace(time.Second), tidegate.ByWindow).
			Count("a").ToStream().To("out")
	}},
	"sliding-aggregate": {[]string{"in"}, func(b *tidegate.Builder) {
		benchStream(b, "in").GroupByKey("g").WindowedBy(tidegate.Sliding(15*time.Second).Grace(time.Second), tidegate.ByWindow).
			Count("a").ToStream().To("out")
	}},
	"suppress-early": {[]string{"in"}, func(b *tidegate.Builder) {
		benchStream(b, "in").GroupByKey("g").Count("a").
			Suppress("s", tidegate.UntilTimeLimit(time.Hour).MaxRecords(1000).WhenFull(tidegate.EmitEarly)).ToStream().To("out")
	}},
	"join-table": {[]string{"in", "right"}, func(b *tidegate.Builder) {
		rows := b.Table("right", "rows", serde.Int64(), serde.Bytes())
		benchStream(b, "in").JoinTable("j", rows, func(l, _ []byte) []byte { return l }, serde.Bytes()).To("out")
	}},
}

// BenchmarkOperators shows what a record costs, by step and state engine: one
// record per operation, a millisecond of event time apart, 10 000 keys, 100 bytes
// of value, 64 MiB of cache for half of the runs and none for the others.
func BenchmarkOperators(b *testing.B) {
	for _, name := range []string{"passthrough", "map", "aggregate", "windowed-aggregate", "session-aggregate", "sliding-aggregate", "suppress-early", "join-stream", "left-join-stream", "join-table"} {
		c := benchCases[name]
		b.Run(name, func(b *testing.B) {
			if len(c.topics) == 1 && (name == "passthrough" || name == "map") {
				benchOperator(b, c)
				return
			}
			for _, cache := range []struct {
				name  string
				bytes int64
			}{{"cached", 64 << 20}, {"uncached", 0}} {
				b.Run("memory/"+cache.name, func(b *testing.B) { benchOperator(b, c, WithCacheBytes(cache.bytes)) })
				b.Run("pebble/"+cache.name, func(b *testing.B) {
					shared := pebblestore.NewShared(pebblestore.SharedOptions{})
					defer shared.Close()
					benchOperator(b, c, WithCacheBytes(cache.bytes), WithEngine(func(dir string) (state.Engine, error) {
						return pebblestore.Open(shared, dir, pebblestore.Options{})
					}))
				})
			}
		})
	}
}

func benchOperator(b *testing.B, c benchCase, opts ...Option) {
	d := newBench(b, c, opts...)
	defer d.Close()
	feed := d.feeder(c.topics)
	for range 2 * benchKeys { // fill the stores
		feed()
	}
	b.ReportAllocs()
	for b.Loop() {
		feed()
	}
	d.must("run", d.in.Run)
}

func newBench(b testing.TB, c benchCase, opts ...Option) *Driver {
	b.Helper()
	builder := tidegate.NewBuilder()
	c.build(builder)
	top, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	d := New(b, top, opts...)
	d.in.Mute()
	return d
}

// feeder returns a function that pipes the next record, each topic in turn.
func (d *Driver) feeder(topics []string) func() {
	key, value := make([]byte, 8), make([]byte, 100)
	n := int64(0)
	return func() {
		topic := topics[n%int64(len(topics))]
		binary.BigEndian.PutUint64(key, uint64(n/int64(len(topics))*7919%benchKeys))
		if err := d.in.Queue(harness.Record{Topic: topic, Key: key, Value: value, Timestamp: n}); err != nil {
			d.t.Fatal(err)
		}
		if n++; n%benchRun == 0 {
			if err := d.in.Run(); err != nil {
				d.t.Fatal(err)
			}
		}
	}
}

// The harness must stay small beside what it measures.
func TestHarnessDoesNotAllocatePerRecord(t *testing.T) {
	d := newBench(t, benchCases["passthrough"])
	feed := d.feeder([]string{"in"})
	for range 10 * benchRun {
		feed()
	}
	if n := testing.AllocsPerRun(20*benchRun, feed); n >= 1 {
		t.Errorf("%v allocations per record", n)
	}
}
