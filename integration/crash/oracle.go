package main

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"sync"

	"github.com/tidegate/tidegate/internal/testkit"
)

// oracle checks output records in the order of their partitions.
type oracle struct {
	mu sync.Mutex
	// repeats says that output may come again, and count input twice (at least
	// once). A gap between counts is no loss then: what lies in it may have been
	// counted by an instance that was killed before it wrote. Each number of a group
	// must be in one running value together with all others.
	repeats    bool
	seen       map[string]int   // the most numbers in a running value of the group
	groups     map[string]int64 // last count per group
	windows    map[string]int64 // last count per bucket and window
	checked    int64
	lost       int64
	duplicated int64
	wrong      int64
	first      string // the first offence
}

func newOracle(repeats bool) *oracle {
	return &oracle{repeats: repeats, seen: map[string]int{}, groups: map[string]int64{}, windows: map[string]int64{}}
}

func (o *oracle) offence(counter *int64, n int64, format string, args ...any) {
	*counter += n
	if o.first == "" && (!o.repeats || counter != &o.duplicated) {
		o.first = fmt.Sprintf(format, args...)
	}
}

// advance judges the count of a record against the last one of its key.
func (o *oracle) advance(last map[string]int64, key string, count, offset int64) {
	want := last[key] + 1
	switch {
	case count > want && !o.repeats:
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
	if o.repeats {
		if a.Min < lo || a.Max >= lo+groupSize || int64(bits.OnesCount64(a.Seen)) > a.Count {
			o.offence(&o.wrong, 1, "group %s, offset %d: value %+v", key, m.Offset, a)
		}
		o.seen[key] = max(o.seen[key], bits.OnesCount64(a.Seen))
		return
	}
	c := a.Count
	exact := aggregate{Count: c, Sum: c*lo + c*(c-1)/2, Min: lo, Max: lo + c - 1, Seen: 1<<c - 1}
	if (lo/groupSpan%2 == 0 || c == groupSize) && a != exact {
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

// wanted is how many numbers each group has in an input of n records.
func wanted(n int64) map[string]int64 {
	groups := map[string]int64{}
	for i := range n {
		group, _ := numberOf(i)
		groups[groupName(group)]++
	}
	return groups
}

// have is how many numbers of a group were counted.
func (o *oracle) have(group string) int64 {
	if o.repeats {
		return int64(o.seen[group])
	}
	return o.groups[group]
}

// windowed is how many records all windows together counted.
func (o *oracle) windowed() (n int64) {
	for _, c := range o.windows {
		n += c
	}
	return n
}

// remaining is how many of n records of input the output does not have yet.
func (o *oracle) remaining(n int64) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	left := max(n-o.windowed(), 0)
	for group, want := range wanted(n) {
		left += max(want-o.have(group), 0)
	}
	return left
}

// missing counts what is not there at the end, for an input of n records.
func (o *oracle) missing(n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for group, want := range wanted(n) {
		if have := o.have(group); have < want {
			o.offence(&o.lost, want-have, "group %s ends at count %d of %d", group, have, want)
		}
	}
	if have := o.windowed(); have < n {
		o.offence(&o.lost, n-have, "windows count %d records of %d", have, n)
	} else if have > n {
		o.offence(&o.duplicated, have-n, "windows count %d records of %d", have, n)
	}
}

func (o *oracle) count() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.checked
}
