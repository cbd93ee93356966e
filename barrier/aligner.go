package barrier

import "github.com/tidegate/tidegate/internal/ids"

// Verdict says what a task does with a segment at the head of a partition's
// queue.
type Verdict uint8

// The verdicts.
const (
	// Deliver: process it (data), or it has been applied (barrier), or apply
	// it to Times (time). The channel's position moved behind it.
	Deliver Verdict = iota
	// Hold: keep it aside, in order, until Release.
	Hold
	// Drop: forget it; it is read again after Release says from where.
	Drop
	// Skip: forget it for ever (another life, a void incarnation, or already
	// processed); counted in Stats.
	Skip
	// Stop: leave it at the head and take nothing from this partition until
	// SetLog moved the position past it (R6).
	Stop
)

// AlignInput is one repartition partition that a task reads.
type AlignInput struct {
	Partition ids.TopicPartition
	Forward   TaskSet // upstream tasks whose barriers are awaited
	Cycle     TaskSet // upstream tasks over back edges of the graph (R9, R10)
}

// ChannelPosition is the position of one channel that differs from its
// partition's common one.
type ChannelPosition struct {
	Task   ids.TaskID       `json:"task"`
	Inc    ids.Incarnation  `json:"inc"`
	Offset int64            `json:"offset"` // of the last record taken
	Passed ids.CheckpointID `json:"passed"` // last barrier passed, -1 if none
}

// PartitionPosition is the position of a task in one repartition partition, as
// a checkpoint stores it. Reading goes on at Next. A channel that is not
// listed has taken everything below Next, and stands in incarnation Inc,
// barrier Passed.
type PartitionPosition struct {
	Partition ids.TopicPartition `json:"partition"`
	Next      int64              `json:"next"`
	Inc       ids.Incarnation    `json:"inc"`
	Passed    ids.CheckpointID   `json:"passed"`
	Channels  []ChannelPosition  `json:"channels,omitempty"` // sorted by task
}

// AlignStats counts what was skipped, held and dropped.
type AlignStats struct {
	SkippedLife, SkippedIncarnation, SkippedPosition int64 // records
	HeldBytes                                        int64 // now
	DroppedBytes                                     int64 // since the start
}

// AlignConfig configures an Aligner.
type AlignConfig struct {
	Life      ids.Life
	Inputs    []AlignInput
	Lineages  Lineages
	Positions []PartitionPosition // where the checkpoint left off; one per input
	LogEnd    int64               // position in the control log
	HoldLimit int64               // bytes; 0 means 16 MiB
	Rules     Rules
}

// Aligner is the input side of the protocol for one task.
type Aligner struct{ _ AlignConfig }

// NewAligner fails when a position is missing.
func NewAligner(cfg AlignConfig) (*Aligner, error) { return &Aligner{}, nil }

// Offer asks what to do with the segment at the head of input's queue.
// aligned is true when this segment was the last barrier that the running
// checkpoint waited for: the task now takes its snapshot and calls Snapshotted.
func (a *Aligner) Offer(input int, s *Segment) (v Verdict, aligned bool) { return Deliver, false }

// Trigger begins the alignment of n; it returns true when the task takes its
// snapshot at once (no forward channels).
func (a *Aligner) Trigger(n ids.CheckpointID) (aligned bool) { return true }

// Reread says that an input is read again from Offset.
type Reread struct {
	Input  int
	Offset int64
}

// Snapshotted says that the task took its snapshot of the running checkpoint.
// Held segments go back to the heads of their queues; for each Reread the task
// first empties the queue behind the held segments and seeks.
func (a *Aligner) Snapshotted() []Reread { return nil }

// Decided says how n ended; if its alignment is under way it is given up, as by
// Snapshotted.
func (a *Aligner) Decided(n ids.CheckpointID) (released bool, again []Reread) { return false, nil }

// SetLog moves the position in the control log; it returns true when a
// partition that a Stop halted may go on.
func (a *Aligner) SetLog(end int64) bool { return false }

// Aligning returns the checkpoint whose barriers are awaited.
func (a *Aligner) Aligning() (ids.CheckpointID, bool) { return ids.NoCheckpoint, false }

// Waiting reports whether all channels of the input wait: R13 does not wait
// for such an input.
func (a *Aligner) Waiting(input int) bool { return false }

// MinHeld returns the smallest timestamp among the waiting records: no
// external record above it is taken (R9).
func (a *Aligner) MinHeld() (ts int64, ok bool) { return 0, false }

// Positions returns the positions to store at the task's snapshot, one per
// input, in order.
func (a *Aligner) Positions() []PartitionPosition { return nil }

// Stats returns counters.
func (a *Aligner) Stats() AlignStats { return AlignStats{} }
