package metamorphic

import (
	"fmt"
	"maps"
	"slices"
)

// rec is a record of the reference.
type rec struct {
	k    string
	v    int64
	ts   int64
	null bool // a tombstone
}

// mix spreads a value over all bits.
func mix(v int64) int64 {
	x := uint64(v) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int64(x ^ x>>31)
}

// member is what a value adds to an aggregate; the lowest 16 bits count.
func member(v int64) int64 { return mix(v)<<16 + 1 }

// none stands for the missing side of a join.
const none = -77

func pair(l, r int64) int64 { return mix(l) ^ 3*mix(r+1) }

// mod is a modulus that is not negative.
func mod(v, n int64) int64 { return (v%n + n) % n }

func values(in []rec) []rec {
	return slices.DeleteFunc(slices.Clone(in), func(r rec) bool { return r.null })
}

func refEach(in []rec, f func(rec) []rec) (out []rec) {
	for _, r := range in {
		out = append(out, f(r)...)
	}
	return out
}

// refJoin joins two streams: a pair for each two records of a key whose times
// are near enough.
func refJoin(left, right []rec, before, after int64, leftRows, rightRows bool) (out []rec) {
	left, right = values(left), values(right)
	met := make([]bool, len(right))
	for _, l := range left {
		found := false
		for i, r := range right {
			if l.k == r.k && l.ts-before <= r.ts && r.ts <= l.ts+after {
				out = append(out, rec{k: l.k, v: pair(l.v, r.v), ts: max(l.ts, r.ts)})
				found, met[i] = true, true
			}
		}
		if !found && leftRows {
			out = append(out, rec{k: l.k, v: pair(l.v, none), ts: l.ts})
		}
	}
	for i, r := range right {
		if !met[i] && rightRows {
			out = append(out, rec{k: r.k, v: pair(none, r.v), ts: r.ts})
		}
	}
	return out
}

// refLookUp joins a stream with a table that does not change.
func refLookUp(in []rec, rows map[string]int64, left bool) (out []rec) {
	for _, r := range values(in) {
		row, ok := rows[r.k]
		if !ok && !left {
			continue
		}
		if !ok {
			row = none
		}
		out = append(out, rec{k: r.k, v: pair(r.v, row), ts: r.ts})
	}
	return out
}

func refSum(ins ...[]rec) map[string]int64 {
	out := map[string]int64{}
	for i, in := range ins {
		for _, r := range values(in) {
			out[r.k] += member(r.v + int64(i))
		}
	}
	return out
}

func refCount(in []rec) map[string]int64 {
	out := map[string]int64{}
	for _, r := range values(in) {
		out[r.k]++
	}
	return out
}

func refReduce(in []rec) map[string]int64 {
	out := map[string]int64{}
	for _, r := range values(in) {
		out[r.k] += r.v
	}
	return out
}

// span is a window of a key.
type span struct {
	k          string
	start, end int64
}

func (s span) String() string { return fmt.Sprintf("%s@%d-%d", s.k, s.start, s.end) }

func byKey(in []rec) map[string][]rec {
	out := map[string][]rec{}
	for _, r := range values(in) {
		out[r.k] = append(out[r.k], r)
	}
	return out
}

// refWindows gives the records of every window that has some.
func refWindows(in []rec, w windows) map[span][]rec {
	out := map[span][]rec{}
	for k, all := range byKey(in) {
		slices.SortStableFunc(all, func(a, b rec) int { return int(a.ts - b.ts) })
		for _, s := range spansOf(all, w) {
			s.k = k
			for _, r := range all {
				// The end is in sliding windows and sessions.
				if s.start <= r.ts && (r.ts < s.end || r.ts == s.end && w.kind != tumbling && w.kind != hopping) {
					out[s] = append(out[s], r)
				}
			}
		}
	}
	for s, all := range out {
		if len(all) == 0 {
			delete(out, s)
		}
	}
	return out
}

// spansOf are the windows of the records of a key, sorted by time.
func spansOf(all []rec, w windows) []span {
	found := map[span]bool{}
	switch w.kind {
	case tumbling, hopping:
		for _, r := range all {
			for start := r.ts - mod(r.ts, w.advance); start > r.ts-w.size; start -= w.advance {
				found[span{start: start, end: start + w.size}] = true
			}
		}
	case sliding:
		for _, r := range all {
			found[span{start: r.ts - w.size, end: r.ts}] = true
			for _, o := range all { // behind the record, if there is another
				if r.ts < o.ts && o.ts <= r.ts+1+w.size {
					found[span{start: r.ts + 1, end: r.ts + 1 + w.size}] = true
				}
			}
		}
	case session:
		now := span{start: all[0].ts, end: all[0].ts}
		for _, r := range all {
			if r.ts > now.end+w.size {
				found[now] = true
				now.start = r.ts
			}
			now.end = r.ts
		}
		found[now] = true
	}
	return slices.Collect(maps.Keys(found))
}

// foldWindows gives one record for each window.
func foldWindows(in map[span][]rec, f func([]rec) map[string]int64) (out []rec) {
	for s, all := range in {
		r := rec{k: s.String(), v: f(all)[s.k], ts: all[0].ts}
		for _, one := range all {
			r.ts = max(r.ts, one.ts)
		}
		out = append(out, r)
	}
	return out
}

// refTable is the table of the last value of each key.
func refTable(in []rec) map[string]int64 {
	out := map[string]int64{}
	for _, r := range in {
		if r.null {
			delete(out, r.k)
		} else {
			out[r.k] = r.v
		}
	}
	return out
}

func refTableJoin(left, right map[string]int64, leftRows, rightRows bool) map[string]int64 {
	out := map[string]int64{}
	for k, l := range left {
		if r, ok := right[k]; ok {
			out[k] = pair(l, r)
		} else if leftRows {
			out[k] = pair(l, none)
		}
	}
	for k, r := range right {
		if _, ok := left[k]; !ok && rightRows {
			out[k] = pair(none, r)
		}
	}
	return out
}

func refForeignKey(left, right map[string]int64, of func(int64) (string, bool), leftRows bool) map[string]int64 {
	out := map[string]int64{}
	for k, l := range left {
		fk, named := of(l)
		r, ok := right[fk]
		switch {
		case named && ok:
			out[k] = pair(l, r)
		case leftRows:
			out[k] = pair(l, none)
		}
	}
	return out
}

// refGroup gives the rows of a table as records under another key.
func refGroup(in map[string]int64, f func(string, int64) (string, int64)) (out []rec) {
	for k, v := range in {
		k2, v2 := f(k, v)
		out = append(out, rec{k: k2, v: v2})
	}
	return out
}
