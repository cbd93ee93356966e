package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/testkit"
)

// compute is the direct computation over the file.
func compute(flights []departure, airlines map[string]string) map[string]RouteDay {
	rows := map[string]RouteDay{}
	for _, d := range flights {
		day := d.at.Format(time.DateOnly)
		key := day + " " + d.f.Carrier + " " + d.f.Origin + "-" + d.f.Dest
		r, ok := rows[key]
		if !ok {
			r = RouteDay{Day: day, Carrier: d.f.Carrier, Airline: airlines[d.f.Carrier], Origin: d.f.Origin, Dest: d.f.Dest}
		}
		r.Flights++
		if d.f.DepDelay == nil {
			r.Cancelled++
		}
		if d.f.ArrDelay != nil {
			r.Arrived++
			r.Delay += *d.f.ArrDelay
		}
		rows[key] = r
	}
	return rows
}

// lastRows reads the result from the topic's records, in order per partition.
// Every flight gives one updated row, so the rows of a key count 1, 2, 3, …:
// a gap is a lost record, a repetition a duplicate.
func lastRows(partitions map[int32][]testkit.Message) (map[string]RouteDay, error) {
	rows := map[string]RouteDay{}
	for _, p := range slices.Sorted(maps.Keys(partitions)) {
		for _, m := range partitions[p] {
			var r RouteDay
			if err := json.Unmarshal(m.Value, &r); err != nil {
				return nil, fmt.Errorf("partition %d, offset %d: %w", p, m.Offset, err)
			}
			key := string(m.Key)
			if want := rows[key].Flights + 1; r.Flights != want {
				return nil, fmt.Errorf("partition %d, offset %d: %s counts %d flights, want %d", p, m.Offset, key, r.Flights, want)
			}
			rows[key] = r
		}
	}
	return rows, nil
}

// compare names the first rows that differ.
func compare(got, want map[string]RouteDay) error {
	var diffs []string
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if g := got[k]; g != want[k] {
			diffs = append(diffs, fmt.Sprintf("%s: got %+v, want %+v", k, g, want[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			diffs = append(diffs, fmt.Sprintf("%s: is not in the file", k))
		}
	}
	if len(diffs) == 0 {
		return nil
	}
	err := fmt.Errorf("result differs from the direct computation in %d of %d rows", len(diffs), len(want))
	for _, d := range diffs[:min(len(diffs), 5)] {
		err = fmt.Errorf("%w\n  %s", err, d)
	}
	return err
}
