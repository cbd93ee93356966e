package rebalance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// The first byte of both messages is a version; docs/format/group-metadata.md
// describes the rest. A message that has nothing of the second is written in the
// first, which older releases read.
const (
	codecPlain = 1
	codecState = 2 // with Held, or Warm and Next
)

// ErrFormat is wrapped by the errors of the decoders.
var ErrFormat = errors.New("not tidegate's group metadata")

// Assigned is what the group's leader tells one member.
type Assigned struct {
	// Tasks are those that this member shall run, sorted.
	Tasks []ids.TaskID
	// Members are all members of the group, sorted: R26 counts an instance
	// that is not among them as lost.
	Members []ids.InstanceID
	// Generation is the largest generation that a member reported when it
	// joined: this assignment is of a later one.
	Generation int32
	// Fingerprint is the topology fingerprint that all members have.
	Fingerprint string
	// Warm are tasks that this member shall follow, sorted: it gets them when it
	// is nearly as far as their owners, and joins again then.
	Warm []ids.TaskID
	// Next are tasks that it shall go on following, sorted: it gets them as soon
	// as their owners have closed them.
	Next []ids.TaskID
}

// AppendMember appends the user data with which a member joins the group.
func AppendMember(dst []byte, m Member) []byte {
	version := byte(codecPlain)
	if len(m.Held) > 0 {
		version = codecState
	}
	dst = append(dst, version)
	dst = appendInstance(dst, m.Instance)
	dst = binary.AppendUvarint(dst, uint64(uint32(m.Generation)))
	var flags byte
	if m.Leaving {
		flags |= 1
	}
	dst = append(dst, flags)
	dst = appendString(dst, m.Fingerprint)
	dst = appendTasks(dst, m.Owned)
	names := make([]string, 0, len(m.Tags))
	for k := range m.Tags {
		names = append(names, k)
	}
	slices.Sort(names)
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	for _, k := range names {
		dst = appendString(appendString(dst, k), m.Tags[k])
	}
	if version < codecState {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.Held)))
	for _, h := range m.Held {
		dst = appendTask(dst, h.Task)
		dst = binary.AppendUvarint(dst, uint64(h.Size))
		dst = binary.AppendUvarint(dst, uint64(h.Behind))
	}
	return dst
}

// DecodeMember is the inverse of AppendMember. Its errors wrap ErrFormat.
func DecodeMember(b []byte) (Member, error) {
	d := decoder{b: b}
	version := d.version()
	m := Member{Instance: d.instance(), Generation: int32(d.number(math.MaxUint32))}
	flags := d.byte()
	if flags > 1 {
		d.fail("flags %d", flags)
	}
	m.Leaving = flags&1 != 0
	m.Fingerprint = d.string()
	m.Owned = d.tasks()
	for n := d.count(2); n > 0; n-- {
		if m.Tags == nil {
			m.Tags = map[string]string{}
		}
		k := d.string()
		m.Tags[k] = d.string()
	}
	if version >= codecState {
		for n := d.count(4); n > 0; n-- {
			m.Held = append(m.Held, Held{Task: d.task(), Size: int64(d.number(math.MaxInt64)), Behind: int64(d.number(math.MaxInt64))})
		}
	}
	return m, d.end("member")
}

// AppendAssigned appends the user data of an assignment.
func AppendAssigned(dst []byte, a Assigned) []byte {
	version := byte(codecPlain)
	if len(a.Warm)+len(a.Next) > 0 {
		version = codecState
	}
	dst = append(dst, version)
	dst = binary.AppendUvarint(dst, uint64(uint32(a.Generation)))
	dst = appendString(dst, a.Fingerprint)
	dst = appendTasks(dst, a.Tasks)
	dst = binary.AppendUvarint(dst, uint64(len(a.Members)))
	for _, m := range a.Members {
		dst = appendInstance(dst, m)
	}
	if version >= codecState {
		dst = appendTasks(appendTasks(dst, a.Warm), a.Next)
	}
	return dst
}

// DecodeAssigned is the inverse of AppendAssigned. Its errors wrap ErrFormat.
func DecodeAssigned(b []byte) (Assigned, error) {
	d := decoder{b: b}
	version := d.version()
	a := Assigned{Generation: int32(d.number(math.MaxUint32)), Fingerprint: d.string(), Tasks: d.tasks()}
	for n := d.count(9); n > 0; n-- {
		a.Members = append(a.Members, d.instance())
	}
	if version >= codecState {
		a.Warm, a.Next = d.tasks(), d.tasks()
	}
	return a, d.end("assignment")
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendInstance(dst []byte, i ids.InstanceID) []byte {
	return binary.BigEndian.AppendUint64(appendString(dst, i.Name), i.Rand)
}

func appendTasks(dst []byte, tasks []ids.TaskID) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(tasks)))
	for _, t := range tasks {
		dst = appendTask(dst, t)
	}
	return dst
}

func appendTask(dst []byte, t ids.TaskID) []byte {
	dst = binary.AppendUvarint(dst, uint64(uint32(t.Sub)))
	return binary.AppendUvarint(dst, uint64(uint32(t.Partition)))
}

// decoder keeps its first error; after it, everything reads as zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
	d.b = nil
}

func (d *decoder) end(what string) error {
	if d.err == nil && len(d.b) > 0 {
		d.fail("%d bytes too many", len(d.b))
	}
	if d.err != nil {
		return fmt.Errorf("decode group %s: %w: %w", what, d.err, ErrFormat)
	}
	return nil
}

func (d *decoder) version() byte {
	v := d.byte()
	if d.err == nil && v != codecPlain && v != codecState {
		d.fail("version %d, this release knows %d and %d", v, codecPlain, codecState)
	}
	return v
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail("it ends too early")
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) number(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > limit {
		d.fail("bad number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads the length of a list whose entries take at least size bytes, so
// that a wrong length cannot ask for memory.
func (d *decoder) count(size int) int { return int(d.number(uint64(len(d.b) / size))) }

func (d *decoder) bytes(n int) []byte {
	if n > len(d.b) {
		d.fail("it ends too early")
		return make([]byte, n)
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) string() string { return string(d.bytes(d.count(1))) }

func (d *decoder) instance() ids.InstanceID {
	name := d.string()
	return ids.InstanceID{Name: name, Rand: binary.BigEndian.Uint64(d.bytes(8))}
}

func (d *decoder) tasks() []ids.TaskID {
	var out []ids.TaskID
	for n := d.count(2); n > 0; n-- {
		out = append(out, d.task())
	}
	return out
}

func (d *decoder) task() ids.TaskID {
	sub := int32(d.number(math.MaxInt32))
	return ids.TaskID{Sub: sub, Partition: int32(d.number(math.MaxInt32))}
}
