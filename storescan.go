package tidegate

import (
	"fmt"
	"iter"
	"slices"

	"github.com/tidegate/tidegate/serde"
)

// ScanOrder is the direction of a scan; ascending where none is given.
//
// Keys are in the order of their serialised bytes: strings and byte slices as Go
// compares them; integers in Kafka's format, big endian, so that negative ones
// come behind the positive ones (serde.Uint64 has none).
type ScanOrder bool

const (
	// Ascending goes from the smallest key or time to the largest.
	Ascending ScanOrder = false
	// Descending goes the other way (Kafka Streams' reverseRange, reverseAll,
	// backwardFetch).
	Descending ScanOrder = true
)

// descending reports whether the order that was given is Descending.
func descending(order []ScanOrder) bool { return len(order) > 0 && order[len(order)-1] == Descending }

// All calls yield for every entry until it returns false (Kafka Streams'
// ReadOnlyKeyValueStore.all). The scan shows the store as it was at its beginning,
// and the store may be changed from yield.
func (s *KV[K, V]) All(yield func(K, V) bool, order ...ScanOrder) error {
	return s.scan(nil, nil, descending(order), yield)
}

// Range is All for the keys in [from, to), in the order of serialised keys; it
// is empty if to is not above from. Kafka Streams' range includes to.
func (s *KV[K, V]) Range(from, to K, yield func(K, V) bool, order ...ScanOrder) error {
	lo, hi, err := keyRange(s.ks, from, to)
	if err != nil {
		return err
	}
	return s.scan(lo, hi, descending(order), yield)
}

// Prefix is All for the keys whose serialised form begins with that of p (Kafka
// Streams' prefixScan).
func (s *KV[K, V]) Prefix[P any](p P, ps serde.Serde[P], yield func(K, V) bool, order ...ScanOrder) error {
	lo, hi, err := prefixRange(ps, p)
	if err != nil {
		return err
	}
	return s.scan(lo, hi, descending(order), yield)
}

// keyRange serialises the bounds of a scan.
func keyRange[K any](ks serde.Serde[K], from, to K) (lo, hi []byte, err error) {
	if lo, err = ks.Append([]byte{}, from); err != nil {
		return nil, nil, fmt.Errorf("encode the first key of a scan: %w", err)
	}
	if hi, err = ks.Append([]byte{}, to); err != nil {
		return nil, nil, fmt.Errorf("encode the end of a scan: %w", err)
	}
	return lo, hi, nil
}

// prefixRange gives the bounds of the keys that begin with a prefix.
func prefixRange[P any](ps serde.Serde[P], p P) (lo, hi []byte, err error) {
	if lo, err = ps.Append([]byte{}, p); err != nil {
		return nil, nil, fmt.Errorf("encode the prefix of a scan: %w", err)
	}
	return lo, behind(lo), nil
}

// behind is the first key that does not begin with a prefix; nil when there is
// none.
func behind(prefix []byte) []byte {
	end := slices.Clone(prefix)
	for len(end) > 0 {
		if end[len(end)-1]++; end[len(end)-1] != 0 {
			return end
		}
		end = end[:len(end)-1]
	}
	return nil
}

func (s *KV[K, V]) scan(from, to []byte, reverse bool, yield func(K, V) bool) error {
	if s.ttl != nil {
		return s.ttl.Scan(from, to, reverse, yield)
	}
	it, err := s.in.Scan(from, to, reverse)
	if err != nil {
		return s.fault(err)
	}
	defer func() { _ = it.Close() }()
	for it.Next() {
		if !yield(it.Key(), it.Value()) {
			return nil
		}
	}
	return s.fault(it.Err())
}

// PutIfAbsent makes v the value of k if k has none. It returns the value that
// was there, and whether there was one.
func (s *KV[K, V]) PutIfAbsent(k K, v V) (old V, had bool, err error) {
	if old, had, err = s.Get(k); err != nil || had {
		return old, had, err
	}
	return old, false, s.Put(k, v)
}

// PutAll puts every entry of a sequence, which must not read the store;
// maps.All makes a sequence of a map, whose order does not matter here.
func (s *KV[K, V]) PutAll(entries iter.Seq2[K, V]) error {
	for k, v := range entries {
		if err := s.Put(k, v); err != nil {
			return err
		}
	}
	return nil
}

// ApproximateLen is about the number of entries (Kafka Streams'
// approximateNumEntries). It is exact with package state/memory and for up to some
// thousand entries with Pebble; beyond that it is estimated, and entries that were
// overwritten or deleted a short time ago may count.
func (s *KV[K, V]) ApproximateLen() (int64, error) {
	if s.ttl != nil {
		return s.ttl.ApproximateLen()
	}
	n, err := s.in.ApproximateLen()
	return n, s.fault(err)
}
