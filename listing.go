package tidegate

import (
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/changelog"
	"github.com/tidegate/tidegate/runtime"
	"github.com/tidegate/tidegate/topology"
)

// TopicKind says what an internal topic is for.
type TopicKind string

const (
	// RepartitionTopic carries records to the tasks of their keys.
	RepartitionTopic TopicKind = "repartition"
	// ControlTopic holds the control log of barrier mode.
	ControlTopic TopicKind = "control"
	// ChangelogTopic holds the changes of a store in changelog mode.
	ChangelogTopic TopicKind = "changelog"
)

// InternalTopic is a topic that an application makes for itself. Its name and
// the formats in it depend on nothing but the names and serdes in the program.
type InternalTopic struct {
	// Name is the topic's name: "<app>-<step>-repartition", "<app>-control" or
	// "<app>-<store>-changelog".
	Name string
	Kind TopicKind
	// Partitions is the number of partitions as far as the program says it: 1 for
	// the control log, the argument of Partitions for a repartition topic. 0 means
	// that it follows from the topics that are read or joined (see Partitions), or
	// from the store's tasks.
	Partitions int32
	// Step is the name of the step that a repartition topic is for, and SharedBy
	// those of the steps that read it too (see MergeRepartitions).
	Step     string
	SharedBy []string
	// Store is the name of a changelog's store.
	Store string
	// Key and Value are the fingerprints of the serdes; "" for the control log.
	Key, Value string
	// WrittenBy and ReadBy are numbers of subtopologies.
	WrittenBy []int32
	ReadBy    int32
	// Site is the line of the program, "folder/file.go:12"; "" for the control log.
	Site string
}

// StoreInfo describes a state store.
type StoreInfo struct {
	// Name is the store's name in the program, and in checkpoints.
	Name string
	// Format names the layout of the store's entries (docs/format/stores.md).
	Format string
	// Key and Value are the fingerprints of the serdes.
	Key, Value string
	// WindowSize and Grace are those of a store of windows; Grace alone is the
	// retention of a WindowStore. Windows says what kind of windows they are where
	// the size does not say it.
	WindowSize, Grace time.Duration
	Windows           string
	// SourceTopic is the topic that a table is read from: its records are the
	// store's rows.
	SourceTopic string
	// Reused: in changelog mode SourceTopic is the store's changelog, too; see
	// ReuseSourceTopics.
	Reused bool
	// Subtopology is the number of the subtopology whose tasks keep the store.
	Subtopology int32
	// Steps are the labels of the steps that own or share the store.
	Steps []string
	// Site is the line of the program that defines the store.
	Site string
}

// InternalTopics lists every topic that an application of that id and mode makes
// for itself, sorted by name: what an administrator has to allow or to create
// beforehand. A test of one's own that compares the names with a list notices
// when a change of the program renames one (see docs/guide/naming.md).
func (t *Topology) InternalTopics(applicationID string, mode Mode) []InternalTopic {
	var out []InternalTopic
	for _, r := range t.t.Repartitions() {
		out = append(out, InternalTopic{
			Name: r.TopicName(applicationID), Kind: RepartitionTopic, Partitions: r.Partitions,
			Step: r.Name, SharedBy: slices.Clone(r.SharedBy), Key: r.Key.Fingerprint, Value: r.Value.Fingerprint,
			WrittenBy: slices.Clone(r.Writers), ReadBy: r.Reader, Site: r.Site.String(),
		})
	}
	if mode == Changelog {
		for _, s := range t.Stores() {
			if s.Reused {
				continue
			}
			out = append(out, InternalTopic{
				Name: changelog.TopicName(applicationID, s.Name), Kind: ChangelogTopic, Store: s.Name,
				Key: s.Key, Value: s.Value, WrittenBy: []int32{s.Subtopology}, ReadBy: s.Subtopology, Site: s.Site,
			})
		}
	} else {
		out = append(out, InternalTopic{Name: runtime.ControlTopic(applicationID), Kind: ControlTopic, Partitions: 1})
	}
	slices.SortFunc(out, func(a, b InternalTopic) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Stores lists every state store, sorted by name.
func (t *Topology) Stores() []StoreInfo {
	var out []StoreInfo
	for _, sub := range t.t.Subtopologies() {
		for _, s := range sub.Stores {
			out = append(out, storeInfo(sub, s))
		}
	}
	slices.SortFunc(out, func(a, b StoreInfo) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func storeInfo(sub *topology.Subtopology, s *topology.Store) StoreInfo {
	info := StoreInfo{
		Name: s.Name, Format: s.Format, Key: s.Key.Fingerprint, Value: s.Value.Fingerprint,
		WindowSize: milliseconds(s.SizeMs), Grace: milliseconds(s.GraceMs), Windows: s.Windows,
		SourceTopic: s.SourceTopic, Reused: s.FromSource != nil, Subtopology: sub.Number, Site: s.Site.String(),
	}
	for _, n := range sub.Nodes {
		if slices.Contains(n.Stores, s.Name) {
			info.Steps = append(info.Steps, n.Label())
		}
	}
	return info
}

// milliseconds is a duration of ms milliseconds, the longest one where it does
// not fit.
func milliseconds(ms int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond
}

// DOT returns the topology in the language of Graphviz (dot -Tsvg draws it):
// subtopologies as clusters, with their stores, between the topics. "<app>"
// stands for the application id.
func (t *Topology) DOT() string { return t.t.DOT("<app>") }

// Mermaid returns the topology as a Mermaid flowchart, for documents in
// Markdown. "<app>" stands for the application id.
func (t *Topology) Mermaid() string { return t.t.Mermaid("<app>") }
