package barrier

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// ChannelPosition is the position of one channel that differs from its
// partition's common one.
type ChannelPosition struct {
	Task   ids.TaskID       `json:"task"`
	Inc    ids.Incarnation  `json:"inc"`
	Offset int64            `json:"offset"` // of the last record taken
	Passed ids.CheckpointID `json:"passed"` // last barrier passed in Inc, -1 if none
}

// PartitionPosition is the position of a task in one repartition partition, as
// a checkpoint stores it. Reading goes on at Next. A channel that is not
// listed has taken everything below Next, and stands in incarnation Inc,
// barrier Passed. With aligned checkpoints all channels of a partition share
// one position unless records waited behind a barrier.
type PartitionPosition struct {
	Partition ids.TopicPartition `json:"partition"`
	Next      int64              `json:"next"`
	Inc       ids.Incarnation    `json:"inc"`
	Passed    ids.CheckpointID   `json:"passed"`
	Channels  []ChannelPosition  `json:"channels,omitempty"` // sorted by task
}

// FirstPosition is a partition's position in checkpoint 0: nothing below end
// belongs to this life.
func FirstPosition(p ids.TopicPartition, end int64) PartitionPosition {
	return PartitionPosition{Partition: p, Next: end, Passed: ids.NoCheckpoint}
}

// Oldest returns the smallest incarnation that any channel of the positions
// stands in, for Ack.Oldest; def where there is none, or where def is smaller:
// the incarnation of DoTrigger, or the result for other tasks. A channel of which nothing
// was read yet (only a cycle channel can be so in a checkpoint) stands before
// all incarnations: nothing of the lineage may be forgotten for it.
func Oldest(positions []PartitionPosition, def ids.Incarnation) ids.Incarnation {
	const beforeAll ids.Incarnation = 1 // a Start comes behind Life and Register
	for _, p := range positions {
		def = min(def, max(p.Inc, beforeAll))
		for _, c := range p.Channels {
			def = min(def, max(c.Inc, beforeAll))
		}
	}
	return def
}

// InFlight reports whether a channel of the partition has not passed barrier
// n: its records from Next up to that barrier are in-flight data of checkpoint
// n, which a restore reads again (R10). Only cycle channels can be so, also one
// of which nothing was read yet. Before checkpoint 0 there is nothing.
func (p PartitionPosition) InFlight(n ids.CheckpointID) bool {
	if n > 0 && p.Passed < n {
		return true
	}
	for _, c := range p.Channels {
		if c.Passed < n {
			return true
		}
	}
	return false
}

// common finds the (incarnation, passed) that most of the channels stand in;
// the smaller one of two that are equally frequent.
func common(channels []channel) (ids.Incarnation, ids.CheckpointID) {
	type key struct {
		inc    ids.Incarnation
		passed ids.CheckpointID
	}
	if len(channels) == 0 {
		return 0, ids.NoCheckpoint
	}
	keys := make([]key, len(channels))
	for i := range channels {
		keys[i] = key{channels[i].inc, channels[i].passed}
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.inc, b.inc), cmp.Compare(a.passed, b.passed))
	})
	best, most := keys[0], 0
	for i := 0; i < len(keys); {
		j := i
		for j < len(keys) && keys[j] == keys[i] {
			j++
		}
		if j-i > most {
			best, most = keys[i], j-i
		}
		i = j
	}
	return best.inc, best.passed
}

// position returns the input's position in compact form.
func (in *alignInput) position() PartitionPosition {
	p := PartitionPosition{Partition: in.partition, Next: in.next()}
	p.Inc, p.Passed = common(in.channels)
	for i := range in.channels {
		c := &in.channels[i]
		if c.offset >= p.Next || c.inc != p.Inc || c.passed != p.Passed {
			p.Channels = append(p.Channels, ChannelPosition{Task: c.task, Inc: c.inc, Offset: c.offset, Passed: c.passed})
		}
	}
	return p
}

// restore puts the input at a stored position.
func (in *alignInput) restore(p PartitionPosition) error {
	in.scan = p.Next
	for i := range in.channels {
		in.channels[i].stand(p.Inc, p.Next-1, p.Passed)
	}
	for _, cp := range p.Channels {
		i, ok := in.find(cp.Task)
		if !ok {
			return fmt.Errorf("position of partition %s names task %s, which does not write to it: the checkpoint is of another topology", p.Partition, cp.Task)
		}
		in.channels[i].stand(cp.Inc, cp.Offset, cp.Passed)
	}
	return nil
}
