package tidegatetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// opened is what both kinds of stores share.
type opened[K, V any] struct {
	d         *Driver
	desc      *topology.Store
	tasks     []ids.TaskID // that have a part of the store
	ks        serde.Serde[K]
	vs        serde.Serde[V]
	prefix    []byte // of the keys
	head      int    // bytes before a value
	timestamp bool   // values begin with their timestamp
}

// stampBytes is the size of the timestamp before a table's value.
const stampBytes = 8

// Store reads the store of a table or of a processor (TopologyTestDriver
// .getKeyValueStore, getTimestampedKeyValueStore). It sees what the steps see,
// including what is only in a cache. It cannot write.
type Store[K, V any] struct{ in opened[K, V] }

// Store opens a key-value store: one that an unwindowed aggregation or a table
// keeps, or a processor's KeyValueStore or TimestampedKeyValueStore. The serdes
// must have the format of the topology's. Entries with a time to live are shown
// until they are cleaned, which a processor may not see.
func (d *Driver) Store[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V]) *Store[K, V] {
	d.t.Helper()
	in, err := openStore(d, name, ks, vs, operators.FormatTable, operators.FormatKV, operators.FormatTTL)
	if err != nil {
		d.t.Fatalf("Store(%q): %v", name, err)
	}
	switch in.desc.Format {
	case operators.FormatTable:
		in.head = stampBytes
	case operators.FormatTTL:
		in.prefix, in.head = []byte{0}, 2*stampBytes
	}
	in.timestamp = in.head > 0
	return &Store[K, V]{in}
}

// WindowStore reads the store of a windowed aggregation or of a processor
// (TopologyTestDriver.getWindowStore, getTimestampedWindowStore).
type WindowStore[K, V any] struct{ in opened[K, V] }

// WindowStore opens a window store: one that a windowed aggregation keeps, or a
// processor's WindowStore. ks is the serde of the key without the window.
func (d *Driver) WindowStore[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V]) *WindowStore[K, V] {
	d.t.Helper()
	in, err := openStore(d, name, ks, vs, operators.FormatWindows, operators.FormatWindowKV)
	if err != nil {
		d.t.Fatalf("WindowStore(%q): %v", name, err)
	}
	if in.timestamp = in.desc.Format == operators.FormatWindows; in.timestamp {
		in.head = stampBytes
	}
	return &WindowStore[K, V]{in}
}

func openStore[K, V any](
	d *Driver, name string, ks serde.Serde[K], vs serde.Serde[V], formats ...string,
) (o opened[K, V], err error) {
	if ks == nil || vs == nil {
		return o, errors.New("a serde is nil")
	}
	var all []string
	for _, sub := range d.in.Resolved().Subtopologies() {
		for _, st := range sub.Stores {
			all = append(all, st.Name)
			if st.Name != name {
				continue
			}
			o = opened[K, V]{d: d, desc: st, ks: ks, vs: vs}
			for p := range d.in.Resolved().TaskCount(sub.Number) {
				o.tasks = append(o.tasks, ids.TaskID{Sub: sub.Number, Partition: p})
			}
		}
	}
	switch {
	case o.desc == nil:
		return o, fmt.Errorf("the topology has no such store; it has: %s", names(all))
	case !slices.Contains(formats, o.desc.Format):
		return o, fmt.Errorf("it is a store of another kind, %s: %s", o.desc.Format, opener(o.desc.Format))
	case !serde.Accepts(ks, o.desc.Key.Fingerprint):
		return o, fmt.Errorf("its keys are %s, but the given serde reads %s", o.desc.Key.Fingerprint, ks.Fingerprint())
	case !serde.Accepts(vs, o.desc.Value.Fingerprint):
		return o, fmt.Errorf("its values are %s, but the given serde reads %s", o.desc.Value.Fingerprint, vs.Fingerprint())
	}
	return o, nil
}

// opener says which method of Driver opens stores of a format.
func opener(format string) string {
	switch format {
	case operators.FormatWindows, operators.FormatWindowKV:
		return "open it with Driver.WindowStore"
	case operators.FormatSessions, operators.FormatSliding:
		return "open it with Driver.SessionStore"
	case operators.FormatVersioned:
		return "open it with Driver.VersionedStore"
	case operators.FormatList:
		return "open it with Driver.ListStore"
	case operators.FormatTable, operators.FormatKV, operators.FormatTTL:
		return "open it with Driver.Store"
	default:
		return "the driver does not open what only a step reads"
	}
}

// part opens the task's part of the store, with everything flushed to it.
func (o *opened[K, V]) part(task ids.TaskID) state.KV {
	o.d.t.Helper()
	if o.d.closed {
		o.d.t.Fatalf("store %q: the driver is closed", o.desc.Name)
	}
	if err := o.d.in.Flush(); err != nil {
		o.d.t.Fatalf("store %q: write caches: %v", o.desc.Name, err)
	}
	kv, err := o.d.in.Engine(task).Store(o.desc.Name)
	o.check(err)
	return kv
}

func (o *opened[K, V]) check(err error) {
	o.d.t.Helper()
	if err != nil {
		o.d.t.Fatalf("store %q: %v", o.desc.Name, err)
	}
}

func (o *opened[K, V]) key(k K) []byte {
	o.d.t.Helper()
	b, err := o.ks.Append(bytes.Clone(o.prefix), k)
	o.check(err)
	return b
}

// decode takes copies: the value may alias what it was decoded from.
func (o *opened[K, V]) decode(b []byte) (v V, timestamp int64) {
	o.d.t.Helper()
	b = append([]byte{}, b...)
	if len(b) < o.head {
		o.d.t.Fatalf("store %q: a value of %d bytes is shorter than its timestamp", o.desc.Name, len(b))
	}
	if o.timestamp {
		timestamp = int64(binary.BigEndian.Uint64(b))
	}
	b = b[o.head:]
	v, err := o.vs.Decode(b)
	o.check(err)
	return v, timestamp
}

// only narrows the store to one partition.
func (o opened[K, V]) only(partition int32) opened[K, V] {
	o.d.t.Helper()
	if partition < 0 || int(partition) >= len(o.tasks) {
		o.d.t.Fatalf("store %q: partition %d: it has %d", o.desc.Name, partition, len(o.tasks))
	}
	o.tasks = o.tasks[partition : partition+1]
	return o
}

// InPartition is the part of the store that the task of one partition keeps.
func (s *Store[K, V]) InPartition(p int32) *Store[K, V] {
	s.in.d.t.Helper()
	return &Store[K, V]{s.in.only(p)}
}

// Get returns the value of k and whether there is one. If several partitions
// have one it is that of the lowest: a processor can do so, no other step.
func (s *Store[K, V]) Get(k K) (v V, ok bool) {
	s.in.d.t.Helper()
	v, _, ok = s.get(k)
	return v, ok
}

// UpdatedAt returns the timestamp of a row: the largest of the records that made
// it (ValueAndTimestamp.timestamp), or what a processor put. Where entries have a
// time to live it is the stream time of the last refresh. Other stores of
// processors have none: it is 0.
func (s *Store[K, V]) UpdatedAt(k K) (ms int64, ok bool) {
	s.in.d.t.Helper()
	_, ms, ok = s.get(k)
	return ms, ok
}

func (s *Store[K, V]) get(k K) (v V, ms int64, ok bool) {
	s.in.d.t.Helper()
	key := s.in.key(k)
	for _, task := range s.in.tasks {
		b, found, err := s.in.part(task).Get(key)
		s.in.check(err)
		if found {
			v, ms = s.in.decode(b)
			return v, ms, true
		}
	}
	return v, 0, false
}

// All returns every entry, by partition and then in the order of serialised keys
// (ReadOnlyKeyValueStore.all).
func (s *Store[K, V]) All() []KeyValue[K, V] {
	s.in.d.t.Helper()
	var out []KeyValue[K, V]
	for _, task := range s.in.tasks {
		var end []byte
		if s.in.prefix != nil {
			end = []byte{s.in.prefix[0] + 1}
		}
		it := s.in.part(task).Scan(s.in.prefix, end, false)
		for it.Next() {
			k, err := s.in.ks.Decode(bytes.Clone(it.Key()[len(s.in.prefix):]))
			s.in.check(err)
			v, _ := s.in.decode(it.Value())
			out = append(out, KV(k, v))
		}
		s.in.check(it.Err())
		s.in.check(it.Close())
	}
	return out
}

// InPartition is the part of the store that the task of one partition keeps.
func (s *WindowStore[K, V]) InPartition(p int32) *WindowStore[K, V] {
	s.in.d.t.Helper()
	return &WindowStore[K, V]{s.in.only(p)}
}

// timedRows is what both kinds of window stores can do with serialised rows.
type timedRows interface {
	Get(key []byte, start int64) ([]byte, bool, error)
}

func (s *WindowStore[K, V]) part(task ids.TaskID) timedRows {
	s.in.d.t.Helper()
	if s.in.desc.Format == operators.FormatWindowKV {
		return s.timed(task)
	}
	return s.windows(task)
}

func (s *WindowStore[K, V]) windows(task ids.TaskID) *state.WindowStore[[]byte, []byte] {
	s.in.d.t.Helper()
	return state.NewWindowStore(s.in.desc.Name, s.in.part(task), serde.Bytes(), serde.Bytes(), state.NewCache(0))
}

// timed opens a processor's window store.
func (s *WindowStore[K, V]) timed(task ids.TaskID) *state.TimedStore[[]byte, []byte] {
	s.in.d.t.Helper()
	st, err := state.NewTimedStore(s.in.desc.Name, s.in.part(task), serde.Bytes(), serde.Bytes(),
		state.TimedSegment(s.in.desc.GraceMs), state.NewCache(0))
	s.in.check(err)
	return st
}

// Get returns the value of k in the window that begins at start, in milliseconds
// since the epoch (ReadOnlyWindowStore.fetch). A window is gone when stream time
// passed its end plus the grace.
func (s *WindowStore[K, V]) Get(k K, start int64) (v V, ok bool) {
	s.in.d.t.Helper()
	v, _, ok = s.get(k, start)
	return v, ok
}

// UpdatedAt is that of Store, for a key in a window.
func (s *WindowStore[K, V]) UpdatedAt(k K, start int64) (ms int64, ok bool) {
	s.in.d.t.Helper()
	_, ms, ok = s.get(k, start)
	return ms, ok
}

func (s *WindowStore[K, V]) get(k K, start int64) (v V, ms int64, ok bool) {
	s.in.d.t.Helper()
	key := s.in.key(k)
	for _, task := range s.in.tasks {
		b, found, err := s.part(task).Get(key, start)
		s.in.check(err)
		if found {
			v, ms = s.in.decode(b)
			return v, ms, true
		}
	}
	return v, 0, false
}

// All returns every entry, by partition, window start and serialised key
// (ReadOnlyWindowStore.all); those of a processor's store in the order of
// WindowKV.Range, and until their segment is dropped: the processor sees them only
// up to the retention. In a processor's store a window ends where it begins, since
// the store does not know its size.
func (s *WindowStore[K, V]) All() []KeyValue[tidegate.Windowed[K], V] {
	s.in.d.t.Helper()
	var out []KeyValue[tidegate.Windowed[K], V]
	add := func(kb []byte, start int64, vb []byte) {
		k, err := s.in.ks.Decode(bytes.Clone(kb))
		s.in.check(err)
		v, _ := s.in.decode(vb)
		w := tidegate.Window{Start: start, End: start + s.in.desc.SizeMs}
		if end := s.in.desc.WindowEnd; end != nil {
			w.End = end(w.Start)
		}
		out = append(out, KV(tidegate.Windowed[K]{Key: k, Window: w}, v))
	}
	for _, task := range s.in.tasks {
		if s.in.desc.Format == operators.FormatWindowKV {
			s.in.check(s.timed(task).Range(math.MinInt64, math.MaxInt64, false, func(kb []byte, start int64, vb []byte) bool {
				add(kb, start, vb)
				return true
			}))
			continue
		}
		it, err := s.windows(task).Scan(math.MinInt64, math.MaxInt64, false)
		s.in.check(err)
		for it.Next() {
			add(it.Key(), it.Start(), it.Value())
		}
		s.in.check(it.Err())
		s.in.check(it.Close())
	}
	return out
}
