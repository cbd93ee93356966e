package topology

import (
	"errors"
	"fmt"
	"slices"
)

// Builder collects nodes and the mistakes made while describing them. It is
// not safe for concurrent use.
type Builder struct {
	nodes        []*Node
	stores       []*Store
	repartitions []*Repartition
	globals      []*Global
	storeByName  map[string]*Store
	stepByName   map[string]Site
	errs         []error
}

// NewBuilder returns an empty builder.
func NewBuilder() *Builder {
	return &Builder{storeByName: map[string]*Store{}, stepByName: map[string]Site{}}
}

// Error is a mistake in a topology, with the line of the user's program.
type Error struct {
	Site Site
	Msg  string
}

// Error returns "file:line: message".
func (e *Error) Error() string { return e.Site.String() + ": " + e.Msg }

// Errorf notes a mistake; Build returns it.
func (b *Builder) Errorf(site Site, format string, args ...any) {
	b.errs = append(b.errs, &Error{Site: site, Msg: fmt.Sprintf(format, args...)})
}

// Add adds a node and links it to its parents.
func (b *Builder) Add(n Node) *Node {
	n.ID = len(b.nodes)
	p := &n
	b.nodes = append(b.nodes, p)
	for _, parent := range n.Parents {
		parent.Children = append(parent.Children, p)
	}
	for _, t := range n.Topics {
		b.checkTopic(n.Site, t)
	}
	if n.Kind == Source && len(n.Topics) == 0 && n.Pattern == nil {
		b.Errorf(n.Site, "a stream without topics: name at least one")
	}
	if n.Kind == Sink && n.SinkTopic != "" {
		b.checkTopic(n.Site, n.SinkTopic)
	}
	return p
}

// ClaimStep takes a name for a step that may repartition. Names of steps are
// unique whether or not the step needs its topic, so that a change upstream
// cannot make two steps collide.
func (b *Builder) ClaimStep(name string, site Site) {
	if err := checkName(name); err != nil {
		b.Errorf(site, "step name %q: %v", name, err)
		return
	}
	if first, taken := b.stepByName[name]; taken {
		b.Errorf(site, "step name %q is already used at %s: names identify topics and state, give one of them another name", name, first)
		return
	}
	b.stepByName[name] = site
}

// AddStore adds a store. The same definition (Owner) may be added more than
// once; its users share it.
func (b *Builder) AddStore(s Store) {
	if err := checkName(s.Name); err != nil {
		b.Errorf(s.Site, "store name %q: %v", s.Name, err)
		return
	}
	first, taken := b.storeByName[s.Name]
	if !taken {
		b.storeByName[s.Name] = &s
		b.stores = append(b.stores, &s)
		return
	}
	if s.Owner == nil || first.Owner != s.Owner {
		b.Errorf(s.Site, "store name %q is already used at %s: names identify state, give one of them another name", s.Name, first.Site)
	}
}

// AddRepartition adds a repartition step below parent and returns its source,
// from which the graph goes on. The name was claimed before.
func (b *Builder) AddRepartition(parent *Node, r Repartition, sink, source any) *Node {
	p := &r
	b.repartitions = append(b.repartitions, p)
	b.Add(Node{
		Kind: RepartitionSink, Op: "repartition-sink", Name: r.Name, Site: r.Site,
		Parents: []*Node{parent}, Step: r.Name, WantsOld: r.WantsOld, Factory: sink,
	})
	return b.Add(Node{
		Kind: RepartitionSource, Op: "repartition-source", Name: r.Name, Site: r.Site,
		Step: r.Name, Factory: source,
	})
}

// ShareStep notes that a step whose name was claimed reads the topic of another.
func (b *Builder) ShareStep(name, by string) {
	for _, r := range b.repartitions {
		if r.Name == name {
			r.SharedBy = append(r.SharedBy, by)
		}
	}
}

// Build checks the graph and divides it into subtopologies. It may be called
// again after more was added.
func (b *Builder) Build() (*Topology, error) {
	errs := slices.Clone(b.errs)
	if len(b.nodes) == 0 {
		errs = append(errs, errors.New("the topology is empty: begin with Builder.Stream or Builder.Table"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	t := &Topology{nodes: slices.Clone(b.nodes), stores: b.stores, globals: slices.Clone(b.globals), repartitions: cloneSteps(b.repartitions)}
	errs = t.propagateOld()
	t.divide()
	t.findCycles()
	if err := errors.Join(append(errs, checkSources(t.nodes, (*Node).named)...)...); err != nil {
		return nil, err
	}
	return t, nil
}

func cloneSteps(in []*Repartition) []*Repartition {
	out := make([]*Repartition, len(in))
	for i, r := range in {
		c := *r
		c.SharedBy = slices.Clone(r.SharedBy)
		out[i] = &c
	}
	return out
}

func (b *Builder) checkTopic(site Site, topic string) {
	if err := checkName(topic); err != nil {
		b.Errorf(site, "topic name %q: %v", topic, err)
	}
}

// maxTopicName is Kafka's limit.
const maxTopicName = 249

// checkName applies Kafka's rule for topic names, which names of steps and
// stores become a part of.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("must not be empty")
	case name == "." || name == "..":
		return errors.New("is not allowed by Kafka")
	case len(name) > maxTopicName:
		return fmt.Errorf("is %d characters long, Kafka allows %d", len(name), maxTopicName)
	}
	for _, r := range name {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
		if !ok {
			return fmt.Errorf("contains %q: use letters, digits, dots, underscores and hyphens, as Kafka demands", r)
		}
	}
	return nil
}
