package metamorphic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

var (
	keys = serde.String()
	nums = serde.Int64()
)

type (
	dslStream  = tidegate.Stream[string, int64]
	dslTable   = tidegate.Table[string, int64]
	dslWindows = tidegate.Table[tidegate.Windowed[string], int64]
)

// aStream is a stream with what comes out of it.
type aStream struct {
	name string
	dsl  *dslStream
	recs []rec
	// lag is how far its records may lie behind stream time.
	lag int64
	// waits: its records come by time, not with a record of the input.
	waits bool
}

// aTable is a table with its last rows.
type aTable struct {
	name string
	dsl  *dslTable
	rows map[string]int64
	// fixed: nothing changes behind the fixed topics.
	fixed bool
	roots map[string]bool // the topics that it depends on
}

// sink is an output topic with what must be in it.
type sink struct {
	topic string
	table bool // else all records count
	// first: it is complete when the fixed topics are read; now: when the input
	// is, before time goes on.
	first, now bool
	recs       []rec
	rows       map[string]int64
	// windows is the serde of its keys, nil where they are strings.
	windows serde.Serde[tidegate.Windowed[string]]
}

// topology is a random topology and its expected results.
type topology struct {
	rnd     *rand.Rand
	b       *tidegate.Builder
	streams []*aStream
	tables  []*aTable
	sinks   []*sink
	log     []string
	n       int
	// far: nothing may close before the end of the input, and nothing that waits
	// for time may stand above another such step: time comes from a broker.
	far int64
	// lag is the largest of all steps: how far time must go on behind the input.
	lag int64
}

// most bounds the records of a stream and the rows of a table.
const most = 2000

// generate makes a topology of so many steps for an input. far is 0 where time is
// moved by the driver.
func generate(rnd *rand.Rand, in *input, steps int, far int64) *topology {
	t := &topology{rnd: rnd, b: tidegate.NewBuilder(), far: far}
	for _, topic := range streamTopics {
		t.addStream("stream "+topic, t.b.Stream(topic, keys, nums).Filter(notTick), in.of(topic), max(slack, far), false)
	}
	for i, topic := range slices.Concat(tableTopics, fixedTopics) {
		t.addTable("table "+topic, t.b.Table(topic, topic+"-rows", keys, nums).Filter(notTick),
			refTable(in.of(topic)), i >= len(tableTopics), map[string]bool{topic: true})
	}
	for len(t.log) < steps {
		t.step()
	}
	for i, s := range t.streams {
		now := t.far > 0 && !s.waits
		if i >= len(streamTopics) && (t.rnd.IntN(3) == 0 || i == len(t.streams)-1 || now) {
			out := t.out("sink " + s.name)
			s.dsl.To(out.topic)
			out.recs, out.now = s.recs, now
		}
	}
	for i, tab := range t.tables {
		first := t.far > 0 && tab.fixed
		if i > 0 && (t.rnd.IntN(3) == 0 || i == len(t.tables)-1 || first) {
			out := t.out("sink " + tab.name)
			tab.dsl.ToStream().To(out.topic)
			out.table, out.rows, out.first, out.now = true, tab.rows, first, first
		}
	}
	return t
}

// tickKey begins the keys of records that only move time.
const tickKey = "tick"

func notTick(k string, _ int64) bool { return !strings.HasPrefix(k, tickKey) }

func (t *topology) out(what string) *sink {
	s := &sink{topic: fmt.Sprint("out", len(t.sinks))}
	t.sinks = append(t.sinks, s)
	t.log = append(t.log, fmt.Sprintf("%s = %s", s.topic, what))
	return s
}

func (t *topology) addStream(what string, dsl *dslStream, recs []rec, lag int64, waits bool) {
	s := &aStream{fmt.Sprint("S", len(t.streams)), dsl, recs, lag, waits}
	t.streams = append(t.streams, s)
	t.log = append(t.log, fmt.Sprintf("%s = %s: %d records, lag %d", s.name, what, len(recs), lag))
	t.lag = max(t.lag, lag)
}

func (t *topology) addTable(what string, dsl *dslTable, rows map[string]int64, fixed bool, roots map[string]bool) {
	a := &aTable{fmt.Sprint("T", len(t.tables)), dsl, rows, fixed, roots}
	t.tables = append(t.tables, a)
	t.log = append(t.log, fmt.Sprintf("%s = %s: %d rows", a.name, what, len(rows)))
}

// name is the next step's name.
func (t *topology) name(of string) string {
	t.n++
	return fmt.Sprint(of, t.n)
}

func (t *topology) stream() *aStream { return t.streams[t.rnd.IntN(len(t.streams))] }
func (t *topology) table() *aTable   { return t.tables[t.rnd.IntN(len(t.tables))] }

// timed is a stream on which a step that waits for time may stand.
func (t *topology) timed() *aStream {
	for {
		if s := t.stream(); t.far == 0 || !s.waits {
			return s
		}
	}
}

// step adds a step, or a few.
func (t *topology) step() {
	switch t.rnd.IntN(16) {
	case 0, 1:
		t.stateless()
	case 2:
		t.split()
	case 3, 4, 5:
		t.joinStreams()
	case 6:
		t.joinTable()
	case 7, 8:
		t.aggregate()
	case 9, 10, 11:
		t.window()
	case 12:
		t.tableView()
	case 13:
		t.joinTables()
	case 14:
		t.joinForeign()
	case 15:
		t.groupTable()
	}
}

func (t *topology) stateless() {
	s, n := t.stream(), int64(2+t.rnd.IntN(4))
	rekey := func(_ string, v int64) string { return fmt.Sprint("k", mod(mix(v+n), 7)) }
	switch t.rnd.IntN(6) {
	case 0:
		f := func(_ string, v int64) bool { return mod(v, n) != 0 }
		t.addStream("filter "+s.name, s.dsl.Filter(f), refEach(s.recs, func(r rec) []rec {
			if r.null || f(r.k, r.v) {
				return []rec{r}
			}
			return nil
		}), s.lag, s.waits)
	case 1:
		f := func(v int64) int64 { return v*n + 1 }
		t.addStream("mapValues "+s.name, s.dsl.MapValues(f, nums), refEach(s.recs, func(r rec) []rec {
			if !r.null {
				r.v = f(r.v)
			}
			return []rec{r}
		}), s.lag, s.waits)
	case 2, 3:
		t.addStream("selectKey "+s.name, s.dsl.SelectKey(rekey, keys), refEach(values(s.recs), func(r rec) []rec {
			r.k = rekey(r.k, r.v)
			return []rec{r}
		}), s.lag, s.waits)
	case 4:
		f := func(v int64) []int64 { return []int64{v, v + 1, v + 2}[:mod(v, 4)%3+1] }
		if len(s.recs) > most/3 {
			return
		}
		t.addStream("flatMapValues "+s.name, s.dsl.FlatMapValues(func(v int64) seq { return slices.Values(f(v)) }, nums),
			refEach(s.recs, func(r rec) (out []rec) {
				if r.null {
					return []rec{r}
				}
				for _, v := range f(r.v) {
					out = append(out, rec{k: r.k, v: v, ts: r.ts})
				}
				return out
			}), s.lag, s.waits)
	case 5:
		o := t.stream()
		if len(s.recs)+len(o.recs) > most {
			return
		}
		t.addStream("merge "+s.name+" "+o.name, s.dsl.Merge(o.dsl), slices.Concat(s.recs, o.recs),
			max(s.lag, o.lag), s.waits || o.waits)
	}
}

func (t *topology) split() {
	s := t.stream()
	pred := func(_ string, v int64) bool { return mod(v, 3) == 1 }
	sp := s.dsl.Split()
	// Every branch takes tombstones.
	branch := func(first bool) []rec {
		return refEach(s.recs, func(r rec) []rec {
			if r.null || first == pred(r.k, r.v) {
				return []rec{r}
			}
			return nil
		})
	}
	t.addStream("split "+s.name, sp.Branch("some", pred), branch(true), s.lag, s.waits)
	t.addStream("rest of "+s.name, sp.Default(), branch(false), s.lag, s.waits)
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (t *topology) joinStreams() {
	l, r := t.timed(), t.timed()
	kind := t.rnd.IntN(3)
	before, after := int64(t.rnd.IntN(400)), int64(t.rnd.IntN(400))
	recs := refJoin(l.recs, r.recs, before, after, kind > 0, kind > 1)
	if len(recs) > most {
		return
	}
	in := max(l.lag, r.lag)
	grace := in + int64(t.rnd.IntN(2))*200
	w := tidegate.JoinWithin(0).Before(ms(before)).After(ms(after)).Grace(ms(grace))
	name := t.name("join")
	opt := func(o tidegate.Opt[int64]) int64 { return o.Or(none) }
	var dsl *dslStream
	switch kind {
	case 0:
		dsl = l.dsl.JoinStream(name, r.dsl, w, pair, nums)
	case 1:
		dsl = l.dsl.LeftJoinStream(name, r.dsl, w, func(l int64, r tidegate.Opt[int64]) int64 { return pair(l, opt(r)) }, nums)
	case 2:
		dsl = l.dsl.OuterJoinStream(name, r.dsl, w, func(l, r tidegate.Opt[int64]) int64 { return pair(opt(l), opt(r)) }, nums)
	}
	lag := in
	if kind > 0 {
		lag = max(before, after) + grace + 3*tick
	}
	what := []string{"join", "leftJoin", "outerJoin"}[kind]
	t.addStream(fmt.Sprintf("%s %s %s -%d +%d grace %d", what, l.name, r.name, before, after, grace), dsl, recs, lag, kind > 0)
}

func (t *topology) joinTable() {
	var fixed []*aTable
	for _, tab := range t.tables {
		if tab.fixed {
			fixed = append(fixed, tab)
		}
	}
	s, tab := t.stream(), fixed[t.rnd.IntN(len(fixed))]
	name := t.name("lookup")
	left := t.rnd.IntN(2) == 0
	var dsl *dslStream
	if left {
		dsl = s.dsl.LeftJoinTable(name, tab.dsl, func(l int64, r tidegate.Opt[int64]) int64 { return pair(l, r.Or(none)) }, nums)
	} else {
		dsl = s.dsl.JoinTable(name, tab.dsl, pair, nums)
	}
	t.addStream(fmt.Sprintf("lookup %s %s left %v", s.name, tab.name, left), dsl, refLookUp(s.recs, tab.rows, left), s.lag, s.waits)
}

func addMember(i int64) func(string, int64, int64) int64 {
	return func(_ string, v, a int64) int64 { return a + member(v+i) }
}

func zero() int64 { return 0 }

func add(a, b int64) int64 { return a + b }

// group groups a stream by its key, by another key, or after a repartition step.
func (t *topology) group(s *aStream) (*tidegate.Grouped[string, int64], []rec) {
	switch name := t.name("group"); t.rnd.IntN(3) {
	case 0:
		return s.dsl.Repartition(t.name("repartition")).GroupByKey(name), s.recs
	case 1:
		f := func(_ string, v int64) string { return fmt.Sprint("g", mod(v, 3)) }
		recs := values(s.recs)
		for i := range recs {
			recs[i].k = f(recs[i].k, recs[i].v)
		}
		return s.dsl.GroupBy(name, f, keys), recs
	default:
		return s.dsl.GroupByKey(name), s.recs
	}
}

func (t *topology) aggregate() {
	s := t.stream()
	roots := map[string]bool{"stream": true}
	if t.rnd.IntN(4) == 0 {
		o := t.stream()
		dsl := s.dsl.GroupByKey(t.name("cogroup")).Cogroup(addMember(0)).
			Cogroup(o.dsl.GroupByKey(t.name("cogroup")), addMember(1)).
			Aggregate(t.name("cosum"), zero, nums)
		t.addTable("cogroup "+s.name+" "+o.name, dsl, refSum(s.recs, o.recs), false, roots)
		return
	}
	g, recs := t.group(s)
	switch name := t.name("agg"); t.rnd.IntN(3) {
	case 0:
		t.addTable("count "+s.name, g.Count(name), refCount(recs), false, roots)
	case 1:
		t.addTable("reduce "+s.name, g.Reduce(name, add), refReduce(recs), false, roots)
	case 2:
		t.addTable("sum "+s.name, g.Aggregate(name, zero, addMember(0), nums), refSum(recs), false, roots)
	}
}
