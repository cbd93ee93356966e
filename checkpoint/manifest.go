package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
)

// ClosedPair is one entry of a lineage: the records of Incarnation up to the
// barrier of checkpoint End are valid (R6).
type ClosedPair struct {
	Incarnation ids.Incarnation  `json:"incarnation"`
	End         ids.CheckpointID `json:"end"`
}

// Lineage is one upstream task's lineage as of the checkpoint. The control log
// decides; the manifest repeats it.
type Lineage struct {
	Task   ids.TaskID      `json:"task"`
	Closed []ClosedPair    `json:"closed,omitempty"`
	Open   ids.Incarnation `json:"open"`
}

// TaskEntry says which part object holds a task.
type TaskEntry struct {
	Task        ids.TaskID      `json:"task"`
	Incarnation ids.Incarnation `json:"incarnation"`
	Part        string          `json:"part"`
}

// OperatorInfo names an operator of the topology and the stores it owns, with
// their serde fingerprints.
type OperatorInfo struct {
	Name string `json:"name"`
	// Subs are the subtopologies that the operator runs in, ascending.
	Subs   []int32     `json:"subs,omitempty"`
	Stores []StoreInfo `json:"stores,omitempty"`
}

// TransactionInfo is one prepared transaction of an owner. It is a summary for
// people: recovery takes the handles from the acks in the control log, and a
// restore by key never uses them (R17).
type TransactionInfo struct {
	Owner  ids.InstanceID `json:"owner"`
	Handle ids.TxnHandle  `json:"handle"`
}

// TopicID is a topic's id at the time of the checkpoint: a topic that was
// deleted and created again has another one (R28, R29).
type TopicID struct {
	Topic string `json:"topic"`
	// ID is Kafka's topic id in its usual text form.
	ID string `json:"id"`
	// Internal is set for repartition topics.
	Internal   bool  `json:"internal,omitempty"`
	Partitions int32 `json:"partitions,omitempty"`
}

// Manifest describes one checkpoint. It is stored once under (life, checkpoint,
// term) before the decision (R17) and is a checkpoint only if the control log
// holds a valid Complete that names it.
type Manifest struct {
	App        string           `json:"app"`
	Life       ids.Life         `json:"life"`
	Checkpoint ids.CheckpointID `json:"checkpoint"`
	Term       int64            `json:"term"`
	// Topology is the topology's fingerprint.
	Topology string `json:"topology"`
	// Aligned is false when channels have in-flight records (R10); such a
	// checkpoint does not start another topology (R24).
	Aligned bool `json:"aligned"`
	// Created is informational: milliseconds since the epoch.
	Created int64 `json:"created"`

	Operators    []OperatorInfo    `json:"operators,omitempty"`    // by name
	Tasks        []TaskEntry       `json:"tasks,omitempty"`        // by task
	External     []ExternalOffset  `json:"external,omitempty"`     // by partition
	Lineages     []Lineage         `json:"lineages,omitempty"`     // by task
	Transactions []TransactionInfo `json:"transactions,omitempty"` // by owner, then as acked
	Topics       []TopicID         `json:"topics,omitempty"`       // by topic
	// Seed is the checkpoint of an earlier life with whose state this life began;
	// only in checkpoint 0.
	Seed *Seed `json:"seed,omitempty"`
	// Ends are the end offsets of repartition partitions, for checkpoint 0 (R24).
	Ends []ExternalOffset `json:"ends,omitempty"` // by partition
}

// Seed names a marked checkpoint of an earlier life, and which of its tasks a task
// begins with: those of the same partition of another subtopology.
type Seed struct {
	Life       ids.Life         `json:"life"`
	Checkpoint ids.CheckpointID `json:"checkpoint"`
	Manifest   string           `json:"manifest"`
	Subs       []SeedSub        `json:"subs,omitempty"` // by sub
}

// SeedSub says which subtopology of the earlier life Sub goes on from.
type SeedSub struct {
	Sub  int32 `json:"sub"`
	From int32 `json:"from"`
}

// CreatedAt returns Created as a time in UTC.
func (m *Manifest) CreatedAt() time.Time { return time.UnixMilli(m.Created).UTC() }

// Task returns the entry of a task.
func (m *Manifest) Task(t ids.TaskID) (TaskEntry, bool) {
	i, ok := slices.BinarySearchFunc(m.Tasks, t, func(e TaskEntry, t ids.TaskID) int { return e.Task.Compare(t) })
	if !ok {
		return TaskEntry{}, false
	}
	return m.Tasks[i], true
}

// Parts returns the keys of the part objects, sorted, each once.
func (m *Manifest) Parts() []string {
	keys := make([]string, 0, len(m.Tasks))
	for _, t := range m.Tasks {
		keys = append(keys, t.Part)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// AddPart adds the tasks and external offsets of a part that an instance acked
// under key. It refuses a part of another checkpoint and what is there already:
// two instances that both claim a task or partition must not become a
// checkpoint.
func (m *Manifest) AddPart(key string, p Part) error {
	if p.App != m.App || p.Life != m.Life || p.Checkpoint != m.Checkpoint {
		return fmt.Errorf("part %s is of %s/%s checkpoint %d, the manifest of %s/%s checkpoint %d",
			key, p.App, p.Life, p.Checkpoint, m.App, m.Life, m.Checkpoint)
	}
	for _, t := range p.Tasks {
		m.Tasks = append(m.Tasks, TaskEntry{Task: t.Task, Incarnation: t.Incarnation, Part: key})
		m.External = append(m.External, t.External...)
	}
	m.Sort()
	return m.validate()
}

// Carry adds tasks that took no part in this checkpoint, as base holds them: their
// parts, and where their external inputs stand (R26).
func (m *Manifest) Carry(base Manifest, tasks []ids.TaskID, load func(key string) (Part, error)) error {
	parts := map[string]Part{}
	for _, t := range tasks {
		entry, ok := base.Task(t)
		if !ok {
			return fmt.Errorf("checkpoint %d holds no task %s, which checkpoint %d shall hold as it did", base.Checkpoint, t, m.Checkpoint)
		}
		p, ok := parts[entry.Part]
		if !ok {
			var err error
			if p, err = load(entry.Part); err != nil {
				return err
			}
			parts[entry.Part] = p
		}
		part, ok := p.Task(t)
		if !ok {
			return fmt.Errorf("part %s holds no task %s, though the manifest of checkpoint %d says so", entry.Part, t, base.Checkpoint)
		}
		m.Tasks = append(m.Tasks, entry)
		m.External = append(m.External, part.External...)
	}
	m.Sort()
	return m.validate()
}

// Lists reports whether the manifest takes a task from the part under key. A part
// may hold others, of which there are newer ones.
func (m *Manifest) Lists(t ids.TaskID, key string) bool {
	e, ok := m.Task(t)
	return ok && e.Part == key
}

// Sort brings lists into the order that Encode demands.
func (m *Manifest) Sort() {
	slices.SortFunc(m.Operators, compareOperators)
	for i := range m.Operators {
		slices.Sort(m.Operators[i].Subs)
		slices.SortFunc(m.Operators[i].Stores, func(a, b StoreInfo) int { return cmp.Compare(a.Name, b.Name) })
	}
	slices.SortFunc(m.Tasks, compareEntries)
	slices.SortFunc(m.External, compareExternal)
	slices.SortFunc(m.Ends, compareExternal)
	slices.SortFunc(m.Lineages, compareLineages)
	slices.SortFunc(m.Topics, compareTopics)
	slices.SortStableFunc(m.Transactions, func(a, b TransactionInfo) int { return a.Owner.Compare(b.Owner) })
}

// Encode returns the object's bytes; it fails on a manifest that Decode would
// refuse.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.validate(); err != nil {
		return nil, fmt.Errorf("encode manifest of checkpoint %d: %w", m.Checkpoint, err)
	}
	return encodeEnvelope(envelopeManifest, m)
}

// DecodeManifest is the inverse of Manifest.Encode. It is strict; see
// docs/format/manifest.md.
func DecodeManifest(b []byte) (Manifest, error) {
	var m Manifest
	if err := decodeEnvelope(envelopeManifest, b, &m); err != nil {
		return Manifest{}, err
	}
	if err := m.validate(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

func (m *Manifest) validate() error {
	switch {
	case m.App == "" || m.Checkpoint < 0 || m.Term < 0:
		return errors.New("a manifest needs an application, a checkpoint and a term")
	case !ascending(m.Operators, compareOperators):
		return errors.New("operators are not sorted by name, or one is listed twice")
	case !ascending(m.Tasks, compareEntries):
		return errors.New("tasks are not sorted, or one is listed twice")
	case !ascending(m.External, compareExternal):
		return errors.New("external offsets are not sorted, or two tasks read one partition")
	case !ascending(m.Ends, compareExternal):
		return errors.New("end offsets are not sorted, or one is listed twice")
	case !ascending(m.Lineages, compareLineages):
		return errors.New("lineages are not sorted, or one is listed twice")
	case !ascending(m.Topics, compareTopics):
		return errors.New("topics are not sorted, or one is listed twice")
	}
	if m.Seed != nil && (m.Checkpoint != 0 || m.Seed.Manifest == "" || !ascending(m.Seed.Subs, func(a, b SeedSub) int { return cmp.Compare(a.Sub, b.Sub) })) {
		return errors.New("only checkpoint 0 begins with another life's state, from sorted subtopologies")
	}
	for _, t := range m.Tasks {
		if _, err := ParseName(t.Part); err != nil {
			return fmt.Errorf("task %s: %w", t.Task, err)
		}
	}
	for _, l := range m.Lineages {
		if !ascending(l.Closed, func(a, b ClosedPair) int { return cmp.Compare(a.Incarnation, b.Incarnation) }) {
			return fmt.Errorf("lineage of %s: closed pairs are not ascending", l.Task)
		}
	}
	return errors.Join(validExternal(m.External), validExternal(m.Ends))
}

func compareOperators(a, b OperatorInfo) int { return cmp.Compare(a.Name, b.Name) }
func compareEntries(a, b TaskEntry) int      { return a.Task.Compare(b.Task) }
func compareLineages(a, b Lineage) int       { return a.Task.Compare(b.Task) }
func compareTopics(a, b TopicID) int         { return cmp.Compare(a.Topic, b.Topic) }
