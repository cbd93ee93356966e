package operators

import "time"

// Calendar are windows of whole days or months of a time zone, which differ in
// length: a day has 23 or 25 hours when clocks change.
//
// A day begins at the first moment whose local date is that day or a later one.
// So windows never overlap and leave nothing out, also where clocks change at
// midnight: a day that begins at 1 o'clock begins there, an hour that comes
// twice belongs to the day that began, and a day that a zone skipped (by moving
// over the date line) has no window.
type Calendar struct {
	loc    *time.Location
	months bool
	// The window that was asked for last.
	start, end int64
}

// NewCalendar returns windows of days, or of months.
func NewCalendar(loc *time.Location, months bool) *Calendar {
	return &Calendar{loc: loc, months: months}
}

// End is the end of the window that begins at start.
func (c Calendar) End(start int64) int64 {
	_, end := c.window(start)
	return end
}

// window returns the bounds of the window that holds a time: start is in it,
// end is not.
func (c *Calendar) window(at int64) (start, end int64) {
	if at >= c.start && at < c.end {
		return c.start, c.end
	}
	y, m, d := time.UnixMilli(at).In(c.loc).Date()
	for start, end = c.bounds(y, m, d); end <= at; { // the clock was set back over midnight
		if c.months {
			m++
		} else {
			d++
		}
		start, end = c.bounds(y, m, d)
	}
	c.start, c.end = start, end
	return start, end
}

func (c *Calendar) bounds(y int, m time.Month, d int) (start, end int64) {
	if c.months {
		return c.begin(y, m, 1), c.begin(y, m+1, 1)
	}
	return c.begin(y, m, d), c.begin(y, m, d+1)
}

// begin returns the first moment whose local date is not before the given one.
// time.Date does not say which moment it takes where midnight comes twice or not
// at all, so the periods between two changes of the clock are looked at in turn.
func (c *Calendar) begin(y int, m time.Month, d int) int64 {
	const most = 26 * 60 * 60 // more than any zone's offset
	midnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()
	for t := time.Unix(midnight-most, 0).In(c.loc); ; {
		_, offset := t.Zone()
		from, to := t.ZoneBounds()
		at := midnight - int64(offset)
		if to.IsZero() || at < to.Unix() {
			if !from.IsZero() {
				at = max(at, from.Unix())
			}
			return at * 1000
		}
		t = to
	}
}
