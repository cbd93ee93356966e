package metamorphic

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/tidegatetest"
)

var (
	oneSeed = flag.Int64("seed", -1, "replay this seed")
	seeds   = flag.Int("seeds", 0, "how many seeds; 0 is the usual number")
)

// kept are seeds that found something, or go where few do.
var kept = []struct {
	seed int64
	what string
}{}

func seedsOf(usual int) []int64 {
	if *oneSeed >= 0 {
		return []int64{*oneSeed}
	}
	n := usual
	if *seeds > 0 {
		n = *seeds
	}
	var out []int64
	for _, k := range kept {
		out = append(out, k.seed)
	}
	for s := range int64(n) {
		out = append(out, s)
	}
	return out
}

func newRand(seed int64) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), 17)) //nolint:gosec // a test's seed
}

func TestDriver(t *testing.T) {
	for _, seed := range seedsOf(300) {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { runDriver(t, seed) }) {
			break
		}
	}
}

func runDriver(t *testing.T, seed int64) {
	rnd := newRand(seed)
	in := newInput(rnd, 60+rnd.IntN(140))
	topo := generate(rnd, in, 10+rnd.IntN(12), 0)
	built, err := topo.b.Build()
	partitions := int32(1 + rnd.IntN(4))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%d partitions, steps:\n%s\nreplay: go test ./internal/dsltest/metamorphic -run TestDriver -seed=%d",
				partitions, strings.Join(topo.log, "\n"), seed)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	d := tidegatetest.New(t, built, tidegatetest.WithPartitions(partitions),
		tidegatetest.WithCacheBytes([]int64{1 << 20, 0, 1000}[rnd.IntN(3)]))
	feed(d, rnd, in)
	for now := in.end; now <= in.end+2*topo.lag+10*tick; now += tick {
		d.AdvanceStreamTime(now)
	}
	if n := d.Late(); n != 0 {
		t.Errorf("%d records were late, by %v at most", n, d.MaxLateness())
	}
	for _, s := range topo.sinks {
		check(t, s, read(d, s))
	}
}

// feed gives the driver its input, one by one or in bursts, with restarts in
// between, also while records are on their way.
func feed(d *tidegatetest.Driver, rnd *rand.Rand, in *input) {
	inputs := map[string]*tidegatetest.Input[string, int64]{}
	for _, topic := range slices.Concat(streamTopics, tableTopics, fixedTopics) {
		inputs[topic] = d.Input(topic, keys, nums)
	}
	bursts, restarts := rnd.IntN(2) == 0, 12+rnd.IntN(60)
	queued, now := 0, int64(0)
	for i, m := range in.all {
		opts := []tidegatetest.PipeOption{tidegatetest.At(m.ts)}
		if m.null {
			opts = append(opts, tidegatetest.Tombstone())
		}
		inputs[m.topic].Queue(m.k, m.v, opts...)
		queued++
		if rnd.IntN(restarts) == 0 {
			d.Restart()
		}
		if now = max(now, m.ts); i == in.fixed-1 || !bursts || queued == burst || rnd.IntN(burst) == 0 {
			d.Run()
			queued = 0
			if i >= in.fixed {
				d.AdvanceStreamTime(now)
			}
		}
	}
	d.Run()
}

// read returns what is in an output topic.
func read(d *tidegatetest.Driver, s *sink) []rec {
	if s.windows != nil {
		return recsOf(d.Output(s.topic, s.windows, nums), flatKey)
	}
	return recsOf(d.Output(s.topic, keys, nums), func(k string) string { return k })
}

func recsOf[K any](out *tidegatetest.Output[K, int64], key func(K) string) (all []rec) {
	for _, r := range out.ReadAll() {
		all = append(all, rec{k: key(r.Key), v: r.Value, ts: r.Timestamp, null: r.Tombstone})
	}
	return all
}

// check compares what came out with what must.
func check(t *testing.T, s *sink, got []rec) {
	t.Helper()
	if diff := s.diff(got); len(diff) > 0 {
		t.Errorf("%s: %d differences: %s", s.topic, len(diff), strings.Join(diff[:min(8, len(diff))], ", "))
	}
}

func (s *sink) diff(got []rec) (diff []string) {
	if s.table {
		rows := refTable(got)
		for _, k := range slices.Sorted(maps.Keys(union(rows, s.rows))) {
			have, ok := rows[k]
			want, must := s.rows[k]
			if have != want || ok != must {
				diff = append(diff, fmt.Sprintf("row %s is %d (%v), want %d (%v)", k, have, ok, want, must))
			}
		}
		return diff
	}
	left := map[string]int{}
	for _, r := range s.recs {
		left[r.String()]++
	}
	for _, r := range got {
		left[r.String()]--
	}
	for _, r := range slices.Sorted(maps.Keys(left)) {
		switch n := left[r]; {
		case n > 0:
			diff = append(diff, fmt.Sprintf("%s is missing %d times", r, n))
		case n < 0:
			diff = append(diff, fmt.Sprintf("%s is there %d times too often", r, -n))
		}
	}
	return diff
}

func union(a, b map[string]int64) map[string]int64 {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func (r rec) String() string {
	if r.null {
		return fmt.Sprintf("%s=null@%d", r.k, r.ts)
	}
	return fmt.Sprintf("%s=%d@%d", r.k, r.v, r.ts)
}
