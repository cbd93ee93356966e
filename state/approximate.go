package state

// Counter is a KV that knows about how many keys it holds.
type Counter interface {
	// ApproximateLen is exact for a KV in memory. In files, deletions and
	// overwrites that are not compacted yet count, and the number may be cut off
	// at what a short look shows.
	ApproximateLen() (int64, error)
}

// CountUpTo counts the keys of a KV in [from, to) by reading them, up to a limit.
func CountUpTo(kv KV, from, to []byte, limit int64) (n int64, err error) {
	it := kv.Scan(from, to, false)
	for n < limit && it.Next() {
		n++
	}
	err = it.Err()
	if e := it.Close(); err == nil {
		err = e
	}
	return n, err
}

// countAtMost bounds the keys that are read to count a KV that is no Counter.
const countAtMost = 1 << 20

// approximateLen is about the number of keys in the KV and the cache.
func (t *table[V]) approximateLen() (int64, error) {
	if err := t.flush(); err != nil {
		return 0, err
	}
	var n int64
	var err error
	if c, ok := t.kv.(Counter); ok {
		n, err = c.ApproximateLen()
	} else {
		n, err = CountUpTo(t.kv, nil, nil, countAtMost)
	}
	if err != nil {
		return 0, t.fail("count", nil, err)
	}
	return n, nil
}

// ApproximateLen is about the number of keys (Kafka Streams'
// approximateNumEntries). Dirty entries are written first.
func (s *KVStore[K, V]) ApproximateLen() (int64, error) { return s.t.approximateLen() }
