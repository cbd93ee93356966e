package check

import (
	"sync"
	"time"
)

// Resume is a Check that also keeps when each partition of the output said
// something, to find out how long some were silent after a failure.
type Resume struct {
	Check
	mu    sync.Mutex
	parts map[int32][]arrival
}

type arrival struct {
	at  time.Time
	due int64 // the newest timestamp that had come by then
}

// apart is how close arrivals of one partition are kept.
const apart = 20 * time.Millisecond

// NewResume adds the noting of arrivals to a check.
func NewResume(c Check) *Resume { return &Resume{Check: c, parts: map[int32][]arrival{}} }

// Record notes the arrival and passes the row on.
func (r *Resume) Record(p int32, timestamp int64, key, value []byte) {
	r.mu.Lock()
	now, list := time.Now(), r.parts[p]
	if n := len(list); n > 0 && now.Sub(list[n-1].at) < apart {
		list[n-1].due = max(list[n-1].due, timestamp)
	} else {
		due := timestamp
		if n > 0 {
			due = max(due, list[n-1].due)
		}
		r.parts[p] = append(list, arrival{now, due})
	}
	r.mu.Unlock()
	r.Check.Record(p, timestamp, key, value)
}

// Silence is what a failure did to the output.
type Silence struct {
	// Partitions are those that were silent for at least as long as asked.
	Partitions int
	// First is from the failure to the first row of any of them, Full until the
	// rows of all of them were as young as asked.
	First, Full time.Duration
}

// After looks for partitions that were silent from the failure on for at least
// least, and for when their newest rows were at most young old again. ok is
// false while that has not happened.
func (r *Resume) After(failure time.Time, least, young time.Duration) (s Silence, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range r.parts {
		from, silent := silence(list, failure, least)
		if !silent {
			continue
		}
		s.Partitions++
		if from == len(list) {
			return s, false
		}
		if d := list[from].at.Sub(failure); s.First == 0 || d < s.First {
			s.First = d
		}
		full := time.Duration(-1)
		for _, a := range list[from:] {
			if a.at.Sub(time.UnixMilli(a.due)) <= young {
				full = a.at.Sub(failure)
				break
			}
		}
		if full < 0 {
			return s, false
		}
		s.Full = max(s.Full, full)
	}
	return s, s.Partitions > 0
}

// silence returns the index of the first arrival behind a gap of at least least
// that began around the failure; what was under way may arrive a little after
// it.
func silence(list []arrival, failure time.Time, least time.Duration) (next int, ok bool) {
	const underWay = 3 * time.Second
	last := failure
	for i, a := range list {
		switch {
		case a.at.Before(failure):
		case a.at.Sub(last) >= least && last.Sub(failure) < underWay:
			return i, true
		default:
			last = a.at
		}
	}
	return len(list), time.Since(last) >= least && last.Sub(failure) < underWay
}
