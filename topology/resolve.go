package topology

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/internal/ids"
)

func compareStrings(a, b string) int { return cmp.Compare(a, b) }

// Resolved is a topology with the names and partition counts of one
// application on one cluster.
type Resolved struct {
	*Topology
	ApplicationID string

	steps   map[string]int32 // partitions of repartition steps
	matched map[int][]string // topics of patterns, by node id
	tops    map[string]int32 // partitions of external topics
	tasks   []int32          // by subtopology
	bound   []*Subtopology
}

// InternalTopic is a repartition topic to create or verify.
type InternalTopic struct {
	Topic      string
	Step       string
	Partitions int32
}

// Channel is an upstream task of a repartition topic (R5).
type Channel struct {
	Task ids.TaskID
	// Cycle: the channel closes a cycle and is never aligned (R9).
	Cycle bool
}

// Resolve brings in the partition counts of the external topics, inputs and
// sinks. A topic that is not in the map does not exist. The error joins every
// missing topic and every pair of topics that must be, and are not,
// co-partitioned.
func (t *Topology) Resolve(applicationID string, partitions map[string]int32) (*Resolved, error) {
	r := &Resolved{Topology: t, ApplicationID: applicationID, steps: map[string]int32{}, tops: map[string]int32{}, matched: map[int][]string{}}
	var errs []error
	if err := checkName(applicationID); err != nil {
		errs = append(errs, fmt.Errorf("application id %q: %w", applicationID, err))
	}
	for _, s := range t.repartitions {
		if name := s.TopicName(applicationID); len(name) > maxTopicName {
			errs = append(errs, &Error{s.Site, fmt.Sprintf("the topic name %q is %d characters long, Kafka allows %d: use shorter names", name, len(name), maxTopicName)})
		}
	}
	errs = append(errs, r.takeTopics(partitions)...)
	errs = append(errs, r.takeMatches(partitions)...)
	errs = append(errs, r.checkMatches()...)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	r.bind()
	groups := r.coPartitions()
	r.fillSteps(groups)
	errs = append(errs, r.checkSteps()...)
	errs = append(errs, r.checkGroups(groups)...)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	r.countTasks()
	return r, nil
}

// Subtopologies returns the parts in number order, bound to this Resolved.
func (r *Resolved) Subtopologies() []*Subtopology { return r.bound }

// Resolved returns what the subtopology was taken from, or nil when that is a
// Topology.
func (s *Subtopology) Resolved() *Resolved { return s.resolved }

// takeTopics copies the counts of the external topics and reports missing ones.
func (r *Resolved) takeTopics(partitions map[string]int32) []error {
	var errs []error
	missing := map[string]bool{}
	look := func(site Site, topic, verb string) {
		if p, ok := partitions[topic]; ok && p > 0 {
			r.tops[topic] = p
		} else if !missing[topic] {
			missing[topic] = true
			errs = append(errs, &Error{site, fmt.Sprintf("topic %q, which is %s here, does not exist: create it, or correct the name", topic, verb)})
		}
	}
	for _, n := range r.nodes {
		for _, topic := range n.Topics {
			look(n.Site, topic, "read")
		}
		if n.Kind == Sink && n.SinkTopic != "" {
			look(n.Site, n.SinkTopic, "written")
		}
	}
	for _, g := range r.globals {
		look(g.Site, g.Topic, "read as a global table")
	}
	return errs
}

// input is a topic as a source of partition counts.
type input struct {
	topic string // external, or
	step  string
	node  *Node
}

func (i input) compare(o input) int {
	if c := compareStrings(i.topic, o.topic); c != 0 {
		return c
	}
	return compareStrings(i.step, o.step)
}

// feeding returns the inputs whose records reach a node within its
// subtopology, through data or through tables it reads.
func (r *Resolved) feeding(n *Node) []input {
	var out []input
	seen := map[*Node]bool{}
	var walk func(n *Node)
	walk = func(n *Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, topic := range r.SourceTopics(n) {
			out = append(out, input{topic: topic, node: n})
		}
		if n.Kind == RepartitionSource {
			out = append(out, input{step: n.Step, node: n})
		}
		for _, p := range n.Parents {
			walk(p)
		}
		for _, p := range n.Uses {
			walk(p)
		}
	}
	walk(n)
	slices.SortStableFunc(out, input.compare)
	return slices.CompactFunc(out, func(a, b input) bool { return a.compare(b) == 0 })
}

// group is a set of topics that must have the same partition count, because a
// keyed step takes records of all of them.
type group struct {
	inputs []input
	why    *Node
}

// coPartitions returns the groups, merged where they share a topic.
func (r *Resolved) coPartitions() []group {
	var groups []group
	for _, n := range r.nodes {
		if !n.KeyedState {
			continue
		}
		g := group{r.feeding(n), n}
		if len(g.inputs) < 2 {
			continue
		}
		rest := groups[:0:0]
		for _, o := range groups {
			if !overlap(o.inputs, g.inputs) {
				rest = append(rest, o)
				continue
			}
			g = group{append(slices.Clone(o.inputs), g.inputs...), o.why}
			slices.SortStableFunc(g.inputs, input.compare)
			g.inputs = slices.CompactFunc(g.inputs, func(a, b input) bool { return a.compare(b) == 0 })
		}
		groups = append(rest, g)
	}
	return groups
}

func overlap(a, b []input) bool {
	return slices.ContainsFunc(a, func(x input) bool {
		return slices.ContainsFunc(b, func(y input) bool { return x.compare(y) == 0 })
	})
}

// fillSteps finds the partition count of every repartition step: the user's
// number; else that of the topics it is joined with; else the largest upstream.
func (r *Resolved) fillSteps(groups []group) {
	groupOf := map[string]group{}
	for _, g := range groups {
		for _, in := range g.inputs {
			if in.step != "" {
				groupOf[in.step] = g
			}
		}
	}
	steps := r.Repartitions()
	for _, s := range steps {
		if s.Partitions > 0 {
			r.steps[s.Name] = s.Partitions
		}
	}
	// Known counts spread through the groups first; what is then left takes the
	// largest count upstream once all of that is known. A cycle of unknown steps
	// is broken by taking what is known.
	for _, partial := range []bool{false, true} {
		for changed := true; changed; {
			changed = false
			for _, s := range steps {
				if r.steps[s.Name] > 0 {
					continue
				}
				if n := r.guess(s, groupOf[s.Name], partial); n > 0 {
					r.steps[s.Name] = n
					changed = true
					break
				}
			}
		}
	}
}

// guess returns the count of a step as far as it follows from what is known,
// else 0.
func (r *Resolved) guess(s *Repartition, g group, partial bool) int32 {
	members := []string{s.Name}
	for _, in := range g.inputs {
		if n := r.count(in); n > 0 {
			return n
		}
		members = append(members, in.step)
	}
	var most int32
	for _, n := range r.nodes {
		if n.Kind != RepartitionSink || !slices.Contains(members, n.Step) {
			continue
		}
		for _, in := range r.feeding(n) {
			c := r.count(in)
			if c == 0 && !partial {
				return 0
			}
			most = max(most, c)
		}
	}
	return most
}

func (r *Resolved) count(in input) int32 {
	if in.step != "" {
		return r.steps[in.step]
	}
	return r.tops[in.topic]
}

func (r *Resolved) checkSteps() []error {
	var errs []error
	for _, s := range r.Repartitions() {
		if r.steps[s.Name] == 0 {
			errs = append(errs, &Error{s.Site, fmt.Sprintf("the partition count of %q does not follow from any topic: set it with Repartition(%q, tidegate.Partitions(n))", s.TopicName(r.ApplicationID), s.Name)})
		}
	}
	return errs
}

func (r *Resolved) checkGroups(groups []group) []error {
	var errs []error
	for _, g := range groups {
		first := g.inputs[0]
		for _, in := range g.inputs[1:] {
			if r.count(in) == r.count(first) {
				continue
			}
			errs = append(errs, &Error{g.why.Site, fmt.Sprintf(
				"%s needs co-partitioned topics, but %s has %d partitions (%s) and %s has %d (%s): give them the same number, or put a Repartition before one of them",
				g.why.Label(), r.inputName(first), r.count(first), first.node.Site, r.inputName(in), r.count(in), in.node.Site)})
		}
	}
	return errs
}

func (r *Resolved) inputName(in input) string {
	if in.step != "" {
		return fmt.Sprintf("%q", r.StepTopic(in.step))
	}
	return fmt.Sprintf("%q", in.topic)
}

func (r *Resolved) countTasks() {
	r.tasks = make([]int32, len(r.bound))
	for i, s := range r.bound {
		for _, topic := range s.Topics {
			r.tasks[i] = max(r.tasks[i], r.tops[topic])
		}
		for _, step := range s.Steps {
			r.tasks[i] = max(r.tasks[i], r.steps[step])
		}
	}
}

// StepTopic returns the name of a repartition step's topic.
func (r *Resolved) StepTopic(step string) string { return r.step(step).TopicName(r.ApplicationID) }

// TaskCount returns the number of tasks of a subtopology: the largest partition
// count of its inputs.
func (r *Resolved) TaskCount(sub int32) int32 { return r.tasks[sub] }

// Tasks returns all tasks in order.
func (r *Resolved) Tasks() []ids.TaskID {
	var out []ids.TaskID
	for sub, n := range r.tasks {
		for p := range n {
			out = append(out, ids.TaskID{Sub: int32(sub), Partition: p})
		}
	}
	return out
}

// Partitions returns the partition count of a topic of the topology, external
// or internal, else 0.
func (r *Resolved) Partitions(topic string) int32 {
	for _, s := range r.repartitions {
		if s.TopicName(r.ApplicationID) == topic {
			return r.steps[s.Name]
		}
	}
	return r.tops[topic]
}

// InternalTopics returns the repartition topics, sorted by name.
func (r *Resolved) InternalTopics() []InternalTopic {
	var out []InternalTopic
	for _, s := range r.Repartitions() {
		out = append(out, InternalTopic{Topic: s.TopicName(r.ApplicationID), Step: s.Name, Partitions: r.steps[s.Name]})
	}
	return out
}

// TaskInputs returns the external partitions that a task reads and the
// repartition partitions, each sorted. All have the task's partition number;
// of topics with fewer partitions the task reads none.
func (r *Resolved) TaskInputs(t ids.TaskID) (external, internal []ids.TopicPartition) {
	s := r.bound[t.Sub]
	for _, topic := range s.Topics {
		if t.Partition < r.tops[topic] {
			external = append(external, ids.TopicPartition{Topic: topic, Partition: t.Partition})
		}
	}
	for _, step := range s.Steps {
		if t.Partition < r.steps[step] {
			internal = append(internal, ids.TopicPartition{Topic: r.StepTopic(step), Partition: t.Partition})
		}
	}
	return external, internal
}

// TaskOutputs returns the repartition topics that the tasks of a subtopology
// write, sorted.
func (r *Resolved) TaskOutputs(sub int32) []string {
	var out []string
	for _, step := range r.subs[sub].Writes {
		out = append(out, r.StepTopic(step))
	}
	return out
}

// Channels returns the tasks that write a repartition topic, in order; each of
// them may write every partition. It returns nil for other topics.
func (r *Resolved) Channels(topic string) []Channel {
	var out []Channel
	for _, s := range r.repartitions {
		if s.TopicName(r.ApplicationID) != topic {
			continue
		}
		for _, w := range s.Writers {
			for p := range r.tasks[w] {
				out = append(out, Channel{ids.TaskID{Sub: w, Partition: p}, slices.Contains(s.Cycle, w)})
			}
		}
	}
	return out
}

// Reader returns the subtopology that reads a topic, external or internal.
func (r *Resolved) Reader(topic string) (sub int32, ok bool) {
	for _, s := range r.bound {
		if slices.Contains(s.Topics, topic) {
			return s.Number, true
		}
		for _, step := range s.Steps {
			if r.StepTopic(step) == topic {
				return s.Number, true
			}
		}
	}
	return 0, false
}

// Fingerprint identifies what checkpoints and channels depend on: inputs,
// repartition steps, stores, their serdes, partition counts, and how
// subtopologies hang together. Of a source by pattern it holds the pattern, not
// the topics that it matched. Stateless steps, sinks and the application id
// are not in it. It is 32 hexadecimal digits.
func (r *Resolved) Fingerprint() string {
	var b strings.Builder
	b.WriteString("tidegate topology 1\n")
	for _, s := range r.subs {
		fmt.Fprintf(&b, "sub %d tasks %d\n", s.Number, r.tasks[s.Number])
		for _, topic := range s.Topics {
			fmt.Fprintf(&b, "in %q %d\n", topic, r.tops[topic])
		}
		for _, n := range s.Nodes {
			if n.Pattern != nil {
				fmt.Fprintf(&b, "pattern %q\n", n.Pattern.Text)
			}
		}
		for _, name := range s.Steps {
			st := r.step(name)
			fmt.Fprintf(&b, "step %q %d %q %q writers %v cycle %v\n", name, r.steps[name], st.Key.Fingerprint, st.Value.Fingerprint, st.Writers, st.Cycle)
		}
		for _, st := range s.Stores {
			fmt.Fprintf(&b, "store %q %q %q %q %d %d\n", st.Name, st.Format, st.Key.Fingerprint, st.Value.Fingerprint, st.SizeMs, st.GraceMs)
			if st.Windows != "" {
				fmt.Fprintf(&b, "windows %q\n", st.Windows)
			}
			if st.FromSource != nil {
				fmt.Fprintf(&b, "kept in %q\n", st.SourceTopic)
			}
		}
		for _, n := range s.Nodes {
			if n.Kind == Stateful || n.Kind == Process {
				fmt.Fprintf(&b, "op %q %q %q\n", n.Op, n.Name, n.Stores)
			}
		}
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:16])
}
