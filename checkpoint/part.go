package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// FileRef says where the bytes of one local file of a task's state are.
type FileRef struct {
	// Name is the file's name in the task's state folder.
	Name string `json:"name"`
	Size int64  `json:"size"`
	// CRC is CRC-32C (Castagnoli) over the file's bytes.
	CRC uint32 `json:"crc"`
	// Key names the object; the file is its bytes [Offset, Offset+Size).
	Key    string `json:"key"`
	Offset int64  `json:"offset,omitempty"`
	// Packed is the size of the whole object when the file shares it with
	// others, 0 when the object is the file. Repacking needs it.
	Packed int64 `json:"packed,omitempty"`
	// Immutable files may be referenced by later checkpoints.
	Immutable bool `json:"immutable,omitempty"`
}

// StoreInfo describes one named store within a task's state. A restore refuses
// a store whose serde fingerprints differ from the topology's.
type StoreInfo struct {
	Name string `json:"name"`
	// Operator is the stable name of the operator that owns the store.
	Operator string `json:"operator,omitempty"`
	// Kind is the store's layout: "kv", "window", …
	Kind  string `json:"kind,omitempty"`
	Key   string `json:"key,omitempty"`   // serde fingerprint of keys
	Value string `json:"value,omitempty"` // serde fingerprint of values
}

// ExternalOffset is the next offset to read of an external input partition.
type ExternalOffset struct {
	ids.TopicPartition
	Offset int64 `json:"offset"`
}

// TaskPart is one task's share of a checkpoint.
type TaskPart struct {
	Task        ids.TaskID      `json:"task"`
	Incarnation ids.Incarnation `json:"incarnation"`
	// Base is the checkpoint whose files were referenced; ids.NoCheckpoint for
	// none. It is informational: references carry whole keys.
	Base  ids.CheckpointID `json:"base"`
	Files []FileRef        `json:"files,omitempty"`
	// Stores are sorted by name.
	Stores []StoreInfo `json:"stores,omitempty"`
	// StreamTime in milliseconds; the smallest int64 before any record.
	StreamTime int64 `json:"streamTime"`
	// Times holds per-input times and idle flags, Timers the pending timers,
	// Positions how far each channel of each repartition partition was read
	// (barrier.TimesState and []barrier.PartitionPosition as JSON): bytes that
	// only the task's own code reads.
	Times     []byte           `json:"times,omitempty"`
	Timers    []byte           `json:"timers,omitempty"`
	Positions []byte           `json:"positions,omitempty"`
	External  []ExternalOffset `json:"external,omitempty"`
}

// Part is what one instance stores for one checkpoint and names in its ack:
// all its tasks (R16). It is stored once and never changed.
type Part struct {
	App        string           `json:"app"`
	Life       ids.Life         `json:"life"`
	Checkpoint ids.CheckpointID `json:"checkpoint"`
	Instance   ids.InstanceID   `json:"instance"`
	// Tasks are sorted by task id.
	Tasks []TaskPart `json:"tasks"`
}

// Task returns the entry of a task.
func (p *Part) Task(t ids.TaskID) (*TaskPart, bool) {
	i, ok := slices.BinarySearchFunc(p.Tasks, t, func(e TaskPart, t ids.TaskID) int { return e.Task.Compare(t) })
	if !ok {
		return nil, false
	}
	return &p.Tasks[i], true
}

// Sort brings lists into the order that Encode demands.
func (p *Part) Sort() {
	slices.SortFunc(p.Tasks, func(a, b TaskPart) int { return a.Task.Compare(b.Task) })
	for i := range p.Tasks {
		t := &p.Tasks[i]
		slices.SortFunc(t.Files, compareFiles)
		slices.SortFunc(t.Stores, func(a, b StoreInfo) int { return cmp.Compare(a.Name, b.Name) })
		slices.SortFunc(t.External, compareExternal)
	}
}

// Encode returns the object's bytes. It fails on a part that Decode would
// refuse, so that a mistake is found before the ack and not at the restore.
func (p *Part) Encode() ([]byte, error) {
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("encode part of checkpoint %d: %w", p.Checkpoint, err)
	}
	return encodeEnvelope(envelopePart, p)
}

// DecodePart is the inverse of Part.Encode. It is strict; see
// docs/format/part.md.
func DecodePart(b []byte) (Part, error) {
	var p Part
	if err := decodeEnvelope(envelopePart, b, &p); err != nil {
		return Part{}, err
	}
	if err := p.validate(); err != nil {
		return Part{}, err
	}
	return p, nil
}

func (p *Part) validate() error {
	if p.App == "" || p.Checkpoint < 0 {
		return errors.New("a part needs an application and a checkpoint")
	}
	if !ascending(p.Tasks, func(a, b TaskPart) int { return a.Task.Compare(b.Task) }) {
		return errors.New("tasks are not sorted, or one is listed twice")
	}
	for i := range p.Tasks {
		if err := p.Tasks[i].validate(); err != nil {
			return fmt.Errorf("task %s: %w", p.Tasks[i].Task, err)
		}
	}
	return nil
}

func (t *TaskPart) validate() error {
	if t.Task.Sub < 0 || t.Task.Partition < 0 || t.Incarnation < 0 || t.Base < ids.NoCheckpoint {
		return errors.New("a negative id")
	}
	if !ascending(t.Files, compareFiles) {
		return errors.New("files are not sorted by name, or one is listed twice")
	}
	for _, f := range t.Files {
		if err := f.validate(); err != nil {
			return fmt.Errorf("file %q: %w", f.Name, err)
		}
	}
	if !ascending(t.Stores, func(a, b StoreInfo) int { return cmp.Compare(a.Name, b.Name) }) {
		return errors.New("stores are not sorted by name, or one is listed twice")
	}
	if !ascending(t.External, compareExternal) {
		return errors.New("external offsets are not sorted, or one is listed twice")
	}
	return validExternal(t.External)
}

func (f *FileRef) validate() error {
	if err := validFileName(f.Name); err != nil {
		return err
	}
	if _, err := ParseName(f.Key); err != nil {
		return err
	}
	if f.Size < 0 || f.Offset < 0 || f.Packed < 0 {
		return errors.New("a negative size")
	}
	switch {
	case f.Packed == 0 && f.Offset != 0:
		return errors.New("an offset in an object that is not a pack")
	case f.Packed != 0 && (f.Offset > f.Packed || f.Size > f.Packed-f.Offset):
		return errors.New("it ends behind its pack")
	}
	return nil
}

// validFileName keeps a damaged or forged part from writing outside the
// folder that a restore fills.
func validFileName(name string) error {
	if name == "" || len(name) > 255 || name == "." || name == ".." {
		return errors.New("not a file name")
	}
	for i := range len(name) {
		if c := name[i]; c == '/' || c == '\\' || c == 0 {
			return errors.New("a file name must not have a path")
		}
	}
	return nil
}

func validExternal(list []ExternalOffset) error {
	for _, e := range list {
		if e.Topic == "" || e.Partition < 0 || e.Offset < 0 {
			return fmt.Errorf("external offset %s: not a position", e.TopicPartition)
		}
	}
	return nil
}

func compareFiles(a, b FileRef) int { return cmp.Compare(a.Name, b.Name) }

func compareExternal(a, b ExternalOffset) int { return a.TopicPartition.Compare(b.TopicPartition) }

// ascending reports whether list is sorted without equal neighbours.
func ascending[T any](list []T, compare func(a, b T) int) bool {
	for i := 1; i < len(list); i++ {
		if compare(list[i-1], list[i]) >= 0 {
			return false
		}
	}
	return true
}
