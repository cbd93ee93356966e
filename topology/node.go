package topology

import (
	"strconv"

	"github.com/tidegate/tidegate/record"
)

// Kind says what a node is.
type Kind uint8

// The kinds of nodes. Only Describe and the checks below look at them; what a
// node does is in its factory.
const (
	// Stateless nodes keep nothing: filters, maps, merges.
	Stateless Kind = iota
	// Source nodes read external topics.
	Source
	// RepartitionSink nodes write a repartition topic.
	RepartitionSink
	// RepartitionSource nodes read one.
	RepartitionSource
	// Sink nodes write external topics.
	Sink
	// Stateful nodes own or share stores.
	Stateful
	// Join nodes read another node's store.
	Join
	// Process nodes run user-written processors.
	Process
)

var kindNames = [...]string{
	Stateless: "stateless", Source: "source", RepartitionSink: "repartition-sink",
	RepartitionSource: "repartition-source", Sink: "sink", Stateful: "stateful",
	Join: "join", Process: "process",
}

// String returns the kind's name.
func (k Kind) String() string { return kindNames[k] }

// OffsetReset says where a source starts that has no offset yet.
type OffsetReset uint8

const (
	// ResetDefault takes the application's setting.
	ResetDefault OffsetReset = iota
	// ResetEarliest starts at the oldest record.
	ResetEarliest
	// ResetLatest starts at the end.
	ResetLatest
)

// String returns "default", "earliest" or "latest".
func (r OffsetReset) String() string {
	return [...]string{"default", "earliest", "latest"}[r]
}

// Serde is what the topology knows of a serde.
type Serde struct {
	Fingerprint string
	// Accepts reports whether bytes of another fingerprint can be read.
	Accepts func(fingerprint string) bool
}

// Timestamps says how a source finds the event time of its records.
type Timestamps struct {
	// Text is for descriptions.
	Text string
	// ID tells two ways apart; it is comparable.
	ID any
	// Factory makes the runtime; package operators defines its type.
	Factory any
}

// Node is one step of a topology.
type Node struct {
	ID   int
	Kind Kind
	// Op is the operator's word in descriptions: "filter", "count".
	Op string
	// Name is the user's name of the step, or "" where the step takes none.
	Name string
	Site Site

	// Parents send records to this node; Children is the inverse, in the order
	// in which the children were added.
	Parents, Children []*Node
	// Uses are the nodes whose store this node reads.
	Uses []*Node

	// Topics are the external topics of a Source.
	Topics []string
	// Pattern finds the topics of a Source by name; Topics is empty then.
	Pattern *Pattern
	// Reset is a Source's offset reset.
	Reset OffsetReset
	// Timestamps says how a Source finds event times; nil takes the records'.
	Timestamps *Timestamps
	// IdleMs is a Source's idle timeout, 0 for the application's.
	IdleMs int64
	// Step names the repartition step of a RepartitionSink or -Source.
	Step string
	// SinkTopic is the topic of a Sink; "" means that each record names its own.
	SinkTopic string
	// Stores are the names of the stores that the node owns or shares.
	Stores []string
	// KeyedState: records of one key must meet in one task, so all topics that
	// feed the node must be co-partitioned.
	KeyedState bool
	// WantsOld: the node needs the old values of its parent tables. Build sets
	// SendOld on the tables that must therefore provide them.
	WantsOld, SendOld bool
	// View: the node is a table that computes its values from its parent's.
	View bool
	// OldNeedsStore: the node cannot compute old values; who needs them must keep
	// its rows in a store.
	OldNeedsStore bool

	// Factory makes the node's runtime, Getter the access to its table. Package
	// operators defines their types.
	Factory, Getter any
	// AsOf is the access to a versioned table's rows of earlier times, else nil.
	AsOf any
}

// Label returns the node's word and name, or number where it has no name:
// "count activity", "filter-3".
func (n *Node) Label() string {
	if n.Name != "" {
		return n.Op + " " + n.Name
	}
	return n.Op + "-" + strconv.Itoa(n.ID)
}

// Store describes a state store.
type Store struct {
	Name string
	// Format names the layout of keys and values in the store.
	Format     string
	Key, Value Serde
	// SizeMs and GraceMs are those of a window store, else 0. A window is
	// dropped when stream time passed its end plus grace.
	SizeMs, GraceMs int64
	// Windows names what SizeMs does not say of a window store's windows: an
	// advance, a calendar, that they slide. WindowEnd gives the end of a window
	// from its start where that is not start + SizeMs.
	Windows   string
	WindowEnd func(start int64) int64
	// SourceTopic is the external topic whose records the store's rows are, key
	// by key, with the same serdes: a table that is read from a topic.
	SourceTopic string
	// FromSource, if not nil, makes the store's row of a record of SourceTopic, so
	// that the topic serves as the store's changelog in changelog mode. A nil
	// value deletes the row; ok is false for a record that the store never took.
	FromSource func(r *record.Raw) (key, value []byte, ok bool)
	Site       Site
	// Owner identifies the definition: two nodes share a store when they name
	// the same Owner, and collide when they name different ones.
	Owner any
}

// Repartition describes a repartition step.
type Repartition struct {
	Name string
	// Partitions is the number that the user asked for, 0 when none.
	Partitions int32
	Key, Value Serde
	Site       Site
	// SharedBy are the names of the steps that read this topic instead of one of
	// their own, in the order of description.
	SharedBy []string
	// WantsOld: the step writes changes of a table and needs its old values.
	WantsOld bool
	// Writers are the subtopologies that write the topic and Reader the one
	// that reads it; Cycle is the subset of Writers whose channels are cycle
	// channels (R9). Build sets them.
	Writers []int32
	Reader  int32
	Cycle   []int32
}

// TopicName returns the name of the step's topic: "A-name-repartition".
func (r *Repartition) TopicName(applicationID string) string {
	return applicationID + "-" + r.Name + "-repartition"
}
