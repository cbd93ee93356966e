package tidegatetest

import (
	"bytes"
	"math"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// SessionStore reads the store of an aggregation over sessions or sliding windows
// (TopologyTestDriver.getSessionStore, getTimestampedWindowStore).
type SessionStore[K, V any] struct{ in opened[K, V] }

// SessionStore opens the store of an aggregation over sessions or sliding
// windows, or a processor's SessionStore. ks is the serde of the key without the window.
func (d *Driver) SessionStore[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V]) *SessionStore[K, V] {
	d.t.Helper()
	in, err := openStore(d, name, ks, vs, operators.FormatSliding, operators.FormatSessions)
	if err != nil {
		d.t.Fatalf("SessionStore(%q): %v", name, err)
	}
	if in.timestamp = in.desc.Format == operators.FormatSliding; in.timestamp {
		in.head = stampBytes
	}
	return &SessionStore[K, V]{in}
}

// InPartition is the part of the store that the task of one partition keeps.
func (s *SessionStore[K, V]) InPartition(p int32) *SessionStore[K, V] {
	s.in.d.t.Helper()
	return &SessionStore[K, V]{s.in.only(p)}
}

func (s *SessionStore[K, V]) part(task ids.TaskID) *state.SessionStore[[]byte, []byte] {
	s.in.d.t.Helper()
	st, err := state.NewSessionStore(s.in.desc.Name, s.in.part(task), serde.Bytes(), serde.Bytes(), math.MaxInt64)
	s.in.check(err)
	return st
}

// Get returns the value of the window of k from start to end, in milliseconds
// since the epoch, both in it (ReadOnlySessionStore.fetchSession).
func (s *SessionStore[K, V]) Get(k K, start, end int64) (v V, ok bool) {
	s.in.d.t.Helper()
	for _, r := range s.All() {
		if r.Key.Window == (tidegate.Window{Start: start, End: end}) && bytes.Equal(s.in.key(r.Key.Key), s.in.key(k)) {
			return r.Value, true
		}
	}
	return v, false
}

// All returns every entry, by partition, key and end within the parts of the
// store that are dropped together (ReadOnlySessionStore has no such method). A
// session is there for some time after it is closed.
func (s *SessionStore[K, V]) All() []KeyValue[tidegate.Windowed[K], V] {
	s.in.d.t.Helper()
	var out []KeyValue[tidegate.Windowed[K], V]
	for _, task := range s.in.tasks {
		s.in.check(s.part(task).All(func(kb []byte, start, end int64, vb []byte) bool {
			k, err := s.in.ks.Decode(bytes.Clone(kb))
			s.in.check(err)
			v, _ := s.in.decode(vb)
			w := tidegate.Windowed[K]{Key: k, Window: tidegate.Window{Start: start, End: end}}
			out = append(out, KV(w, v))
			return true
		}))
	}
	return out
}
