package main

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/tidegate/tidegate/internal/testkit"
)

// oracle checks output records in the order of their partitions.
type oracle struct {
	mu         sync.Mutex
	groups     map[string]int64 // last count per group
	windows    map[string]int64 // last count per bucket and window
	checked    int64
	lost       int64
	duplicated int64
	wrong      int64
	first      string // the first offence
}

func newOracle() *oracle {
	return &oracle{groups: map[string]int64{}, windows: map[string]int64{}}
}

func (o *oracle) offence(counter *int64, n int64, format string, args ...any) {
	*counter += n
	if o.first == "" {
		o.first = fmt.Sprintf(format, args...)
	}
}

// advance judges the count of a record against the last one of its key.
func (o *oracle) advance(last map[string]int64, key string, count, offset int64) {
	want := last[key] + 1
	switch {
	case count > want:
		o.offence(&o.lost, count-want, "key %s, offset %d: count %d follows %d: lost", key, offset, count, want-1)
	case count < want:
		o.offence(&o.duplicated, 1, "key %s, offset %d: count %d follows %d: duplicated", key, offset, count, want-1)
	}
	last[key] = max(last[key], count)
	o.checked++
}

// running checks one record of the groups' running values.
func (o *oracle) running(m testkit.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := string(m.Key)
	a, err := aggregateSerde{}.Decode(m.Value)
	low, _, ok := strings.Cut(key, "-")
	lo, perr := strconv.ParseInt(low, 10, 64)
	if err != nil || perr != nil || !ok {
		o.offence(&o.wrong, 1, "record %q at offset %d is not a running value", key, m.Offset)
		return
	}
	o.advance(o.groups, key, a.Count, m.Offset)
	c := a.Count
	exact := aggregate{Count: c, Sum: c*lo + c*(c-1)/2, Min: lo, Max: lo + c - 1}
	if (lo/1000%2 == 0 || c == groupSize) && a != exact {
		o.offence(&o.wrong, 1, "group %s, offset %d: value %+v, want %+v", key, m.Offset, a, exact)
	}
}

// window checks one record of the windows' counts.
func (o *oracle) window(m testkit.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(m.Value) != 8 {
		o.offence(&o.wrong, 1, "window record at offset %d has no count", m.Offset)
		return
	}
	o.advance(o.windows, string(m.Key), int64(binary.BigEndian.Uint64(m.Value)), m.Offset)
}

// missing counts what is not there at the end, for an input of n records.
func (o *oracle) missing(n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	groups := map[string]int64{}
	buckets := map[string]int64{}
	for i := range n {
		group, _ := numberOf(i)
		groups[groupName(group)]++
	}
	var total int64
	for key, want := range groups {
		buckets[bucketOf(key)] += want
		if have := o.groups[key]; have < want {
			o.offence(&o.lost, want-have, "group %s ends at count %d of %d", key, have, want)
		}
	}
	for _, want := range buckets {
		total += want
	}
	var have int64
	for _, c := range o.windows {
		have += c
	}
	if have < total {
		o.offence(&o.lost, total-have, "windows count %d records of %d", have, total)
	} else if have > total {
		o.offence(&o.duplicated, have-total, "windows count %d records of %d", have, total)
	}
}

func (o *oracle) count() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.checked
}
