package state

import "github.com/tidegate/tidegate/serde"

// KVStore is a typed key-value store (Kafka Streams' KeyValueStore with
// caching, Flink's MapState): decoded values in the task's cache above one KV.
// It belongs to the goroutine that owns the task.
type KVStore[K, V any] struct {
	t    *table[V]
	ks   serde.Serde[K]
	kbuf []byte
}

// NewKVStore returns a typed store over kv whose entries live in cache. The
// name appears in errors.
func NewKVStore[K, V any](
	name string, kv KV, ks serde.Serde[K], vs serde.Serde[V], cache *Cache, opts ...StoreOption,
) *KVStore[K, V] {
	return &KVStore[K, V]{t: newTable(name, kv, vs, cache, opts), ks: ks}
}

// Name returns the store's name.
func (s *KVStore[K, V]) Name() string { return s.t.name }

// Get returns the value of k. It is the cached value itself: the caller may
// change it, and then has to Put it.
func (s *KVStore[K, V]) Get(k K) (v V, ok bool, err error) {
	key, err := s.key(k)
	if err != nil {
		return v, false, err
	}
	e, err := s.t.load(key, nil)
	if err != nil {
		return v, false, err
	}
	return e.val, e.present, nil
}

// Put makes v the value of k. The store keeps v itself, except for byte slices,
// which it copies.
func (s *KVStore[K, V]) Put(k K, v V) error {
	key, err := s.key(k)
	if err != nil {
		return err
	}
	return s.t.put(key, nil, v)
}

// Delete removes k.
func (s *KVStore[K, V]) Delete(k K) error {
	key, err := s.key(k)
	if err != nil {
		return err
	}
	return s.t.del(key, nil)
}

// GetOld returns the value of k as it was last put, decoded anew where a copy
// would share memory: what the owner did to the value from Get since does not
// show. The store must be made with [WithOldValues].
func (s *KVStore[K, V]) GetOld(k K) (v V, ok bool, err error) {
	if !s.t.olds {
		return v, false, s.t.fail("get the old value", nil, ErrNoOldValues)
	}
	key, err := s.key(k)
	if err != nil {
		return v, false, err
	}
	e, err := s.t.load(key, nil)
	if err != nil {
		return v, false, err
	}
	return s.t.oldOf(e)
}

// PutWithOld makes v the value of k and returns the one before, like GetOld.
func (s *KVStore[K, V]) PutWithOld(k K, v V) (old V, had bool, err error) {
	old, had, err = s.GetOld(k)
	if err != nil {
		return old, had, err
	}
	return old, had, s.Put(k, v)
}

// Revert makes the next Get of k answer what was last put, after an owner
// changed the value it got and then failed. It reports false where it cannot:
// when the value is dirty and the store is made without [WithOldValues].
func (s *KVStore[K, V]) Revert(k K) (bool, error) {
	key, err := s.key(k)
	if err != nil {
		return false, err
	}
	return s.t.revert(key)
}

// Scan iterates over the keys whose serialised form is in [from, to), in that
// form's order, downwards if reverse. A nil bound is open. Dirty entries are
// written first: the engine merges them into its order anyway, scans are rare
// beside gets, and what was written does not have to be written at the barrier.
// The iterator does not see what is put after Scan was called.
func (s *KVStore[K, V]) Scan(from, to []byte, reverse bool) (*KVIterator[K, V], error) {
	if err := s.t.flush(); err != nil {
		return nil, err
	}
	return &KVIterator[K, V]{t: s.t, ks: s.ks, it: s.t.kv.Scan(from, to, reverse)}, nil
}

// Flush writes every dirty entry to the KV; they stay cached.
func (s *KVStore[K, V]) Flush() error { return s.t.flush() }

// Dirty returns the number of entries that a Flush would write.
func (s *KVStore[K, V]) Dirty() int { return s.t.nDirty }

func (s *KVStore[K, V]) key(k K) ([]byte, error) {
	b, err := s.ks.Append(s.kbuf[:0], k)
	if err != nil {
		return nil, s.t.fail("encode a key", nil, err)
	}
	s.kbuf = b
	return b, nil
}

// KVIterator walks over a range of a [KVStore]. Its values are decoded for the
// caller and not shared with the cache; a key that aliases its serialised form
// (serde.Bytes) is valid until the next call of Next.
type KVIterator[K, V any] struct {
	t    *table[V]
	ks   serde.Serde[K]
	it   Iterator
	skip int // bytes before the key that are the store's own
	k    K
	v    V
	err  error
}

// Next goes to the next entry and reports whether there is one.
func (i *KVIterator[K, V]) Next() bool {
	if i.err != nil || !i.it.Next() {
		return false
	}
	if i.k, i.err = i.ks.Decode(i.it.Key()[i.skip:]); i.err != nil {
		i.err = i.t.fail("decode", i.it.Key(), i.err)
		return false
	}
	if i.v, i.err = i.t.decode(i.it.Value()); i.err != nil {
		i.err = i.t.fail("decode the value of", i.it.Key(), i.err)
		return false
	}
	return true
}

// Key returns the key of the present entry.
func (i *KVIterator[K, V]) Key() K { return i.k }

// Value returns the value of the present entry.
func (i *KVIterator[K, V]) Value() V { return i.v }

// Err returns the error that ended the iteration, if any.
func (i *KVIterator[K, V]) Err() error {
	if i.err != nil {
		return i.err
	}
	return i.it.Err()
}

// Close frees the iterator; it must be called.
func (i *KVIterator[K, V]) Close() error { return i.it.Close() }
