package state

import (
	"bytes"
	"reflect"
	"unsafe"
)

// shape says how a value type behaves when it is copied, which decides what
// must be cloned, encoded or measured.
type shape uint8

const (
	// shapeOther: may hold pointers; a copy shares memory with the original.
	shapeOther shape = iota
	// shapePlain: no pointers at all; an assignment is a full copy.
	shapePlain
	// shapeString: a string, which nobody can change.
	shapeString
	// shapeBytes: []byte itself, which may alias a fetch buffer.
	shapeBytes
)

func shapeOf[V any]() shape {
	switch typ := reflect.TypeFor[V](); {
	case typ.Kind() == reflect.String:
		return shapeString
	case typ == reflect.TypeFor[[]byte]():
		return shapeBytes
	case isPlain(typ):
		return shapePlain
	}
	return shapeOther
}

// isPlain reports whether values of the type hold no pointer.
func isPlain(t reflect.Type) bool {
	switch k := t.Kind(); {
	case k >= reflect.Bool && k <= reflect.Complex128 && k != reflect.Uintptr:
		return true
	case k == reflect.Array:
		return isPlain(t.Elem())
	case k == reflect.Struct:
		for i := range t.NumField() {
			if !isPlain(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return false
}

// decode makes a value that shares no memory with b.
func (t *table[V]) decode(b []byte) (V, error) {
	v, err := t.vs.Decode(b)
	if err == nil && t.clone != nil {
		v = t.clone(v)
	}
	return v, err
}

// own returns v in memory that belongs to the store: a value that came from a
// record may alias a fetch buffer, a byte slice whatever this store's serde is.
func (t *table[V]) own(v V) V {
	switch {
	case t.clone != nil:
		return t.clone(v)
	case t.shape == shapeBytes:
		b := any(&v).(*[]byte)
		*b = bytes.Clone(*b)
	}
	return v
}

// sizeOf estimates the bytes that a value takes beside its own struct.
func (t *table[V]) sizeOf(v V) int {
	switch t.shape {
	case shapePlain:
		return 0
	case shapeString:
		return len(*(*string)(unsafe.Pointer(&v)))
	case shapeBytes:
		return len(*any(&v).(*[]byte))
	}
	t.puts++
	if t.puts%measureEvery == 1 {
		if b, err := t.vs.Append(t.buf[:0], v); err == nil {
			t.buf = b[:0]
			t.learn(len(b))
		}
	}
	return int(t.meanSize)
}

func (t *table[V]) learn(encoded int) {
	if t.meanSize == 0 {
		t.meanSize = int64(encoded)
		return
	}
	t.meanSize += (int64(encoded) - t.meanSize) / 8
}

// charge is what an entry costs the cache.
func (t *table[V]) charge(key, encoded int) int64 {
	var v V
	size := int64(entryOverhead + key + int(unsafe.Sizeof(v)))
	if t.shape != shapePlain {
		size += int64(encoded)
	}
	if t.old {
		size += int64(encoded)
	}
	return size
}

// resize charges an entry for a value of another size.
func (t *table[V]) resize(e *entry[V], encoded int) error {
	if t.old && e.present {
		encoded = len(e.enc)
	}
	size := t.charge(len(e.key), encoded)
	if size == e.size {
		return nil
	}
	t.cache.used += size - e.size
	grown := size > e.size
	e.size = size
	if grown {
		return t.cache.shrink(0, e.ring)
	}
	return nil
}
