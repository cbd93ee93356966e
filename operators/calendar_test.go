package operators

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	require.NoError(t, err)
	return loc
}

func TestCalendarWindows(t *testing.T) {
	for _, c := range []struct {
		zone, at, start, end string
		months               bool
		hours                int64
	}{
		{"Europe/Berlin", "2024-06-01T12:00:00+02:00", "2024-06-01T00:00:00+02:00", "2024-06-02T00:00:00+02:00", false, 24},
		{"Europe/Berlin", "2024-03-31T23:59:59+02:00", "2024-03-31T00:00:00+01:00", "2024-04-01T00:00:00+02:00", false, 23},
		{"Europe/Berlin", "2024-10-27T00:00:00+02:00", "2024-10-27T00:00:00+02:00", "2024-10-28T00:00:00+01:00", false, 25},
		{"Europe/Berlin", "2024-10-27T02:30:00+01:00", "2024-10-27T00:00:00+02:00", "2024-10-28T00:00:00+01:00", false, 25},
		{"America/New_York", "2024-03-10T01:00:00-05:00", "2024-03-10T00:00:00-05:00", "2024-03-11T00:00:00-04:00", false, 23},
		{"Australia/Lord_Howe", "2024-04-07T12:00:00Z", "2024-04-07T00:00:00+11:00", "2024-04-08T00:00:00+10:30", false, 24},
		// Midnight does not exist: the day begins at 1 o'clock.
		{"America/Sao_Paulo", "2018-11-04T12:00:00-02:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00", false, 23},
		// At midnight it was 23 o'clock again.
		{"America/Sao_Paulo", "2018-02-17T23:30:00-03:00", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00", false, 25},
		// Midnight came twice: at 1 o'clock it was midnight again.
		{"America/Havana", "2024-11-03T00:30:00-05:00", "2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00", false, 25},
		// At a minute past midnight it was a minute past 23 o'clock again.
		{"America/St_Johns", "2010-11-06T23:30:00-03:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30", false, 25},
		// There was no 30th of December 2011.
		{"Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-30T00:00:00-10:00", false, 24},
		{"Pacific/Apia", "2011-12-31T00:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00", false, 24},
		{"Europe/Berlin", "2024-03-31T23:59:59+02:00", "2024-03-01T00:00:00+01:00", "2024-04-01T00:00:00+02:00", true, 31*24 - 1},
		{"Europe/Berlin", "2024-02-29T12:00:00+01:00", "2024-02-01T00:00:00+01:00", "2024-03-01T00:00:00+01:00", true, 29 * 24},
		{"UTC", "2023-12-31T23:59:59Z", "2023-12-01T00:00:00Z", "2024-01-01T00:00:00Z", true, 31 * 24},
		{"UTC", "1969-12-31T23:59:59Z", "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z", false, 24},
	} {
		parse := func(s string) int64 {
			at, err := time.Parse(time.RFC3339, s)
			require.NoError(t, err)
			return at.UnixMilli()
		}
		w := NewCalendar(zone(t, c.zone), c.months)
		at := parse(c.at)
		start, end := w.window(at)
		require.Equal(t, parse(c.start), start, c)
		require.Equal(t, parse(c.end), end, c)
		if c.zone != "Australia/Lord_Howe" { // by half an hour
			require.Equal(t, c.hours*3600_000, end-start, c)
		}
		require.Equal(t, end, w.End(start))
	}
}

// Windows lie one behind the other without gap and overlap, wherever one begins
// to ask.
func TestCalendarWindowsAreContiguous(t *testing.T) {
	for _, name := range []string{
		"UTC", "Europe/Berlin", "America/Sao_Paulo", "America/St_Johns", "America/Havana", "Pacific/Apia",
		"Asia/Kathmandu", "Africa/Casablanca", "Antarctica/Troll", "Asia/Beirut",
	} {
		for _, months := range []bool{false, true} {
			w := NewCalendar(zone(t, name), months)
			at := time.Date(2009, 5, 5, 0, 0, 0, 0, time.UTC).UnixMilli()
			for until := time.Date(2019, 6, 1, 0, 0, 0, 0, time.UTC).UnixMilli(); at < until; {
				start, end := w.window(at)
				require.LessOrEqual(t, start, at)
				require.Greater(t, end, at)
				for _, x := range []int64{start, start + 1, (start + end) / 2, end - 1} {
					s, e := NewCalendar(w.loc, months).window(x)
					require.Equal(t, []int64{start, end}, []int64{s, e}, "%s at %d", name, x)
				}
				at = end
			}
		}
	}
}

func TestCalendarTakesAnyTime(t *testing.T) {
	for _, loc := range []*time.Location{time.UTC, zone(t, "Europe/Berlin"), time.FixedZone("odd", 13*3600+7)} {
		for _, months := range []bool{false, true} {
			for _, at := range []int64{minTime, minTime + 1, -1, 0, 1, maxTime - 1, maxTime} {
				start, end := NewCalendar(loc, months).window(at)
				require.LessOrEqual(t, start, at)
				require.Greater(t, end, at)
				require.LessOrEqual(t, end-start, int64(32*24*3600_000))
			}
		}
	}
}
