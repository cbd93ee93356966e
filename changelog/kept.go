package changelog

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/topology"
)

// KeptTopic is an internal topic that committed offsets rely on: the changelog of
// a store, or a repartition topic that the task writes. A topic that was made
// anew under its name has another id, and lacks what the offsets say was written.
type KeptTopic struct {
	Name uint64 // a hash of the topic's name
	ID   uint64 // the first half of its id
}

// KeepTopic returns what is kept of a topic; ok is false where the broker gives
// topics no ids.
func KeepTopic(name string, id [16]byte) (k KeptTopic, ok bool) {
	return KeptTopic{HashTopic(name), binary.BigEndian.Uint64(id[:])}, id != [16]byte{}
}

// HashTopic is the Name of a topic's KeptTopic.
func HashTopic(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint64(sum[:])
}

// KeptStore is how a store's entries are written. The fields but Name are texts
// of at most keptText bytes, see keep.
type KeptStore struct {
	Name, Format string
	// Layout is what of its windows decides how entries are written and what they
	// mean.
	Layout     string
	Key, Value string // fingerprints of serdes
	// Source says that the rows are those of the store's source topic, and that it
	// has no changelog.
	Source bool
}

// segmented are the formats whose keys begin with a segment, whose length follows
// from how long entries are kept.
var segmented = []string{"sessions-1", "sliding-1", "window-kv-2", "join-rows-1", "versioned-1"}

// KeepStore returns what is kept of a store.
func KeepStore(s *topology.Store) KeptStore {
	var parts []string
	if s.Windows != "" {
		parts = append(parts, s.Windows)
	}
	if s.SizeMs > 0 {
		parts = append(parts, fmt.Sprintf("size %d ms", s.SizeMs))
	}
	if slices.Contains(segmented, s.Format) {
		parts = append(parts, fmt.Sprintf("kept for %d ms", s.GraceMs))
	}
	return KeptStore{
		Name: s.Name, Format: keep(s.Format, keptText), Layout: keep(strings.Join(parts, ", "), keptText),
		Key: keep(s.Key.Fingerprint, keptText), Value: keep(s.Value.Fingerprint, keptText), Source: s.FromSource != nil,
	}
}

const (
	// keptText bounds a text of a KeptStore, shortText one where all do not fit.
	keptText  = 256
	shortText = 24
)

// keep shortens a text to most bytes: its beginning, "~", and a hash of all of it.
func keep(text string, most int) string {
	if len(text) <= most {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%s~%x", strings.ToValidUTF8(text[:most-17], ""), sum[:8])
}

func shortened(stores []KeptStore) []KeptStore {
	out := slices.Clone(stores)
	for n := range out {
		for _, text := range out[n].texts()[1:] {
			*text = keep(*text, shortText)
		}
	}
	return out
}

// Same reports whether the text that was kept is that of now, shortened or not.
func Same(kept, now string) bool {
	now = keep(now, keptText)
	return kept == now || kept == keep(now, shortText)
}

// texts are all texts of the store, its name first.
func (s *KeptStore) texts() []*string {
	return []*string{&s.Name, &s.Format, &s.Layout, &s.Key, &s.Value}
}

const keptTopicSize = 16

func appendTopics(b []byte, topics []KeptTopic) []byte {
	b = binary.AppendUvarint(b, uint64(len(topics)))
	for _, t := range topics {
		b = binary.BigEndian.AppendUint64(b, t.Name)
		b = binary.BigEndian.AppendUint64(b, t.ID)
	}
	return b
}

// decodeTopics reads n topics. REQUIRES: they are there.
func decodeTopics(b []byte, n int) (out []KeptTopic, rest []byte) {
	for range n {
		out = append(out, KeptTopic{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])})
		b = b[keptTopicSize:]
	}
	return out, b
}

func appendStores(b []byte, stores []KeptStore) []byte {
	b = binary.AppendUvarint(b, uint64(len(stores)))
	for n := range stores {
		for _, text := range stores[n].texts() {
			b = binary.AppendUvarint(b, uint64(len(*text)))
			b = append(b, *text...)
		}
		flags := byte(0)
		if stores[n].Source {
			flags = 1
		}
		b = append(b, flags)
	}
	return b
}

func decodeStores(b []byte) (out []KeptStore, rest []byte, ok bool) {
	number := func() int {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > uint64(len(b)-n) {
			return -1
		}
		b = b[n:]
		return int(v)
	}
	count := number()
	if count < 0 {
		return nil, nil, false
	}
	for range count {
		var s KeptStore
		for _, text := range s.texts() {
			n := number()
			if n < 0 {
				return nil, nil, false
			}
			*text, b = string(b[:n]), b[n:]
		}
		if len(b) == 0 || b[0] > 1 {
			return nil, nil, false
		}
		s.Source, b = b[0] == 1, b[1:]
		out = append(out, s)
	}
	return out, b, true
}
