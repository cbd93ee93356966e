package tidegate

import (
	"time"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// SessionKVDef defines a session store.
type SessionKVDef[K, V any] struct {
	name      string
	retention time.Duration
	ks        serde.Serde[K]
	vs        serde.Serde[V]
	site      topology.Site
}

// SessionStore defines a store keyed by key and session, a span of time (Kafka
// Streams' Stores.sessionStoreBuilder). Sessions that ended more than retention
// before stream time are not there any more, and are dropped from the disk in
// segments of a quarter of the retention, at least a second. It is opened with
// TaskContext.SessionStore.
func SessionStore[K, V any](name string, retention time.Duration, ks serde.Serde[K], vs serde.Serde[V]) *SessionKVDef[K, V] {
	return &SessionKVDef[K, V]{name: name, retention: retention, ks: ks, vs: vs, site: here()}
}

func (d *SessionKVDef[K, V]) connect(c *connection) {
	if d.retention < time.Millisecond {
		c.b.t.Errorf(d.site, "session store %q: retention %v must be at least 1ms", d.name, d.retention)
	}
	c.store(topology.Store{
		Name: d.name, Format: operators.FormatSessions, Site: d.site, Owner: d,
		GraceMs: d.retention.Milliseconds(),
		Key:     serdeInfo(given(c.b, d.site, "key", d.ks)),
		Value:   serdeInfo(given(c.b, d.site, "value", d.vs)),
	})
}

// SessionStore opens a session store that was passed to Process.
func (c *TaskContext) SessionStore[K, V any](def *SessionKVDef[K, V]) (*SessionKV[K, V], error) {
	if def == nil {
		return nil, errNilPart("SessionStore")
	}
	s, err := operators.OpenSessions(c.core, def.name, def.ks, def.vs, def.retention.Milliseconds())
	if err != nil {
		return nil, err
	}
	return &SessionKV[K, V]{in: s, null: nullOf(def.vs)}, nil
}

// SessionKV is an open session store. Times are in milliseconds since the epoch,
// and both ends of a session are in it. Errors are as with KV.
type SessionKV[K, V any] struct {
	in   *operators.UserSessions[K, V]
	null func(V) bool
}

// Get returns the value of the session of k from start to end (Kafka Streams'
// fetchSession).
func (s *SessionKV[K, V]) Get(k K, start, end int64) (V, bool, error) { return s.in.Get(k, start, end) }

// Put makes v the value of the session of k from start to end. A missing Opt
// deletes it. A session that ended more than the retention before stream time is
// not stored, and the record counts as late. One that ends before it begins is an
// error.
func (s *SessionKV[K, V]) Put(k K, start, end int64, v V) error {
	if s.null != nil && s.null(v) {
		return s.in.Delete(k, start, end)
	}
	return s.in.Put(k, start, end, v)
}

// Delete removes the session of k from start to end; a missing one is no error.
func (s *SessionKV[K, V]) Delete(k K, start, end int64) error { return s.in.Delete(k, start, end) }

// Find calls yield for the sessions of k that have a time in [from, to] in common,
// by their ends, until it returns false (Kafka Streams' findSessions, whose latest
// start is to). The store may be changed from yield, which the scan does not show,
// but not read.
func (s *SessionKV[K, V]) Find(k K, from, to int64, yield func(start, end int64, v V) bool) error {
	return s.in.Find(k, from, to, yield)
}
