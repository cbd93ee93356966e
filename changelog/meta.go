package changelog

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
)

// Meta is what a committed offset carries beside the offset: the input's time,
// and with the task's first input its stream time and timers. So these are
// committed together with output and state, and a task that has no store keeps
// them too (Kafka Streams keeps its partition time there).
type Meta struct {
	// First marks the entry that holds Stream and Timers.
	First  bool
	Stream int64
	Timers []byte
	// Topics are the internal topics that the task's offsets rely on, Stores how
	// its stores are written. They are kept with the task's first input.
	Topics []KeptTopic
	Stores []KeptStore
	// Time is the input's, Channels those of a repartition partition.
	Time     int64
	Channels []barrier.StoredChannelTime
}

// MetaPrefix begins the metadata of every offset that changelog mode commits.
const MetaPrefix = "tidegate-changelog-1."

// MaxMeta is what brokers take as metadata of an offset unless
// offset.metadata.max.bytes says otherwise.
const MaxMeta = 4096

// ErrMetaTooLarge says that timers do not fit into an offset's metadata.
var ErrMetaTooLarge = errors.New("the schedules of a task's processors do not fit into the metadata of a committed offset")

// EncodeMeta returns the metadata. What does not fit is shortened or left out, in
// this order: the texts of Stores, which are then compared by a hash; the times
// of the channels, for all of which the input's time, their minimum, then stands:
// stream time stays as it is, only a channel ahead of others is taken for one
// that is not; Stores; Topics. Timers are never left out.
func EncodeMeta(m Meta) (string, error) {
	var s string
	for _, less := range []func(){
		func() {}, func() { m.Stores = shortened(m.Stores) }, func() { m.Channels = nil },
		func() { m.Stores = nil }, func() { m.Topics = nil },
	} {
		less()
		if s = encodeMeta(m); len(s) <= MaxMeta {
			return s, nil
		}
	}
	return "", fmt.Errorf("%w: %d bytes, at most %d", ErrMetaTooLarge, len(s), MaxMeta)
}

const (
	metaFirst = 1 << iota
	metaTimed
	metaTopics
	metaStores

	metaFlags = metaFirst | metaTimed | metaTopics | metaStores
)

// The flags of a channel.
const (
	metaIdle = 1 << iota
	metaHasTime
	metaCurrent
)

func encodeMeta(m Meta) string {
	var flags byte
	if m.First {
		flags |= metaFirst
	}
	if m.Time != barrier.NoTime {
		flags |= metaTimed
	}
	if len(m.Topics) > 0 {
		flags |= metaTopics
	}
	if len(m.Stores) > 0 {
		flags |= metaStores
	}
	b := []byte{flags}
	if m.First {
		b = binary.AppendVarint(b, m.Stream)
		b = binary.AppendUvarint(b, uint64(len(m.Timers)))
		b = append(b, m.Timers...)
	}
	if len(m.Topics) > 0 {
		b = appendTopics(b, m.Topics)
	}
	if len(m.Stores) > 0 {
		b = appendStores(b, m.Stores)
	}
	base := int64(0)
	if m.Time != barrier.NoTime {
		base = m.Time
		b = binary.AppendVarint(b, m.Time)
	}
	for _, c := range m.Channels {
		// task, then time and idleness: most channels are near the input's time.
		b = binary.AppendUvarint(b, uint64(uint32(c.Task.Sub)))
		b = binary.AppendUvarint(b, uint64(uint32(c.Task.Partition)))
		kind := byte(0)
		if c.Idle {
			kind |= metaIdle
		}
		if c.Time != barrier.NoTime {
			kind |= metaHasTime
		}
		if c.Current {
			kind |= metaCurrent
		}
		b = append(b, kind)
		if c.Time != barrier.NoTime {
			b = binary.AppendVarint(b, c.Time-base) // wraps, and back
		}
	}
	return MetaPrefix + base64.RawStdEncoding.EncodeToString(b)
}

var (
	errMeta      = errors.New("the metadata of a committed offset are cut short or malformed")
	errNewerMeta = errors.New("the metadata of a committed offset were written by a newer release of tidegate: start that one")
)

// DecodeMeta is the inverse of EncodeMeta; ok is false for metadata that are not
// changelog mode's.
func DecodeMeta(s string) (m Meta, ok bool, err error) {
	text, ok := strings.CutPrefix(s, MetaPrefix)
	if !ok {
		return m, false, nil
	}
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(b) == 0 {
		return m, true, errMeta
	}
	if b[0] > metaFlags {
		return m, true, errNewerMeta
	}
	flags := b[0]
	b = b[1:]
	bad := false
	signed := func() int64 {
		v, n := binary.Varint(b)
		if n <= 0 {
			bad, b = true, nil
			return 0
		}
		b = b[n:]
		return v
	}
	unsigned := func(limit uint64) uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > limit {
			bad, b = true, nil
			return 0
		}
		b = b[n:]
		return v
	}
	if flags&metaFirst != 0 {
		m.First = true
		m.Stream = signed()
		n := unsigned(uint64(len(b)))
		if n > uint64(len(b)) {
			return m, true, errMeta
		}
		m.Timers = append([]byte(nil), b[:n]...)
		b = b[n:]
	}
	if flags&metaTopics != 0 {
		n := unsigned(uint64(len(b)) / keptTopicSize)
		if n > uint64(len(b))/keptTopicSize {
			return m, true, errMeta
		}
		m.Topics, b = decodeTopics(b, int(n))
	}
	if flags&metaStores != 0 {
		var ok bool
		if m.Stores, b, ok = decodeStores(b); !ok {
			return m, true, errMeta
		}
	}
	base := int64(0)
	m.Time = barrier.NoTime
	if flags&metaTimed != 0 {
		base = signed()
		m.Time = base
	}
	for len(b) > 0 && !bad {
		c := barrier.StoredChannelTime{Time: barrier.NoTime}
		c.Task = ids.TaskID{Sub: int32(unsigned(math.MaxInt32)), Partition: int32(unsigned(math.MaxInt32))}
		if len(b) == 0 || b[0] > metaIdle|metaHasTime|metaCurrent {
			return m, true, errMeta
		}
		kind := b[0]
		b = b[1:]
		c.Idle, c.Current = kind&metaIdle != 0, kind&metaCurrent != 0
		if kind&metaHasTime != 0 {
			c.Time = base + signed()
		}
		m.Channels = append(m.Channels, c)
	}
	if bad {
		return m, true, errMeta
	}
	return m, true, nil
}
