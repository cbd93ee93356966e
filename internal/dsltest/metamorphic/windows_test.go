package metamorphic

import (
	"fmt"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

type kind int

const (
	tumbling kind = iota
	hopping
	sliding
	session
)

// windows are windows of the reference: size is also a sliding window's
// difference and a session's gap.
type windows struct {
	kind          kind
	size, advance int64
}

func (w windows) String() string {
	return fmt.Sprintf("%s %d/%d", []string{"tumbling", "hopping", "sliding", "session"}[w.kind], w.size, w.advance)
}

func (w windows) dsl(grace int64) tidegate.TimeWindows {
	switch w.kind {
	case hopping:
		return tidegate.Hopping(ms(w.size), ms(w.advance)).Grace(ms(grace))
	case sliding:
		return tidegate.Sliding(ms(w.size)).Grace(ms(grace))
	default:
		return tidegate.Tumbling(ms(w.size)).Grace(ms(grace))
	}
}

func (w windows) keys() serde.Serde[tidegate.Windowed[string]] {
	if w.kind == session {
		return serde.WindowedSpan(keys)
	}
	return serde.Windowed(keys, time.Duration(w.size)*time.Millisecond)
}

// window adds a windowed aggregation and one way on from it.
func (t *topology) window() {
	s := t.timed()
	w := windows{kind: kind(t.rnd.IntN(4)), size: 1 + int64(t.rnd.IntN(800))}
	w.advance = w.size
	if w.kind == hopping {
		w.advance = max(1, w.size/int64(1+t.rnd.IntN(5)))
	}
	if w.kind == session {
		w.size = 1 + w.size/4
	}
	grace := s.lag + int64(t.rnd.IntN(2))*150
	onClose := t.rnd.IntN(3) == 0
	tab, recs, lag := t.windowed(s, w, grace, onClose)
	what := fmt.Sprintf("%s %v grace %d on close %v", s.name, w, grace, onClose)
	switch way := t.rnd.IntN(4); {
	case onClose:
		if way == 0 {
			tab = tab.Filter(func(_ tidegate.Windowed[string], v int64) bool { return mod(v, 3) != 0 })
			recs = refEach(recs, func(r rec) []rec {
				if mod(r.v, 3) != 0 {
					return []rec{r}
				}
				return nil
			})
		}
		t.addStream("window "+what, tab.ToStream().Map(flat, tidegate.With(keys, nums)), recs, lag, true)
	case way == 0:
		dsl := tab.Suppress(t.name("final"), tidegate.UntilWindowCloses()).ToStream().Map(flat, tidegate.With(keys, nums))
		t.addStream("suppressed window "+what, dsl, recs, lag, true)
	case way == 1:
		f := func(k tidegate.Windowed[string], v int64) (string, int64) {
			return fmt.Sprint("k", mod(mix(v), 5)), v + k.Start
		}
		var rows []rec
		for sp, one := range t.folded(s, w) {
			k, v := f(tidegate.Windowed[string]{Key: sp.k, Window: tidegate.Window{Start: sp.start, End: sp.end}}, one)
			rows = append(rows, rec{k: k, v: v})
		}
		t.aggregateRows("rows of window "+what, tab.GroupBy(t.name("windows"), f, keys, nums), rows,
			&aTable{roots: map[string]bool{"stream": true}})
	default:
		out := t.out("window " + what)
		tab.ToStream().To(out.topic)
		out.table, out.windows, out.rows = true, w.keys(), map[string]int64{}
		for _, r := range recs {
			out.rows[r.k] = r.v
		}
		t.lag = max(t.lag, lag)
	}
}

// flat writes a window's key as a string.
func flat(k tidegate.Windowed[string], v int64) (string, int64) { return flatKey(k), v }

func flatKey(k tidegate.Windowed[string]) string { return span{k.Key, k.Start, k.End}.String() }

// folded are the sums of the windows.
func (t *topology) folded(s *aStream, w windows) map[span]int64 {
	out := map[span]int64{}
	for sp, all := range refWindows(s.recs, w) {
		out[sp] = refSum(all)[sp.k]
	}
	return out
}

// windowed adds the aggregation, which sums; results on close come once.
func (t *topology) windowed(s *aStream, w windows, grace int64, onClose bool) (*dslWindows, []rec, int64) {
	name, g := t.name("window"), s.dsl.GroupByKey(t.name("group"))
	recs := foldWindows(refWindows(s.recs, w), func(all []rec) map[string]int64 { return refSum(all) })
	lag := w.size + grace + 3*tick
	merge := func(_ string, a, b int64) int64 { return a + b }
	if w.kind == session {
		lag += w.size
		ws := tidegate.Session(ms(w.size)).Grace(ms(grace))
		if t.rnd.IntN(4) == 0 {
			c := g.Cogroup(addMember(0)).SessionWindowedBy(ws, tidegate.ByWindow)
			if onClose {
				c = c.EmitOnClose()
			}
			return c.Aggregate(name, zero, merge, nums), recs, lag
		}
		sw := g.SessionWindowedBy(ws, tidegate.ByWindow)
		if onClose {
			sw = sw.EmitOnClose()
		}
		return sw.Aggregate(name, zero, addMember(0), merge, nums), recs, lag
	}
	if t.rnd.IntN(4) == 0 {
		c := g.Cogroup(addMember(0)).WindowedBy(w.dsl(grace), tidegate.ByWindow)
		if onClose {
			c = c.EmitOnClose()
		}
		return c.Aggregate(name, zero, nums), recs, lag
	}
	tw := g.WindowedBy(w.dsl(grace), tidegate.ByWindow)
	if onClose {
		tw = tw.EmitOnClose()
	}
	return tw.Aggregate(name, zero, addMember(0), nums), recs, lag
}
