package operators

import (
	"encoding/binary"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

// TableRow makes the row that Table keeps of a record of its topic: the key's
// bytes and the value with its timestamp, or no value where the record deletes
// the row. ok is false for a record that Table never took: one with a null key or
// an invalid timestamp, or that cannot be decoded. The bytes are decoded and
// encoded again, since a key that was written by somebody else need not have the
// bytes by which the store finds it.
func TableRow[K, V any](ks serde.Serde[K], vs serde.Serde[V]) func(r *record.Raw) (key, value []byte, ok bool) {
	keyNull, valueNull := nullsOf(ks), nullsOf(vs)
	return func(r *record.Raw) (key, value []byte, ok bool) {
		if r.Key == nil || r.Timestamp < 0 || r.Timestamp > maxTimestamp {
			return nil, nil, false
		}
		k, err := ks.Decode(r.Key)
		if err != nil || keyNull.is(k) {
			return nil, nil, false
		}
		if key, err = ks.Append([]byte{}, k); err != nil {
			return nil, nil, false
		}
		if r.Value == nil {
			return key, nil, true
		}
		v, err := vs.Decode(r.Value)
		switch {
		case err != nil:
			return nil, nil, false
		case valueNull.is(v):
			return key, nil, true
		}
		value, err = vs.Append(binary.BigEndian.AppendUint64(nil, uint64(r.Timestamp)), v)
		return key, value, err == nil
	}
}
