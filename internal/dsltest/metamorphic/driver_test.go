package metamorphic

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/harness"
	"github.com/tidegate/tidegate/internal/ids"
)

var (
	oneSeed = flag.Int64("seed", -1, "replay this seed")
	seeds   = flag.Int("seeds", 0, "how many seeds; 0 is the usual number")
)

// kept are seeds that found something, or go where few do.
var kept = []struct {
	seed int64
	what string
}{
	{978, "a join of tables of which one comes from the other kept a row when both lost theirs at once"},
}

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
	topics := map[string]int32{}
	for _, topic := range slices.Concat(built.Graph().Inputs(), built.Graph().Sinks()) {
		topics[topic] = partitions
	}
	h, err := harness.New(built.Graph(), topics, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{Driver: h, t: t, rnd: rnd, partitions: partitions}
	d.CacheBytes = []int64{1 << 20, 0, 1000}[rnd.IntN(3)]
	if rnd.IntN(2) == 0 {
		d.Turn = d.turn
	}
	d.feed(in)
	for now := in.end; now <= in.end+2*topo.lag+10*tick; now += tick {
		d.do(d.Advance(now))
	}
	if n := d.Metrics.LateDropped.Load(); n != 0 {
		t.Errorf("%d records were late, by %d ms at most", n, d.Metrics.MaxLatenessMs.Load())
	}
	for _, s := range topo.sinks {
		check(t, s, d.read(s))
	}
	d.do(d.Close())
}

// driver is the harness below tidegatetest, whose order of turns can be chosen.
type driver struct {
	*harness.Driver
	t          *testing.T
	rnd        *rand.Rand
	partitions int32
	// some lets only some of the tasks have a turn.
	some bool
}

func (d *driver) turn(due []ids.TaskID) int {
	if d.some && d.rnd.IntN(4) == 0 {
		return -1
	}
	return d.rnd.IntN(len(due))
}

func (d *driver) do(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// feed gives the tasks their input, one by one or in bursts, with restarts in
// between, also while records are on their way.
func (d *driver) feed(in *input) {
	bursts, restarts := d.rnd.IntN(2) == 0, 12+d.rnd.IntN(60)
	queued, now := 0, int64(0)
	for i, m := range in.all {
		raw := encode(m)
		d.do(d.Queue(harness.Record{
			Topic: m.topic, Key: raw.Key, Value: raw.Value, Timestamp: raw.Timestamp,
			Partition: ids.Partition(raw.Key, d.partitions),
		}))
		queued++
		if d.rnd.IntN(restarts) == 0 {
			d.some = true
			d.do(d.Run())
			d.some = false
			d.do(d.Restart())
		}
		if now = max(now, m.ts); i == in.fixed-1 || !bursts || queued == burst || d.rnd.IntN(burst) == 0 {
			d.do(d.Run())
			queued = 0
			if i >= in.fixed {
				d.do(d.Advance(now))
			}
		}
	}
	d.do(d.Run())
}

// read returns what is in an output topic.
func (d *driver) read(s *sink) (out []rec) {
	for _, r := range d.Take(s.topic) {
		one, err := s.decode(r.Key, r.Value, r.Timestamp)
		d.do(err)
		out = append(out, one)
	}
	return out
}

func (s *sink) decode(key, value []byte, ts int64) (r rec, err error) {
	r = rec{ts: ts, null: value == nil}
	if !r.null {
		if r.v, err = nums.Decode(value); err != nil {
			return r, err
		}
	}
	if s.windows == nil {
		r.k, err = keys.Decode(key)
		return r, err
	}
	k, err := s.windows.Decode(key)
	r.k = flatKey(k)
	return r, err
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
