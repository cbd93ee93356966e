package tidegate

import (
	"math"
	"time"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// JoinWindows say how far apart in event time records of two streams may lie to
// be joined (Kafka Streams' JoinWindows): the other record's timestamp must be
// in [t − before, t + after], bounds included, where t is that of the record of
// the stream on which the join is called.
type JoinWindows struct {
	before, after, grace time.Duration
}

// JoinWithin joins records whose timestamps are at most d apart. The grace is 0
// unless Grace sets it.
func JoinWithin(d time.Duration) JoinWindows { return JoinWindows{before: d, after: d} }

// Before sets how much earlier than this stream's record the other's may be.
func (w JoinWindows) Before(d time.Duration) JoinWindows { w.before = d; return w }

// After sets how much later than this stream's record the other's may be.
func (w JoinWindows) After(d time.Duration) JoinWindows { w.after = d; return w }

// Grace sets how long after the end of its window, in stream time, a record
// still finds late partners. Records of both sides are kept so long, and a left
// or outer join sends a record without a partner only then.
func (w JoinWindows) Grace(d time.Duration) JoinWindows { w.grace = d; return w }

// check notes what is wrong with the windows and returns valid ones.
func (w JoinWindows) check(b *Builder, site topology.Site, op, name string) operators.JoinWindows {
	const ms = time.Millisecond
	switch {
	case w.before < 0 || w.after < 0:
		b.t.Errorf(site, "%s(%q): the join window reaches %v before and %v after a record: neither may be negative", op, name, w.before, w.after)
	case w.grace < 0:
		b.t.Errorf(site, "%s(%q): join window grace %v: must not be negative", op, name, w.grace)
	case w.before%ms != 0 || w.after%ms != 0 || w.grace%ms != 0:
		b.t.Errorf(site, "%s(%q): join window of %v before, %v after and grace %v: event time has whole milliseconds", op, name, w.before, w.after, w.grace)
	case w.before > math.MaxInt64-w.after || w.before+w.after > math.MaxInt64-w.grace:
		b.t.Errorf(site, "%s(%q): join window of %v before plus %v after plus grace %v overflows", op, name, w.before, w.after, w.grace)
	default:
		return operators.JoinWindows{
			Before: w.before.Milliseconds(), After: w.after.Milliseconds(), Grace: w.grace.Milliseconds(),
		}
	}
	return operators.JoinWindows{}
}

// JoinStream joins each record with the records of another stream that have the
// same key and lie within the windows, whichever of the two comes first; see
// [JoinWindows]. Several records with one key and timestamp are several
// records. A result has the later of the two timestamps and the headers of the
// record that came later.
//
// Both streams are kept, in the stores "name-left" and "name-right", until their
// windows are closed: until stream time passed the last possible partner's
// timestamp plus the grace. A record whose own window is closed when it comes,
// and which finds no partner whose window is open, is dropped and counted in
// Health.Late. Records with a null key or value are dropped and counted.
//
// The streams must be co-partitioned: where a key was changed before, that
// stream is repartitioned through "<app>-name-left-repartition" or
// "<app>-name-right-repartition". A stream that is joined with itself is kept
// once; every record then meets itself, too.
func (s *Stream[K, V]) JoinStream[VO, VR any](
	name string, other *Stream[K, VO], within JoinWindows, f func(V, VO) VR, vs ...serde.Serde[VR],
) *Stream[K, VR] {
	site := here()
	if f == nil {
		s.b.t.Errorf(site, "JoinStream(%q): the function is nil", name)
	}
	return joinStream(s, site, "JoinStream", other, within, operators.StreamJoin[K, V, VO, VR]{
		Name: name, Joiner: f,
	}, vs)
}

// LeftJoinStream is JoinStream that also keeps the records of this stream that
// find no partner: f gets a missing Opt when their window is closed, not
// before, and the result has their timestamp and no headers. Until then they
// are also in the store "name-pending". A record with a null key can have no
// partner and is sent at once.
//
// A result without a partner lies behind stream time by all of its window and
// grace, and by more where stream time jumps: windows and joins further down need
// a grace of that length to take it, else it is late there.
func (s *Stream[K, V]) LeftJoinStream[VO, VR any](
	name string, other *Stream[K, VO], within JoinWindows, f func(V, Opt[VO]) VR, vs ...serde.Serde[VR],
) *Stream[K, VR] {
	site := here()
	if f == nil {
		s.b.t.Errorf(site, "LeftJoinStream(%q): the function is nil", name)
	}
	return joinStream(s, site, "LeftJoinStream", other, within, operators.StreamJoin[K, V, VO, VR]{
		Name:     name,
		Joiner:   func(v V, vo VO) VR { return f(v, Some(vo)) },
		LeftOnly: func(v V) VR { return f(v, None[VO]()) },
	}, vs)
}

// OuterJoinStream is LeftJoinStream that keeps the records of both streams.
func (s *Stream[K, V]) OuterJoinStream[VO, VR any](
	name string, other *Stream[K, VO], within JoinWindows, f func(Opt[V], Opt[VO]) VR, vs ...serde.Serde[VR],
) *Stream[K, VR] {
	site := here()
	if f == nil {
		s.b.t.Errorf(site, "OuterJoinStream(%q): the function is nil", name)
	}
	return joinStream(s, site, "OuterJoinStream", other, within, operators.StreamJoin[K, V, VO, VR]{
		Name:      name,
		Joiner:    func(v V, vo VO) VR { return f(Some(v), Some(vo)) },
		LeftOnly:  func(v V) VR { return f(Some(v), None[VO]()) },
		RightOnly: func(vo VO) VR { return f(None[V](), Some(vo)) },
	}, vs)
}

var joinWords = map[string]string{
	"JoinStream": "join-stream", "LeftJoinStream": "left-join-stream", "OuterJoinStream": "outer-join-stream",
}

// joinStream adds the nodes of a join: one per side, and one below both.
func joinStream[K, V, VO, VR any](
	s *Stream[K, V], site topology.Site, op string, other *Stream[K, VO], within JoinWindows,
	j operators.StreamJoin[K, V, VO, VR], vs []serde.Serde[VR],
) *Stream[K, VR] {
	name, b := j.Name, s.b
	vr := last(b, site, op, "value", vs)
	b.t.ClaimStep(name, site)
	if other == nil || other.b != b {
		b.t.Errorf(site, "%s(%q): the other stream is nil or comes from another Builder", op, name)
		return &Stream[K, VR]{from: s.from, ks: s.ks, vs: vr}
	}
	b.t.ClaimStep(name+"-left", site)
	b.t.ClaimStep(name+"-right", site)
	j.W = within.check(b, site, op, name)
	left := byKey(s, site, name+"-left")
	right := left.asOther(s, other, op == "JoinStream")
	j.Self = right != nil
	if !j.Self {
		right = byKey(other, site, name+"-right")
	}
	step := op + "(" + name + ")"
	j.Key = needKey(left.from, site, step, left.ks)
	rk := needKey(right.from, site, step, right.ks)
	j.Left, j.Right = needValue(left.from, site, step, left.vs), needValue(right.from, site, step, right.vs)
	if !missing(j.Key) && !missing(rk) && j.Key.Fingerprint() != rk.Fingerprint() {
		b.t.Errorf(site, "%s(%q): this stream's keys are serialised as %s, the other's as %s: equal keys would not meet, use one serde for both",
			op, name, j.Key.Fingerprint(), rk.Fingerprint())
	}
	var stores []string
	for _, st := range j.Stores(serdeInfo(j.Key), serdeInfo(j.Left), serdeInfo(j.Right), site) {
		b.t.AddStore(st)
		stores = append(stores, st.Name)
	}
	side := func(f from, word string, factory operators.Factory) *topology.Node {
		return f.add(topology.Node{
			Kind: topology.Stateful, Op: joinWords[op] + word, Name: name, Site: site, Stores: stores, Factory: factory,
		})
	}
	parents := []*topology.Node{side(left.from, "-left", j.LeftSide()), side(right.from, "-right", j.RightSide())}
	f := left.from
	f.n = b.t.Add(topology.Node{
		Kind: topology.Join, Op: joinWords[op], Name: name, Site: site, Parents: parents, KeyedState: true,
		Factory: operators.Merge[K, VR](),
	})
	f = f.lose(op, site, false, vr == nil)
	return &Stream[K, VR]{from: f, ks: left.ks, vs: vr}
}

// asOther returns this stream, which is s by its key, as the right side of an
// inner join of s with itself, and nil when other is another stream.
func (s *Stream[K, V]) asOther[VO any](in *Stream[K, V], other *Stream[K, VO], inner bool) *Stream[K, VO] {
	same, ok := any(other).(*Stream[K, V])
	if !inner || !ok || same.n != in.n || missing(in.ks) || missing(in.vs) || missing(same.ks) || missing(same.vs) ||
		same.rekeyed != in.rekeyed || same.ks.Fingerprint() != in.ks.Fingerprint() || same.vs.Fingerprint() != in.vs.Fingerprint() {
		return nil
	}
	right, _ := any(s).(*Stream[K, VO]) // VO is V
	return right
}
