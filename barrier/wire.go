package barrier

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// errShort says that an encoding ends too early.
var errShort = errors.New("truncated")

// encoder appends primitive values. Integers are varints (signed ones zigzag),
// strings and lists carry their length, random 64-bit numbers are big-endian.
type encoder struct{ b []byte }

func (e *encoder) byte(v byte)      { e.b = append(e.b, v) }
func (e *encoder) uvarint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) varint(v int64)   { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) fixed(v uint64)   { e.b = binary.BigEndian.AppendUint64(e.b, v) }

func (e *encoder) string(s string) {
	e.uvarint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) bool(v bool) {
	if v {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func (e *encoder) strings(s []string) {
	e.uvarint(uint64(len(s)))
	for _, v := range s {
		e.string(v)
	}
}

func (e *encoder) instance(i ids.InstanceID) {
	e.string(i.Name)
	e.fixed(i.Rand)
}

func (e *encoder) instances(s []ids.InstanceID) {
	e.uvarint(uint64(len(s)))
	for _, i := range s {
		e.instance(i)
	}
}

func (e *encoder) handle(h ids.TxnHandle) {
	e.string(h.TransactionalID)
	e.varint(h.ProducerID)
	e.varint(int64(h.ProducerEpoch))
}

// tasks writes a sorted set as runs of consecutive partitions: per
// subtopology its number and the runs, a run as (distance from the end of the
// one before, length - 1). A task that stands alone costs two bytes.
func (e *encoder) tasks(s TaskSet) {
	subs := 0
	for i := range s {
		if i == 0 || s[i].Sub != s[i-1].Sub {
			subs++
		}
	}
	e.uvarint(uint64(subs))
	for i := 0; i < len(s); {
		j, runs := i, 0
		for ; j < len(s) && s[j].Sub == s[i].Sub; j++ {
			if j == i || s[j].Partition != s[j-1].Partition+1 {
				runs++
			}
		}
		e.uvarint(uint64(uint32(s[i].Sub)))
		e.uvarint(uint64(runs))
		next := int32(0)
		for i < j {
			k := i + 1
			for k < j && s[k].Partition == s[k-1].Partition+1 {
				k++
			}
			e.uvarint(uint64(uint32(s[i].Partition - next)))
			e.uvarint(uint64(k - i - 1))
			next = s[k-1].Partition + 1
			i = k
		}
	}
}

// decoder reads what encoder wrote. After the first error all reads return
// zero values; the caller asks err once.
type decoder struct {
	b      []byte
	err    error
	tasked int // tasks in all sets so far
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail(errShort)
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) bool() bool {
	switch d.byte() {
	case 0:
		return false
	case 1:
		return true
	}
	d.fail(errors.New("a flag is neither 0 nor 1"))
	return false
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) fixed() uint64 {
	if len(d.b) < 8 {
		d.fail(errShort)
		return 0
	}
	v := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

// count reads the length of a list whose items take at least min bytes each,
// so that a corrupt length cannot make the reader allocate.
func (d *decoder) count(min int) int {
	n := d.uvarint()
	if n > uint64(len(d.b)/min) {
		d.fail(errShort)
		return 0
	}
	return int(n)
}

func (d *decoder) string() string {
	n := d.count(1)
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) strings() []string {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = d.string()
	}
	return out
}

func (d *decoder) int32() int32 {
	v := d.uvarint()
	if v > math.MaxInt32 {
		d.fail(fmt.Errorf("number %d does not fit into 31 bits", v))
		return 0
	}
	return int32(v)
}

// offset reads a control-log offset: an incarnation or a checkpoint.
func (d *decoder) offset() int64 {
	v := d.varint()
	if v < -1 {
		d.fail(fmt.Errorf("offset %d is negative", v))
		return 0
	}
	return v
}

func (d *decoder) instance() ids.InstanceID {
	return ids.InstanceID{Name: d.string(), Rand: d.fixed()}
}

func (d *decoder) instances() []ids.InstanceID {
	n := d.count(9)
	if n == 0 {
		return nil
	}
	out := make([]ids.InstanceID, n)
	for i := range out {
		out[i] = d.instance()
	}
	if !slices.IsSortedFunc(out, ids.InstanceID.Compare) {
		d.fail(errors.New("a list of instances is not sorted"))
	}
	return out
}

func (d *decoder) handle() ids.TxnHandle {
	h := ids.TxnHandle{TransactionalID: d.string(), ProducerID: d.varint()}
	epoch := d.varint()
	if epoch < math.MinInt16 || epoch > math.MaxInt16 {
		d.fail(fmt.Errorf("producer epoch %d is out of range", epoch))
	}
	h.ProducerEpoch = int16(epoch)
	return h
}

// maxTasks bounds the tasks of one decoded set, maxAllTasks those of all sets of
// one record or state.
const (
	maxTasks    = 1 << 20
	maxAllTasks = 1 << 22
)

func (d *decoder) tasks() TaskSet {
	var out TaskSet
	subs := d.count(2)
	last := int64(-1)
	for range subs {
		sub := d.int32()
		if int64(sub) <= last {
			d.fail(errors.New("task set is not sorted"))
			return nil
		}
		last = int64(sub)
		next := int64(0)
		for range d.count(2) {
			first := next + int64(d.int32())
			n := int64(d.int32()) + 1
			next = first + n
			if d.tasked += int(n); next > math.MaxInt32 || len(out)+int(n) > maxTasks || d.tasked > maxAllTasks {
				d.fail(errors.New("task set is too large"))
				return nil
			}
			for p := first; p < next && d.err == nil; p++ {
				out = append(out, ids.TaskID{Sub: sub, Partition: int32(p)})
			}
		}
	}
	return out
}

// end fails unless everything was read.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail(fmt.Errorf("%d bytes too many", len(d.b)))
	}
	return d.err
}
