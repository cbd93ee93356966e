package operators

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/serde"
)

// What a foreign-key join writes: two internal topics and two stores, described
// in docs/format/foreign-key-join.md.
const (
	// FormatForeignRows: the version and foreign key of each row of the left
	// table that has one.
	FormatForeignRows = "foreign-rows-1"
	// FormatSubscriptions: foreign key and key → version, one entry for each row
	// of the left table, beside the right table.
	FormatSubscriptions = "foreign-subscriptions-1"
)

const foreignVersion = 1 // of subscriptions and answers

var (
	errSubscription    = errors.New("a subscription of a foreign-key join is cut short or malformed")
	errAnswer          = errors.New("an answer of a foreign-key join is cut short or malformed")
	errForeignRow      = errors.New("a row of a foreign-key join is cut short or malformed")
	errSubscriptionKey = errors.New("the key of a subscription is cut short or malformed")
)

// subscribeKind says what a subscription asks for.
type subscribeKind byte

const (
	// unsubscribe ends the subscription; there is no answer.
	unsubscribe subscribeKind = iota
	// subscribeAnswer wants an answer also where there is no right row.
	subscribeAnswer
	// subscribeQuiet wants one only where there is a right row.
	subscribeQuiet
)

// subscription goes from the left to the right side, under the foreign key.
type subscription struct {
	kind    subscribeKind
	version uint64
	key     []byte // of the left row, serialised
}

// subscriptionSerde is the serde of subscriptions; key is the fingerprint of the
// left table's key serde.
type subscriptionSerde struct{ key string }

func (s subscriptionSerde) Append(dst []byte, v subscription) ([]byte, error) {
	dst = append(dst, foreignVersion, byte(v.kind))
	dst = binary.AppendUvarint(dst, v.version)
	return append(dst, v.key...), nil
}

// Decode's key aliases b.
func (s subscriptionSerde) Decode(b []byte) (v subscription, err error) {
	if len(b) < 2 {
		return v, errSubscription
	}
	if b[0] != foreignVersion {
		return v, fmt.Errorf("a subscription of a foreign-key join has version %d, this release reads %d: use a newer release", b[0], foreignVersion)
	}
	v.kind = subscribeKind(b[1])
	n, w := binary.Uvarint(b[2:])
	if v.kind > subscribeQuiet || w <= 0 {
		return subscription{}, errSubscription
	}
	v.version, v.key = n, b[2+w:]
	return v, nil
}

func (s subscriptionSerde) Fingerprint() string { return "subscription-1(" + s.key + ")" }

// answer goes from the right to the left side, under the left row's key.
type answer[V any] struct {
	version uint64 // of the left row that it answers
	foreign []byte // the foreign key, serialised
	ts      int64  // of the right row, or of its deletion
	has     bool   // there is a right row
	v       V
}

type answerSerde[V any] struct{ in serde.Serde[V] }

func (s answerSerde[V]) Append(dst []byte, a answer[V]) ([]byte, error) {
	has := byte(0)
	if a.has {
		has = 1
	}
	dst = append(dst, foreignVersion, has)
	dst = binary.AppendUvarint(dst, a.version)
	dst = binary.AppendVarint(dst, a.ts)
	dst = binary.AppendUvarint(dst, uint64(len(a.foreign)))
	dst = append(dst, a.foreign...)
	if !a.has {
		return dst, nil
	}
	return s.in.Append(dst, a.v)
}

// Decode's foreign key aliases b.
func (s answerSerde[V]) Decode(b []byte) (a answer[V], err error) {
	if len(b) < 2 {
		return a, errAnswer
	}
	if b[0] != foreignVersion {
		return a, fmt.Errorf("an answer of a foreign-key join has version %d, this release reads %d: use a newer release", b[0], foreignVersion)
	}
	has := b[1]
	version, w := binary.Uvarint(b[2:])
	if has > 1 || w <= 0 {
		return a, errAnswer
	}
	b = b[2+w:]
	ts, w := binary.Varint(b)
	if w <= 0 {
		return a, errAnswer
	}
	foreign, b, err := splitSubscriptionKey(b[w:])
	if err != nil || has == 0 && len(b) > 0 {
		return a, errAnswer
	}
	a.version, a.foreign, a.ts, a.has = version, foreign, ts, has == 1
	if a.has {
		a.v, err = s.in.Decode(b)
	}
	return a, err
}

func (s answerSerde[V]) Fingerprint() string { return "answer-1(" + s.in.Fingerprint() + ")" }

// rawKey passes serialised keys of another serde on.
type rawKey struct {
	fingerprint string
	part        serde.PartitionKeyer // nil: all bytes decide the partition
}

func rawKeyOf[K any](ks serde.Serde[K]) rawKey {
	part, _ := ks.(serde.PartitionKeyer)
	return rawKey{ks.Fingerprint(), part}
}

func (s rawKey) Append(dst, k []byte) ([]byte, error) { return append(dst, k...), nil }

// Decode's result aliases b.
func (s rawKey) Decode(b []byte) ([]byte, error) { return b, nil }
func (s rawKey) Fingerprint() string             { return s.fingerprint }

func (s rawKey) PartitionKey(encoded []byte) []byte {
	if s.part == nil {
		return encoded
	}
	return s.part.PartitionKey(encoded)
}

// foreignRow is what the left side knows of a row that has a foreign key.
type foreignRow struct {
	// version names the row's last change. An answer to an earlier one is stale.
	version uint64
	// key is the foreign key, serialised: the row's subscription is there.
	key string
	// joined: the last answer had a right row, of that time.
	joined bool
	ts     int64
}

type foreignRowSerde struct{}

func (foreignRowSerde) Append(dst []byte, r foreignRow) ([]byte, error) {
	joined := byte(0)
	if r.joined {
		joined = 1
	}
	dst = binary.AppendUvarint(dst, r.version)
	dst = binary.AppendVarint(append(dst, joined), r.ts)
	return append(dst, r.key...), nil
}

func (foreignRowSerde) Decode(b []byte) (r foreignRow, err error) {
	version, w := binary.Uvarint(b)
	if w <= 0 || len(b) == w || b[w] > 1 {
		return r, errForeignRow
	}
	joined, b := b[w] == 1, b[w+1:]
	ts, w := binary.Varint(b)
	if w <= 0 {
		return r, errForeignRow
	}
	return foreignRow{version: version, key: string(b[w:]), joined: joined, ts: ts}, nil
}

func (foreignRowSerde) Fingerprint() string { return FormatForeignRows }

// The store of rows has the last version beside the rows.
const (
	lastVersionKey = 0
	foreignRowKey  = 1
)

// foreignKeySerde puts the kind of entry before a key of the store of rows.
type foreignKeySerde[K any] struct{ in serde.Serde[K] }

func (s foreignKeySerde[K]) Append(dst []byte, k K) ([]byte, error) {
	return s.in.Append(append(dst, foreignRowKey), k)
}

func (s foreignKeySerde[K]) Decode(b []byte) (k K, err error) {
	if len(b) == 0 || b[0] != foreignRowKey {
		return k, errForeignRow
	}
	return s.in.Decode(b[1:])
}

func (s foreignKeySerde[K]) Fingerprint() string { return s.in.Fingerprint() }

// appendSubscriptionKey appends the key of a subscription: all of one foreign
// key lie together.
func appendSubscriptionKey(dst, foreign, key []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(foreign)))
	dst = append(dst, foreign...)
	return append(dst, key...)
}

// splitSubscriptionKey returns the parts of a subscription's key.
func splitSubscriptionKey(b []byte) (foreign, key []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, nil, errSubscriptionKey
	}
	return b[w : w+int(n)], b[w+int(n):], nil
}

// prefixEnd turns b into the first key behind those that begin with it; nil
// where there is none.
func prefixEnd(b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return b[:i+1]
		}
	}
	return nil
}
