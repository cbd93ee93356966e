package avroserde

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/avro"

	"github.com/tidegate/tidegate/serde"
)

// SingleObject is Avro's single-object encoding: the bytes C3 01, the schema's
// 64-bit Rabin fingerprint, the value. Values that older schemas wrote are read
// too, and so are stores; at a restore, older schemas that are not given here are
// refused.
func SingleObject[T any](s *Schema, older ...*Schema) serde.Serde[T] {
	o := &singleObject[T]{s: s, err: errNoSchema}
	if s == nil {
		return o
	}
	o.err = nil
	o.header = headerOf(s)
	o.readers = map[[soeHeader]byte]*avro.Schema{o.header: s.s}
	for _, old := range older {
		if old == nil {
			o.err = errNoSchema
			return o
		}
		how, err := avro.Resolve(old.s, s.s)
		if err != nil {
			o.err = fmt.Errorf("avro %s: what the older schema %s wrote cannot be read: %w", s.name, old.fingerprint, err)
			return o
		}
		if h := headerOf(old); h != o.header {
			o.readers[h] = how
		}
		o.accepts = append(o.accepts, soeFingerprint(old))
	}
	return o
}

// soeHeader is the length of the mark and the fingerprint.
const soeHeader = 10

func headerOf(s *Schema) [soeHeader]byte {
	h := [soeHeader]byte{0xc3, 0x01}
	rabin := avro.NewRabin()
	_, _ = rabin.Write(s.s.Canonical())
	binary.LittleEndian.PutUint64(h[2:], rabin.Sum64())
	return h
}

func soeFingerprint(s *Schema) string { return "avro-single-object(" + s.fingerprint + ")" }

type singleObject[T any] struct {
	s       *Schema
	header  [soeHeader]byte
	readers map[[soeHeader]byte]*avro.Schema
	accepts []string
	err     error
}

func (o *singleObject[T]) Append(dst []byte, v T) ([]byte, error) {
	if o.err != nil {
		return dst, o.err
	}
	return appendValue(append(dst, o.header[:]...), o.s, v)
}

func (o *singleObject[T]) Decode(b []byte) (T, error) {
	var zero T
	switch {
	case o.err != nil:
		return zero, o.err
	case len(b) < soeHeader || b[0] != 0xc3 || b[1] != 0x01:
		return zero, fmt.Errorf("decode avro %s: the record does not begin with C3 01 and a schema's fingerprint", o.s.name)
	}
	how := o.readers[[soeHeader]byte(b)]
	if how == nil {
		return zero, fmt.Errorf("decode avro %s: the record was written with a schema of fingerprint %x: give that schema to SingleObject as an older one", o.s.name, b[2:soeHeader])
	}
	return decode[T](how, o.s, b[soeHeader:])
}

func (o *singleObject[T]) Fingerprint() string {
	if o.s == nil {
		return "avro-single-object()"
	}
	return soeFingerprint(o.s)
}

func (o *singleObject[T]) Accepts(fingerprint string) bool {
	return strings.HasPrefix(fingerprint, "avro-single-object(") && slices.Contains(o.accepts, fingerprint)
}
