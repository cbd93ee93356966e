package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// carrierRow sums a carrier's rows up.
type carrierRow struct {
	RouteDay
	routes map[string]bool
	worst  RouteDay
}

// printTable prints a line per airline, the most punctual first.
func printTable(w io.Writer, rows map[string]RouteDay) {
	carriers := map[string]*carrierRow{}
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		r := rows[k]
		c := carriers[r.Carrier]
		if c == nil {
			c = &carrierRow{RouteDay: RouteDay{Carrier: r.Carrier, Airline: r.Airline}, routes: map[string]bool{}}
			carriers[r.Carrier] = c
		}
		c.Flights += r.Flights
		c.Cancelled += r.Cancelled
		c.Arrived += r.Arrived
		c.Delay += r.Delay
		c.routes[r.Origin+r.Dest] = true
		if r.Arrived > 0 && (c.worst.Arrived == 0 || r.MeanDelay() > c.worst.MeanDelay()) {
			c.worst = r
		}
	}
	list := slices.SortedFunc(maps.Values(carriers), func(a, b *carrierRow) int {
		return cmp.Or(cmp.Compare(a.MeanDelay(), b.MeanDelay()), strings.Compare(a.Carrier, b.Carrier))
	})
	const line = "%-28s %7v %8v %10s %11s   %-20s %8s\n"
	_, _ = fmt.Fprintf(w, line, "airline", "routes", "flights", "cancelled", "mean delay", "worst day of a route", "")
	for _, c := range list {
		_, _ = fmt.Fprintf(w, line, c.Airline, len(c.routes), thousands(c.Flights),
			fmt.Sprintf("%.1f %%", 100*float64(c.Cancelled)/float64(c.Flights)),
			fmt.Sprintf("%.1f min", c.MeanDelay()),
			fmt.Sprintf("%s %s-%s", c.worst.Day, c.worst.Origin, c.worst.Dest),
			fmt.Sprintf("%.0f min", c.worst.MeanDelay()))
	}
}

// thousands writes 27004 as 27,004.
func thousands[N int | int64](n N) string {
	s := fmt.Sprint(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
