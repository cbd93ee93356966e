package rebalance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// codecVersion is the first byte of both messages as they are written;
// docs/format/group-metadata.md describes the rest. Version 1, which had no held
// state, no standbys and longer lists, is still read.
const codecVersion = 2

// maxTasks bounds the tasks of one message: a run of many takes few bytes.
const maxTasks = 1 << 17

// ErrFormat is wrapped by the errors of the decoders.
var ErrFormat = errors.New("not tidegate's group metadata")

// Assigned is what the group's leader tells one member.
type Assigned struct {
	// Tasks are those that this member shall run, sorted.
	Tasks []ids.TaskID
	// Standbys are those whose state this member shall keep a copy of, sorted.
	Standbys []ids.TaskID
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
	dst = append(dst, codecVersion)
	dst = appendInstance(dst, m.Instance)
	dst = binary.AppendUvarint(dst, uint64(uint32(m.Generation)))
	var flags byte
	if m.Leaving {
		flags |= 1
	}
	dst = append(dst, flags)
	dst = appendString(dst, m.Fingerprint)
	dst = appendTasks(dst, m.Owned)
	dst = appendHeld(dst, m.Held)
	names := make([]string, 0, len(m.Tags))
	for k := range m.Tags {
		names = append(names, k)
	}
	slices.Sort(names)
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	for _, k := range names {
		dst = appendString(appendString(dst, k), m.Tags[k])
	}
	return dst
}

// DecodeMember is the inverse of AppendMember. Its errors wrap ErrFormat.
func DecodeMember(b []byte) (Member, error) {
	d := decoder{b: b}
	d.start()
	m := Member{Instance: d.instance(), Generation: int32(d.number(math.MaxUint32))}
	flags := d.byte()
	if flags > 1 {
		d.fail("flags %d", flags)
	}
	m.Leaving = flags&1 != 0
	m.Fingerprint = d.string()
	m.Owned = d.tasks()
	m.Held = d.held()
	for n := d.count(2); n > 0; n-- {
		if m.Tags == nil {
			m.Tags = map[string]string{}
		}
		k := d.string()
		m.Tags[k] = d.string()
	}
	return m, d.end("member")
}

// AppendAssigned appends the user data of an assignment.
func AppendAssigned(dst []byte, a Assigned) []byte {
	dst = append(dst, codecVersion)
	dst = binary.AppendUvarint(dst, uint64(uint32(a.Generation)))
	dst = appendString(dst, a.Fingerprint)
	dst = appendTasks(dst, a.Tasks)
	for _, list := range [][]ids.TaskID{a.Standbys, a.Warm, a.Next} {
		dst = appendTasks(dst, list)
	}
	dst = binary.AppendUvarint(dst, uint64(len(a.Members)))
	last := ""
	for _, m := range a.Members {
		same := commonPrefix(last, m.Name)
		dst = binary.AppendUvarint(dst, uint64(same))
		dst = appendString(dst, m.Name[same:])
		dst = binary.BigEndian.AppendUint64(dst, m.Rand)
		last = m.Name
	}
	return dst
}

// DecodeAssigned is the inverse of AppendAssigned. Its errors wrap ErrFormat.
func DecodeAssigned(b []byte) (Assigned, error) {
	d := decoder{b: b}
	d.start()
	a := Assigned{Generation: int32(d.number(math.MaxUint32)), Fingerprint: d.string(), Tasks: d.tasks()}
	if d.version >= 2 {
		a.Standbys, a.Warm, a.Next = d.tasks(), d.tasks(), d.tasks()
	}
	last := ""
	for n := d.count(9); n > 0; n-- {
		if d.version == 1 {
			a.Members = append(a.Members, d.instance())
			continue
		}
		last = last[:d.number(uint64(len(last)))] + d.string()
		if len(last) > maxName {
			d.fail("a name of %d bytes", len(last))
		}
		a.Members = append(a.Members, ids.InstanceID{Name: last, Rand: binary.BigEndian.Uint64(d.bytes(8))})
	}
	return a, d.end("assignment")
}

// maxName bounds an instance's name: names share their beginnings, so that a few
// bytes could ask for many long ones.
const maxName = 4096

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendInstance(dst []byte, i ids.InstanceID) []byte {
	return binary.BigEndian.AppendUint64(appendString(dst, i.Name), i.Rand)
}

// appendTasks writes runs of neighbouring partitions: subtopology, first
// partition, how many.
func appendTasks(dst []byte, tasks []ids.TaskID) []byte {
	runs := 0
	for i := range tasks {
		if i == 0 || !follows(tasks[i-1], tasks[i]) {
			runs++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(runs))
	for i := 0; i < len(tasks); {
		j := i + 1
		for j < len(tasks) && follows(tasks[j-1], tasks[j]) {
			j++
		}
		dst = binary.AppendUvarint(dst, uint64(uint32(tasks[i].Sub)))
		dst = binary.AppendUvarint(dst, uint64(uint32(tasks[i].Partition)))
		dst = binary.AppendUvarint(dst, uint64(j-i))
		i = j
	}
	return dst
}

func follows(a, b ids.TaskID) bool { return a.Sub == b.Sub && a.Partition+1 == b.Partition }

// appendHeld writes tasks, the largest position, and per task how far it is
// below that, its size, and what is yet to be read.
func appendHeld(dst []byte, held []Held) []byte {
	tasks := make([]ids.TaskID, len(held))
	last := int64(0)
	for i, h := range held {
		tasks[i] = h.Task
		last = max(last, h.Position)
	}
	dst = appendTasks(dst, tasks)
	dst = binary.AppendUvarint(dst, uint64(last))
	for _, h := range held {
		for _, n := range []int64{last - max(h.Position, 0), h.Size, h.Behind} {
			dst = binary.AppendUvarint(dst, uint64(max(n, 0)))
		}
	}
	return dst
}

// decoder keeps its first error; after it, everything reads as zero.
type decoder struct {
	b       []byte
	version byte
	err     error
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

// start reads the version.
func (d *decoder) start() {
	d.version = d.byte()
	if d.err == nil && d.version != 1 && d.version != codecVersion {
		d.fail("version %d, this release knows 1 and %d", d.version, codecVersion)
	}
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
	size := 3
	if d.version == 1 {
		size = 2
	}
	for n := d.count(size); n > 0; n-- {
		t := ids.TaskID{Sub: int32(d.number(math.MaxInt32)), Partition: int32(d.number(math.MaxInt32))}
		run := uint64(1)
		if d.version >= 2 {
			run = d.number(maxTasks)
		}
		if run == 0 || run > uint64(maxTasks-len(out)) || run-1 > uint64(math.MaxInt32-t.Partition) {
			d.fail("a run of %d tasks from %s", run, t)
			return nil
		}
		for range run {
			out = append(out, t)
			t.Partition++
		}
	}
	return out
}

func (d *decoder) held() []Held {
	if d.version == 1 {
		return nil
	}
	tasks := d.tasks()
	last := d.number(math.MaxInt64)
	if len(tasks) > len(d.b)/3 {
		d.fail("it ends too early")
	}
	if d.err != nil || len(tasks) == 0 {
		return nil
	}
	out := make([]Held, len(tasks))
	for i, t := range tasks {
		out[i] = Held{
			Task: t, Position: int64(last - d.number(last)),
			Size: int64(d.number(math.MaxInt64)), Behind: int64(d.number(math.MaxInt64)),
		}
	}
	return out
}
