package tidegate

import (
	"fmt"
	"math"
	"time"

	"github.com/tidegate/tidegate/operators"
)

// TimeWindows divide event time, or a key's records, into windows: Tumbling,
// Hopping, Daily, Monthly, Unlimited.
//
// Any timestamp is taken: one beyond ±2^61 milliseconds (73 million years) counts
// as if it lay there, and such windows do not close. Windows that begin before
// the epoch hold only records with negative timestamps, which Kafka itself does
// not have.
type TimeWindows struct {
	kind          windowKind
	size, advance time.Duration // of sliding windows, size is the difference
	grace         time.Duration
	loc           *time.Location
	from          time.Time
}

type windowKind uint8

const (
	noWindows windowKind = iota
	tumbling
	hopping
	sliding
	daily
	monthly
	unlimited
)

var windowNames = [...]string{"TimeWindows{}", "Tumbling", "Hopping", "Sliding", "Daily", "Monthly", "Unlimited"}

// Tumbling are windows of that size, one behind the other without overlap, the
// first beginning at the epoch (Kafka Streams' TimeWindows.ofSizeAndGrace
// without advance). The grace is 0 unless Grace sets it.
func Tumbling(size time.Duration) TimeWindows { return TimeWindows{kind: tumbling, size: size} }

// Hopping are windows of that size, of which one begins at every multiple of
// advance since the epoch: a record is in size/advance of them (Kafka Streams'
// TimeWindows.advanceBy). The advance is at most the size.
func Hopping(size, advance time.Duration) TimeWindows {
	return TimeWindows{kind: hopping, size: size, advance: advance}
}

// Sliding are the windows that begin or end at the records of a key and in which
// no two records are further apart than the difference (Kafka Streams'
// SlidingWindows.ofTimeDifferenceAndGrace). For a record with timestamp t there
// is the window [t − difference, t], and, if another record lies in it, the
// window [t + 1 ms, t + 1 ms + difference]. Both ends of a window are in it. For
// records less than the difference after the epoch, [0, difference] stands for
// the first.
//
// A record's cost grows with the records of its key within twice the difference,
// since it is in that many windows, whatever the other keys do.
func Sliding(difference time.Duration) TimeWindows {
	return TimeWindows{kind: sliding, size: difference}
}

// Daily are the days of a time zone, which have 23 or 25 hours when clocks
// change. A day begins at the first moment whose local date is that day, so that
// nothing is left out or counted twice where clocks change at midnight. Kafka
// Streams has no such windows; there one extends Windows.
//
// time.Local is refused, because it may differ between instances: take a
// location from time.LoadLocation, or time.UTC. Where the rules of a zone change
// by law, days to come change with the time zone data of the machine or program;
// all instances should have the same.
func Daily(loc *time.Location) TimeWindows { return TimeWindows{kind: daily, loc: loc} }

// Monthly are the months of a time zone; see Daily.
func Monthly(loc *time.Location) TimeWindows { return TimeWindows{kind: monthly, loc: loc} }

// Unlimited is one window from the epoch on that never ends (Kafka Streams'
// UnlimitedWindows). It takes no grace and no EmitOnClose.
func Unlimited() TimeWindows { return UnlimitedFrom(time.UnixMilli(0)) }

// UnlimitedFrom is one window from a time on that never ends (Kafka Streams'
// UnlimitedWindows.startOn). Records before it are dropped and counted as late.
func UnlimitedFrom(start time.Time) TimeWindows { return TimeWindows{kind: unlimited, from: start} }

// Grace sets how long after its end, in stream time, a window still takes late
// records. A later record is dropped and counted. The window's state is kept
// for size + grace.
func (w TimeWindows) Grace(d time.Duration) TimeWindows { w.grace = d; return w }

// windows returns what the operators need; REQUIRES: no mistake.
func (w TimeWindows) windows() operators.Windows {
	o := operators.Windows{
		Size: w.size.Milliseconds(), Advance: w.advance.Milliseconds(), Grace: w.grace.Milliseconds(),
	}
	switch w.kind {
	case daily, monthly:
		o.Calendar = operators.NewCalendar(w.loc, w.kind == monthly)
	case unlimited:
		o.Unlimited, o.From = true, w.from.UnixMilli()
	}
	return o
}

// mistake says what is wrong with the windows.
func (w TimeWindows) mistake() error {
	const ms = time.Millisecond
	fixed := w.kind == tumbling || w.kind == hopping
	switch name := windowNames[w.kind]; {
	case w.kind == noWindows:
		return fmt.Errorf("the windows are empty: use Tumbling, Hopping, Sliding, Daily, Monthly or Unlimited")
	case fixed && w.size < ms:
		return fmt.Errorf("window size %v: must be at least 1ms", w.size)
	case w.kind == sliding && w.size < 0:
		return fmt.Errorf("Sliding: difference %v: must not be negative", w.size)
	case w.kind == hopping && w.advance < ms:
		return fmt.Errorf("window advance %v: must be at least 1ms", w.advance)
	case w.kind == hopping && w.advance > w.size:
		return fmt.Errorf("window advance %v is larger than the size %v: records between two windows would be lost", w.advance, w.size)
	case (w.kind == daily || w.kind == monthly) && w.loc == nil:
		return fmt.Errorf("%s: the location is nil: pass time.UTC or one from time.LoadLocation", name)
	case w.loc == time.Local:
		return fmt.Errorf("%s: time.Local may differ between instances: pass time.UTC or a location from time.LoadLocation", name)
	case w.grace < 0:
		return fmt.Errorf("window grace %v: must not be negative", w.grace)
	case w.kind == unlimited && w.grace != 0:
		return fmt.Errorf("Unlimited: the window never ends, so it takes no grace (%v)", w.grace)
	case w.kind == unlimited && (w.from.UnixMilli() < -maxWindowTime || w.from.UnixMilli() > maxWindowTime):
		return fmt.Errorf("UnlimitedFrom(%v): must be within 73 million years of the epoch", w.from)
	case w.size%ms != 0 || w.advance%ms != 0 || w.grace%ms != 0:
		return fmt.Errorf("window size %v, advance %v and grace %v: event time has whole milliseconds", w.size, w.advance, w.grace)
	case w.kind == sliding && (w.size > math.MaxInt64/4 || 2*w.size > math.MaxInt64-w.grace):
		return fmt.Errorf("Sliding: difference %v plus grace %v overflows", w.size, w.grace)
	case w.size > math.MaxInt64-w.grace:
		return fmt.Errorf("window size %v plus grace %v overflows", w.size, w.grace)
	}
	return nil
}

// maxWindowTime is the time beyond which timestamps count as if they lay there.
const maxWindowTime = math.MaxInt64 / 4

// format is how the windows of keys are written to topics.
func (w TimeWindows) format() WindowFormat {
	switch w.kind {
	case daily, monthly, unlimited:
		return WindowFormat{}
	}
	return WindowFormat{size: w.size, fixed: true}
}

// describe is what a store's size does not say.
func (w TimeWindows) describe() string {
	zone := func() string {
		// The offset tells fixed zones of one name apart.
		_, offset := time.Unix(0, 0).In(w.loc).Zone()
		return fmt.Sprintf("%v%+d", w.loc, offset)
	}
	switch w.kind {
	case hopping:
		return fmt.Sprintf("hopping by %d ms", w.advance.Milliseconds())
	case sliding:
		return "sliding"
	case daily:
		return "days of " + zone()
	case monthly:
		return "months of " + zone()
	case unlimited:
		return fmt.Sprintf("unlimited from %d ms", w.from.UnixMilli())
	}
	return ""
}
