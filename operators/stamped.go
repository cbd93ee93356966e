package operators

import (
	"encoding/binary"
	"fmt"

	"github.com/tidegate/tidegate/serde"
)

// Formats name the layout of stores; they are part of the topology fingerprint
// and of manifests.
const (
	// FormatTable: key → 8 bytes timestamp, big endian, then the value (Kafka
	// Streams' timestamped key-value store).
	FormatTable = "table-1"
	// FormatWindows: window start, key → timestamp and value, as above.
	FormatWindows = "windows-1"
	// FormatKV: the same as FormatTable without timestamps.
	FormatKV = "kv-1"
	// FormatWindowKV: segment, key length, key, window start → value.
	FormatWindowKV = "window-kv-2"
	// FormatTTL: the rows of a key-value store with a time to live and their
	// expiries; see state.TTLStore.
	FormatTTL = "ttl-kv-1"
	// FormatList: the lists of each key; see state.ListStore.
	FormatList = "list-1"
	// FormatJoinRows: one side of a stream join; segment, key, time and sequence
	// number → timestamp, flag, value.
	FormatJoinRows = "join-rows-1"
	// FormatJoinPending: the rows of a stream join that met no partner, by the
	// time up to which they wait.
	FormatJoinPending = "join-pending-1"
	// FormatSuppressRows: the rows that a suppressing step holds back.
	FormatSuppressRows = "suppress-rows-1"
	// FormatSuppressCloses and FormatSuppressFirsts: the same rows by time, that
	// at which their windows close or that of the first update.
	FormatSuppressCloses = "suppress-closes-1"
	FormatSuppressFirsts = "suppress-firsts-1"
	// FormatSessions: segment, key, end and start of a session → value.
	FormatSessions = "sessions-1"
	// FormatSliding: the same for sliding windows → timestamp, value.
	FormatSliding = "sliding-1"
	// FormatClosing: end, start and key of windows whose results are sent when
	// they close.
	FormatClosing = "closing-1"
	// FormatVersioned: the versions of each key; see state.VersionedStore.
	FormatVersioned = "versioned-1"
	// FormatJoinBuffer: the records of a stream-table join that wait for the
	// table; time and sequence number → timestamp, headers, key, value.
	FormatJoinBuffer = "join-buffer-1"
)

// stamped is a value with the timestamp of its last update.
type stamped[V any] struct {
	ts int64
	v  V
}

type stampedSerde[V any] struct{ in serde.Serde[V] }

const stampSize = 8

func (s stampedSerde[V]) Append(dst []byte, v stamped[V]) ([]byte, error) {
	return s.in.Append(binary.BigEndian.AppendUint64(dst, uint64(v.ts)), v.v)
}

func (s stampedSerde[V]) Decode(b []byte) (stamped[V], error) {
	if len(b) < stampSize {
		return stamped[V]{}, fmt.Errorf("a stored value of %d bytes is shorter than its timestamp", len(b))
	}
	v, err := s.in.Decode(b[stampSize:])
	if err != nil {
		return stamped[V]{}, err
	}
	return stamped[V]{int64(binary.BigEndian.Uint64(b)), v}, nil
}

func (s stampedSerde[V]) Fingerprint() string { return s.in.Fingerprint() }

// Aliases and Clone let the stores copy what would alias a fetch buffer.
func (s stampedSerde[V]) Aliases() bool { return serde.Aliases(s.in) }

func (s stampedSerde[V]) Clone(v stamped[V]) stamped[V] {
	v.v = serde.Clone(s.in, v.v)
	return v
}
