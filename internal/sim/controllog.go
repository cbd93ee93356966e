package sim

import (
	"github.com/tidegate/tidegate/barrier"
)

// controlLog is the one partition of the control topic. Records are encoded
// and decoded on the way, as they will be.
type controlLog struct {
	w       *World
	records []barrier.Record // all, also what was trimmed
	start   int64            // first one that can be read
	at      []int64          // when they were appended
	waiting []func()
}

func (l *controlLog) append(r barrier.Record) int64 {
	w := l.w
	b, err := barrier.AppendRecord(nil, r)
	if err == nil {
		r, err = barrier.DecodeRecord(b)
	}
	if err != nil {
		w.fail("codec of a %T record: %v", r.Body, err)
		return 0
	}
	off := int64(len(l.records))
	l.records = append(l.records, r)
	l.at = append(l.at, w.now)
	w.note(uint64(off), uint64(r.Body.Kind()), r.Instance.Rand, r.Seq)
	if w.tracing {
		w.tracef("LOG %d %s#%d %T%+v", off, r.Instance.Name, r.Seq, r.Body, r.Body)
	}
	w.oracle.appended(off, r)
	waiting := l.waiting
	l.waiting = nil
	for _, fn := range waiting {
		fn()
	}
	return off
}

// fetchWait is how long a fetch at the end of the log waits.
const fetchWait = 80

// serve answers a fetch from an offset, at once or when something comes. An
// offset that was trimmed gets no records.
func (l *controlLog) serve(from int64, answer func(recs []barrier.Record, start int64)) {
	const most = 8
	done := false
	reply := func() {
		if done {
			return
		}
		done = true
		if from < l.start {
			answer(nil, l.start)
			return
		}
		end := min(int64(len(l.records)), from+most)
		answer(l.records[min(from, end):end], l.start)
	}
	if int64(len(l.records)) > from {
		reply()
		return
	}
	l.waiting = append(l.waiting, reply)
	l.w.after(fetchWait, reply)
}
