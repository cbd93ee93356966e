package state

// KV is one named store of an engine, at the level of bytes. It belongs to the
// goroutine that owns the task. Keys are ordered bytewise.
type KV interface {
	// Get returns the value of key. The value is valid until the next call on
	// the same KV.
	Get(key []byte) (value []byte, ok bool, err error)
	// Set stores a copy of value under a copy of key.
	Set(key, value []byte) error
	// Delete removes key; a key that is not there is no error.
	Delete(key []byte) error
	// DeleteRange removes every key in [from, to). A nil from is the start, a
	// nil to the end of the store.
	DeleteRange(from, to []byte) error
	// Scan iterates over the keys in [from, to), downwards if reverse. A nil
	// bound is open. The iterator sees the store as it was when Scan was called
	// and must be closed.
	Scan(from, to []byte, reverse bool) Iterator
}

// Iterator walks over a range of a KV. It starts before the first entry:
//
//	it := kv.Scan(nil, nil, false)
//	defer it.Close()
//	for it.Next() { use(it.Key(), it.Value()) }
//	return it.Err()
//
// Key and Value are valid until the next call of Next or Close. Close is called
// once, and nothing behind it: the store uses the iterator again.
type Iterator interface {
	Next() bool
	Key() []byte
	Value() []byte
	Err() error
	Close() error
}

// Batch collects writes for one KV and applies them together. It copies what it
// is given.
type Batch interface {
	Set(key, value []byte) error
	Delete(key []byte) error
	// Commit applies the writes in their order and empties the batch, so that it
	// can be used again. After an error the batch is empty too and none, some or
	// all of its writes are applied; applying the same writes again is safe.
	Commit() error
}

// Batcher is a KV that can take many writes cheaper than one by one. Flushing
// and evicting use it where it is there.
type Batcher interface {
	// Batch returns the KV's one batch, empty.
	Batch() Batch
}

// direct is the batch of a KV that has none.
type direct struct{ kv KV }

func (d direct) Set(key, value []byte) error { return d.kv.Set(key, value) }
func (d direct) Delete(key []byte) error     { return d.kv.Delete(key) }
func (d direct) Commit() error               { return nil }

func batchOf(kv KV) Batch {
	if b, ok := kv.(Batcher); ok {
		return b.Batch()
	}
	return direct{kv}
}
