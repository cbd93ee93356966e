package operators

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

// heldRow is a row that a suppressing step holds back.
type heldRow[V any] struct {
	// time orders the buffer: when the row's window closes, or the timestamp of
	// the first update that was held back.
	time int64
	// ts and h are those of the newest update, v its value.
	ts int64
	h  record.Headers
	v  V
	// prior is the value that was sent last, before the first update that was
	// held back.
	prior          V
	hasV, hasPrior bool
	size           int64 // of the encoded row, where the buffer is bounded in bytes
}

// Flags of a stored row.
const (
	heldValue = 1 << iota
	heldPrior
)

// heldHead is what lies before the headers: two times and the flags.
const heldHead = 2*timeSize + 1

var errHeldRow = errors.New("a held row is cut short or malformed")

// heldSerde is the format "suppress-rows-1" of docs/format/stores.md.
type heldSerde[V any] struct{ in serde.Serde[V] }

func (s heldSerde[V]) Append(dst []byte, r heldRow[V]) (_ []byte, err error) {
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.time))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.ts))
	var flags byte
	if r.hasV {
		flags |= heldValue
	}
	if r.hasPrior {
		flags |= heldPrior
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(len(r.h)))
	for _, h := range r.h {
		dst = binary.AppendUvarint(dst, uint64(len(h.Key)))
		dst = append(dst, h.Key...)
		if h.Value == nil {
			dst = append(dst, 0)
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(len(h.Value))+1)
		dst = append(dst, h.Value...)
	}
	if r.hasPrior {
		// The length is four bytes, since it is known only afterwards.
		at := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		if dst, err = s.in.Append(dst, r.prior); err != nil {
			return dst, err
		}
		binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	}
	if !r.hasV {
		return dst, nil
	}
	return s.in.Append(dst, r.v)
}

func (s heldSerde[V]) Decode(b []byte) (r heldRow[V], err error) {
	if len(b) < heldHead || b[heldHead-1] > heldValue|heldPrior {
		return r, errHeldRow
	}
	r.size = int64(len(b))
	r.time = int64(binary.BigEndian.Uint64(b))
	r.ts = int64(binary.BigEndian.Uint64(b[timeSize:]))
	flags := b[heldHead-1]
	r.hasV, r.hasPrior = flags&heldValue != 0, flags&heldPrior != 0
	if r.h, b, err = decodeHeaders(b[heldHead:]); err != nil {
		return r, err
	}
	if r.hasPrior {
		if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
			return r, errHeldRow
		}
		n := 4 + int(binary.BigEndian.Uint32(b))
		if r.prior, err = s.in.Decode(b[4:n]); err != nil {
			return r, fmt.Errorf("prior value: %w", err)
		}
		b = b[n:]
	}
	switch {
	case r.hasV:
		r.v, err = s.in.Decode(b)
	case len(b) > 0:
		err = errHeldRow
	}
	return r, err
}

// decodeHeaders reads headers, which alias b, and returns what is behind them.
func decodeHeaders(b []byte) (record.Headers, []byte, error) {
	n, b, err := uvarint(b)
	if err != nil || n > uint64(len(b)) { // each takes two bytes at least
		return nil, nil, errHeldRow
	}
	if n == 0 {
		return nil, b, nil
	}
	out := make(record.Headers, n)
	for i := range out {
		var size uint64
		if size, b, err = uvarint(b); err != nil || size > uint64(len(b)) {
			return nil, nil, errHeldRow
		}
		out[i].Key, b = string(b[:size]), b[size:]
		if size, b, err = uvarint(b); err != nil || size > uint64(len(b))+1 {
			return nil, nil, errHeldRow
		}
		if size > 0 {
			out[i].Value, b = b[:size-1:size-1], b[size-1:]
		}
	}
	return out, b, nil
}

func uvarint(b []byte) (uint64, []byte, error) {
	n, w := binary.Uvarint(b)
	if w <= 0 {
		return 0, nil, errHeldRow
	}
	return n, b[w:], nil
}

func (s heldSerde[V]) Fingerprint() string { return s.in.Fingerprint() }

// Aliases and Clone: headers alias what they were read from, in any case.
func (s heldSerde[V]) Aliases() bool { return true }

func (s heldSerde[V]) Clone(r heldRow[V]) heldRow[V] {
	if r.h != nil {
		r.h = slices.Clone(r.h)
		for i := range r.h {
			r.h[i].Value = slices.Clone(r.h[i].Value)
		}
	}
	if r.hasV {
		r.v = serde.Clone(s.in, r.v)
	}
	if r.hasPrior {
		r.prior = serde.Clone(s.in, r.prior)
	}
	return r
}
