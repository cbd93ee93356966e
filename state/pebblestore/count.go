package pebblestore

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/tidegate/tidegate/state"
)

// countedBelow is the number of keys up to which they are counted one by one.
const countedBelow = 4096

// ApproximateLen counts a small store. Of a large one it adds up what the tables
// say of themselves; what is in memtables only is not in it, except that the
// answer is never below countedBelow then.
func (s *store) ApproximateLen() (int64, error) {
	n, err := state.CountUpTo(s, nil, nil, countedBelow)
	if err != nil || n < countedBelow {
		return n, err
	}
	lo, hi := s.bounds(nil, nil)
	levels, err := s.e.db.SSTables(pebble.WithProperties(), pebble.WithKeyRangeFilter(lo, hi), pebble.WithApproximateSpanBytes())
	if err != nil {
		return 0, s.e.wrap("count", err)
	}
	var sum int64
	for _, level := range levels {
		for _, table := range level {
			sum += live(table)
		}
	}
	return max(n, sum), nil
}

// live is about the number of keys of the store in a table: its entries less the
// deletions and what they delete, by the share of the table's bytes.
func live(t pebble.SSTableInfo) int64 {
	p := t.Properties
	if p == nil || t.Size == 0 || p.NumEntries <= 2*p.NumDeletions {
		return 0
	}
	share := min(1, float64(t.ApproximateSpanBytes)/float64(t.Size))
	return int64(float64(p.NumEntries-2*p.NumDeletions) * share)
}
