package changelog

import (
	"encoding/binary"
	"fmt"
	"time"
)

// positionsName is the store in which a task's engine keeps the positions; no
// user's store can have it.
const positionsName = "~changelog"

// Position says up to where a store holds what its changelog says. It is
// written to the engine behind the changes that it covers. The format is in
// docs/format/changelog.md.
type Position struct {
	// Topic is the changelog topic's id: one that was made anew has another.
	Topic [16]byte
	// Next is the first offset that is not in the store.
	Next int64
	// At is when that was so. A compacted topic forgets tombstones after a while:
	// a store that was not followed for longer cannot be trusted.
	At time.Time
}

const (
	positionVersion = 1
	positionSize    = 1 + 16 + 8 + 8
)

// TombstonesKept is the delete.retention.ms of changelog topics.
const TombstonesKept = 24 * time.Hour

// reusableFor is how old a position may be: well below TombstonesKept, since
// compaction counts by another clock.
const reusableFor = TombstonesKept / 2

// AppendPosition appends the encoded position.
func AppendPosition(dst []byte, p Position) []byte {
	dst = append(dst, positionVersion)
	dst = append(dst, p.Topic[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.Next))
	return binary.BigEndian.AppendUint64(dst, uint64(p.At.UnixMilli()))
}

// DecodePosition is the inverse of AppendPosition.
func DecodePosition(b []byte) (p Position, err error) {
	if len(b) != positionSize || b[0] != positionVersion {
		return p, fmt.Errorf("a changelog position of %d bytes is not one of version %d", len(b), positionVersion)
	}
	copy(p.Topic[:], b[1:])
	p.Next = int64(binary.BigEndian.Uint64(b[17:]))
	p.At = time.UnixMilli(int64(binary.BigEndian.Uint64(b[25:])))
	if p.Next < 0 {
		return p, fmt.Errorf("a changelog position of %d", p.Next)
	}
	return p, nil
}

// Reusable says whether a store at this position may be followed on: "" or why
// not. start and end are the bounds of the changelog partition.
func (p Position) Reusable(topic [16]byte, start, end int64, now time.Time) string {
	switch {
	case p.Topic != topic:
		return "the changelog topic was made anew since"
	case p.Next > end:
		return fmt.Sprintf("it stands at offset %d, behind the changelog's end %d", p.Next, end)
	case p.Next < start:
		return fmt.Sprintf("it stands at offset %d, before the changelog's start %d", p.Next, start)
	case now.Sub(p.At) > reusableFor || p.At.Sub(now) > reusableFor:
		return fmt.Sprintf("it was last followed at %s: the changelog may have forgotten deletions since", p.At.UTC().Format(time.RFC3339))
	}
	return ""
}
