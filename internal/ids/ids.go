// Package ids holds the small values that the protocol packages share: names
// of tasks, instances, incarnations, checkpoints and transactions. It imports
// nothing of the project, so that packages which must not import each other
// can still speak of the same things.
package ids

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// TaskID names a task: subtopology Sub on partition Partition. It prints as
// "s_p", as Kafka Streams does.
type TaskID struct {
	Sub       int32 `json:"sub"`
	Partition int32 `json:"partition"`
}

// String returns "sub_partition".
func (t TaskID) String() string {
	return strconv.Itoa(int(t.Sub)) + "_" + strconv.Itoa(int(t.Partition))
}

// ParseTaskID is the inverse of TaskID.String.
func ParseTaskID(s string) (TaskID, error) {
	sub, part, ok := strings.Cut(s, "_")
	if ok {
		a, errA := strconv.ParseInt(sub, 10, 32)
		b, errB := strconv.ParseInt(part, 10, 32)
		if errA == nil && errB == nil && a >= 0 && b >= 0 {
			return TaskID{Sub: int32(a), Partition: int32(b)}, nil
		}
	}
	return TaskID{}, fmt.Errorf("task id %q: want two non-negative numbers joined by an underscore, as in 0_3", s)
}

// Compare orders tasks by subtopology, then partition.
func (t TaskID) Compare(o TaskID) int {
	if c := cmp.Compare(t.Sub, o.Sub); c != 0 {
		return c
	}
	return cmp.Compare(t.Partition, o.Partition)
}

// Incarnation is one life of a task. It is the offset of the control-log
// record (a Start, or the Complete of a handover) that made it, so it is never
// reused and any two are comparable.
type Incarnation int64

// CheckpointID is the offset of the checkpoint's Trigger in the control log.
// Checkpoint 0 is the empty one from which a life starts; offset 0 of the log
// is the Life record, so no Trigger can have it.
type CheckpointID int64

// NoCheckpoint says that there is no checkpoint.
const NoCheckpoint CheckpointID = -1

// Life is the random id of an application's state history: the first record of
// the control log.
type Life uint64

// String returns the life as 16 hexadecimal digits, as used in object names,
// transactional ids and offset metadata.
func (l Life) String() string { return fmt.Sprintf("%016x", uint64(l)) }

// ParseLife is the inverse of Life.String.
func ParseLife(s string) (Life, error) {
	if len(s) == 16 {
		if v, err := strconv.ParseUint(s, 16, 64); err == nil {
			return Life(v), nil
		}
	}
	return 0, fmt.Errorf("life %q: want 16 hexadecimal digits", s)
}

// InstanceID names one run of one process: a stable name plus a number drawn
// at its start. A restarted process is another instance.
type InstanceID struct {
	Name string `json:"name"`
	Rand uint64 `json:"rand"`
}

// String returns "name/rand" with rand as 16 hexadecimal digits.
func (i InstanceID) String() string { return fmt.Sprintf("%s/%016x", i.Name, i.Rand) }

// IsZero reports whether the id is unset.
func (i InstanceID) IsZero() bool { return i == InstanceID{} }

// Compare orders instances by name, then number.
func (i InstanceID) Compare(o InstanceID) int {
	if c := cmp.Compare(i.Name, o.Name); c != 0 {
		return c
	}
	return cmp.Compare(i.Rand, o.Rand)
}

// TopicPartition names a partition of a topic.
type TopicPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// String returns "topic-partition", as Kafka prints it.
func (p TopicPartition) String() string { return p.Topic + "-" + strconv.Itoa(int(p.Partition)) }

// Compare orders by topic, then partition.
func (p TopicPartition) Compare(o TopicPartition) int {
	if c := cmp.Compare(p.Topic, o.Topic); c != 0 {
		return c
	}
	return cmp.Compare(p.Partition, o.Partition)
}

// TxnHandle names one transaction for ever: R20 gives every transaction its
// own InitProducerId, so (producer id, epoch) is used by one transaction only.
type TxnHandle struct {
	TransactionalID string `json:"id"`
	ProducerID      int64  `json:"pid"`
	ProducerEpoch   int16  `json:"epoch"`
}

// String returns "id(pid,epoch)".
func (h TxnHandle) String() string {
	return fmt.Sprintf("%s(%d,%d)", h.TransactionalID, h.ProducerID, h.ProducerEpoch)
}
