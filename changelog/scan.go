package changelog

import (
	"github.com/RaduBerinde/btreemap"

	"github.com/tidegate/tidegate/state"
)

// Scan merges the layers with the KV below.
func (o *overlay) Scan(from, to []byte, reverse bool) state.Iterator {
	if from != nil && to != nil && string(from) >= string(to) {
		return &merge{}
	}
	m := &merge{reverse: reverse, below: o.below.Scan(from, to, reverse), at: -1}
	from, to = clone(from), clone(to)
	for i := len(o.layers) - 1; i >= 0; i-- {
		if l := o.layers[i]; !l.empty() {
			m.sources = append(m.sources, newCursor(l, from, to, reverse))
		}
	}
	m.next = m.below.Next()
	return m
}

// merge walks over layers, the newest first, and the KV below.
type merge struct {
	sources []*cursor
	below   state.Iterator
	next    bool // below stands at an entry that was not passed
	reverse bool
	key     []byte
	value   []byte
	at      int // the source of the entry; len(sources): below
}

func (m *merge) before(a, b string) bool {
	if m.reverse {
		return a > b
	}
	return a < b
}

func (m *merge) Next() bool {
	if m.below == nil {
		return false
	}
	if m.at == len(m.sources) { // the entry handed out was below's
		m.next = m.below.Next()
	}
	for {
		m.at = -1
		least := ""
		for i, c := range m.sources {
			if c.ok() && (m.at < 0 || m.before(c.key(), least)) {
				m.at, least = i, c.key()
			}
		}
		if m.next {
			if k := view(m.below.Key()); m.at < 0 || m.before(k, least) {
				m.at, least = len(m.sources), k
			}
		}
		if m.at < 0 {
			return false
		}
		hidden := m.hidden(least)
		if m.at == len(m.sources) {
			if !hidden {
				m.key, m.value = m.below.Key(), m.below.Value()
				return true
			}
			m.next = m.below.Next()
			continue
		}
		c := m.sources[m.at].change()
		m.key, m.value = []byte(least), c.value
		m.pass(least)
		if !hidden && !c.deleted {
			return true
		}
	}
}

// hidden reports whether a newer layer's range deletion covers the entry.
func (m *merge) hidden(key string) bool {
	for _, c := range m.sources[:m.at] {
		if c.dropped(key) {
			return true
		}
	}
	return false
}

// pass moves every source over a key.
func (m *merge) pass(key string) {
	for _, c := range m.sources {
		if c.ok() && c.key() == key {
			c.next()
		}
	}
	if m.next && view(m.below.Key()) == key {
		m.next = m.below.Next()
	}
}

func (m *merge) Key() []byte   { return m.key }
func (m *merge) Value() []byte { return m.value }

func (m *merge) Err() error {
	if m.below == nil {
		return nil
	}
	return m.below.Err()
}

func (m *merge) Close() error {
	m.sources = nil
	if m.below == nil {
		return nil
	}
	err := m.below.Close()
	m.below, m.next = nil, false
	return err
}

// scanChunk is how many entries a cursor takes out of a layer at a time.
const scanChunk = 64

// cursor walks over a layer as it was when it was made.
type cursor struct {
	tree    *btreemap.BTreeMap[string, change] // nil when all is in keys
	ranges  []keyRange
	lo      btreemap.LowerBound[string]
	hi      btreemap.UpperBound[string]
	reverse bool
	keys    []string
	changes []change
	at      int
}

func newCursor(l *layer, from, to []byte, reverse bool) *cursor {
	c := &cursor{
		tree: l.tree, ranges: l.ranges[:len(l.ranges):len(l.ranges)],
		lo: lower(from), hi: upper(to), reverse: reverse,
	}
	if len(c.ranges) > 0 {
		c.ranges = append([]keyRange(nil), c.ranges...) // drop compacts in place
	}
	c.fill()
	if c.tree != nil {
		// There is more: what is written meanwhile must not show. A clone copies
		// nothing until one of both is written.
		c.tree = l.tree.Clone()
	}
	return c
}

// fill takes the next chunk; it forgets the tree behind the last one.
func (c *cursor) fill() {
	if n := len(c.keys); n > 0 {
		if edge := c.keys[n-1]; c.reverse {
			c.hi = btreemap.LT(edge)
		} else {
			c.lo = btreemap.GT(edge)
		}
	}
	c.keys, c.changes, c.at = c.keys[:0], c.changes[:0], 0
	take := func(k string, v change) bool {
		c.keys, c.changes = append(c.keys, k), append(c.changes, v)
		return len(c.keys) < scanChunk
	}
	if c.reverse {
		c.tree.Descend(c.hi, c.lo)(take)
	} else {
		c.tree.Ascend(c.lo, c.hi)(take)
	}
	if len(c.keys) < scanChunk {
		c.tree = nil
	}
}

func (c *cursor) ok() bool       { return c.at < len(c.keys) }
func (c *cursor) key() string    { return c.keys[c.at] }
func (c *cursor) change() change { return c.changes[c.at] }

func (c *cursor) next() {
	if c.at++; c.at == len(c.keys) && c.tree != nil {
		c.fill()
	}
}

func (c *cursor) dropped(key string) bool {
	for i := range c.ranges {
		if c.ranges[i].holds(key) {
			return true
		}
	}
	return false
}
