package tidegate

import (
	"errors"

	"github.com/tidegate/tidegate/serde"
)

var errRangeSerde = errors.New("the table has no key serde for a range of keys: restate it where the table is made")

// All calls yield for every row, in the order of serialised keys, until it returns
// false (Kafka Streams' ReadOnlyKeyValueStore.all on a table's store). A table that
// Filter or MapValues computes from another one is scanned with that one's keys.
// Windowed and joined tables without a store of their own give an error: scan what
// Materialize makes of them.
func (r *TableRows[K, V]) All(yield func(k K, v V, timestamp int64) bool, order ...ScanOrder) error {
	return r.scan(nil, nil, descending(order), yield)
}

// Range is All for the keys in [from, to), in the order of serialised keys; see
// KV.Range.
func (r *TableRows[K, V]) Range(from, to K, yield func(k K, v V, timestamp int64) bool, order ...ScanOrder) error {
	if r.ks == nil {
		return r.fault(errRangeSerde)
	}
	lo, hi, err := keyRange(r.ks, from, to)
	if err != nil {
		return err
	}
	return r.scan(lo, hi, descending(order), yield)
}

// Prefix is All for the keys whose serialised form begins with that of p; see
// KV.Prefix.
func (r *TableRows[K, V]) Prefix[P any](
	p P, ps serde.Serde[P], yield func(k K, v V, timestamp int64) bool, order ...ScanOrder,
) error {
	lo, hi, err := prefixRange(ps, p)
	if err != nil {
		return err
	}
	return r.scan(lo, hi, descending(order), yield)
}

func (r *TableRows[K, V]) scan(from, to []byte, reverse bool, yield func(k K, v V, timestamp int64) bool) error {
	return r.fault(r.keys(from, to, reverse, func(k K) (bool, error) {
		v, ts, ok, err := r.get(k)
		if err != nil || !ok {
			return true, err
		}
		return yield(k, v, ts), nil
	}))
}
