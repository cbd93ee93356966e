package state

// Cache is the byte budget that the typed stores of one task share. When it is
// exceeded, entries are evicted by the clock algorithm: a hand goes round over
// all entries of all stores and takes the first one that was not used since the
// hand last came by. (Kafka Streams shares its statestore.cache.max.bytes among
// the tasks of a thread; here each task has its own, so that one task cannot
// push out another's.)
//
// The accounting is approximate. Entries are charged their key, a fixed
// overhead and the value's size as far as it is known: exactly for numbers,
// strings and byte slices, for other types by the length of an encoding.
//
// A Cache belongs to the goroutine that owns the task.
type Cache struct {
	budget int64
	used   int64
	ring   []resident // every entry of every store, in no particular order
	hand   int
	m      CacheMetrics
}

// resident is an entry of any value type, as the clock sees it.
type resident interface {
	// second reports whether the entry was used since the last call.
	second() bool
	// evict writes the entry back if it is dirty and forgets it.
	evict() error
	moved(to int32)
}

// CacheMetrics are a cache's figures since it was made.
type CacheMetrics struct {
	Hits, Misses int64
	Evictions    int64
	// WriteBacks counts entries written because room was needed, Flushed those
	// written by Flush or before a scan.
	WriteBacks int64
	Flushed    int64
	Entries    int64
	UsedBytes  int64
}

// NewCache returns a cache with that many bytes. With a budget of 0 or less
// each store still keeps the entry that was used last.
func NewCache(budget int64) *Cache { return &Cache{budget: budget} }

// SetBudget changes the budget. A smaller one takes effect with the next entry
// that comes in.
func (c *Cache) SetBudget(bytes int64) { c.budget = bytes }

// Metrics returns the figures; only the owner may call it.
func (c *Cache) Metrics() CacheMetrics {
	m := c.m
	m.Entries, m.UsedBytes = int64(len(c.ring)), c.used
	return m
}

// add takes an entry into the ring and returns its place.
func (c *Cache) add(r resident, size int64) int32 {
	c.used += size
	c.ring = append(c.ring, r)
	return int32(len(c.ring) - 1)
}

// remove takes out the entry at place i; the last one moves there.
func (c *Cache) remove(i int32, size int64) {
	c.used -= size
	last := int32(len(c.ring) - 1)
	if i != last {
		c.ring[i] = c.ring[last]
		c.ring[i].moved(i)
	}
	c.ring[last] = nil
	c.ring = c.ring[:last]
}

// shrink evicts until need more bytes fit in the budget. The entry at place
// keep (−1: none) stays, whatever it takes: its owner is working on it.
func (c *Cache) shrink(need int64, keep int32) error {
	if c.used+need <= c.budget {
		return nil
	}
	var kept resident
	if keep >= 0 {
		kept = c.ring[keep]
	}
	// Two rounds are enough: the first takes the second chance away.
	for tries := 2*len(c.ring) + 1; tries > 0 && c.used+need > c.budget && len(c.ring) > 0; tries-- {
		if c.hand >= len(c.ring) {
			c.hand = 0
		}
		r := c.ring[c.hand]
		if r == kept || r.second() {
			c.hand++
			continue
		}
		if err := r.evict(); err != nil {
			return err
		}
		c.m.Evictions++
		// The last entry of the ring is now at the hand. It was behind the hand
		// or is looked at once more in this round; both do no harm.
	}
	return nil
}
