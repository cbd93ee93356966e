package topology

import (
	"fmt"
	"slices"
	"strings"
)

// picture is a topology as boxes and arrows, for whatever language draws it. The
// order of everything in it is fixed.
type picture struct {
	topics []pictureTopic
	subs   []pictureSub
	arrows []arrow
}

type pictureTopic struct {
	id, label string
	internal  bool
}

type pictureSub struct {
	number int32
	boxes  []box
}

// box is a step, or a store.
type box struct {
	id, label string
	store     bool
}

// arrow leads from one id to another. A state arrow joins a step and a store that
// it owns, or leads from a store to a step that reads it.
type arrow struct {
	from, to    string
	state, both bool
}

// draw collects the picture of a topology.
func (t *Topology) draw(app string) *picture {
	p := &picture{}
	topics := t.drawTopics(app, p)
	stores := map[string]string{}
	for i, s := range t.Stores() {
		stores[s.Name] = fmt.Sprintf("s%d", i)
	}
	for _, sub := range t.subs {
		ps := pictureSub{number: sub.Number}
		for _, n := range sub.Nodes {
			ps.boxes = append(ps.boxes, box{id: nodeID(n), label: n.Label()})
		}
		for _, s := range sub.Stores {
			ps.boxes = append(ps.boxes, box{id: stores[s.Name], label: s.Name, store: true})
		}
		p.subs = append(p.subs, ps)
	}
	for _, n := range t.nodes {
		p.arrows = append(p.arrows, t.arrowsOf(n, app, topics, stores)...)
	}
	return p
}

// patternKey before a pattern cannot begin a topic's name.
const patternKey = "/"

const dynamicTopic = "" // where each record names its topic

func (t *Topology) drawTopics(app string, p *picture) map[string]string {
	external := append(t.Inputs(), t.Sinks()...)
	if slices.ContainsFunc(t.nodes, func(n *Node) bool { return n.Kind == Sink && n.SinkTopic == "" }) {
		external = append(external, dynamicTopic)
	}
	slices.Sort(external)
	id := map[string]string{}
	add := func(name, label string, internal bool) {
		id[name] = fmt.Sprintf("t%d", len(id))
		p.topics = append(p.topics, pictureTopic{id[name], label, internal})
	}
	for _, name := range slices.Compact(external) {
		label := name
		if name == dynamicTopic {
			label = "topic named by each record"
		}
		add(name, label, false)
	}
	for _, text := range t.Patterns() {
		add(patternKey+text, "topics matching "+text, false)
	}
	for _, r := range t.Repartitions() {
		add(r.TopicName(app), r.TopicName(app), true)
	}
	return id
}

func nodeID(n *Node) string { return fmt.Sprintf("n%d", n.ID) }

func (t *Topology) arrowsOf(n *Node, app string, topics, stores map[string]string) []arrow {
	var out []arrow
	me := nodeID(n)
	for _, topic := range n.Topics {
		out = append(out, arrow{from: topics[topic], to: me})
	}
	if n.Pattern != nil {
		out = append(out, arrow{from: topics[patternKey+n.Pattern.Text], to: me})
	}
	switch n.Kind {
	case RepartitionSource:
		out = append(out, arrow{from: topics[t.step(n.Step).TopicName(app)], to: me})
	case RepartitionSink:
		out = append(out, arrow{from: me, to: topics[t.step(n.Step).TopicName(app)]})
	case Sink:
		out = append(out, arrow{from: me, to: topics[n.SinkTopic]})
	}
	for _, c := range n.Children {
		out = append(out, arrow{from: me, to: nodeID(c)})
	}
	for _, s := range n.Stores {
		out = append(out, arrow{from: me, to: stores[s], state: true, both: true})
	}
	for _, u := range n.Uses {
		if len(u.Stores) == 0 { // a view: its store is further up
			out = append(out, arrow{from: nodeID(u), to: me, state: true})
		}
		for _, s := range u.Stores {
			out = append(out, arrow{from: stores[s], to: me, state: true})
		}
	}
	return out
}

// DOT returns the topology in the language of Graphviz: subtopologies as
// clusters, steps as boxes, stores as cylinders, topics as ellipses, internal
// ones dashed. A dashed line joins a step with a store.
func (t *Topology) DOT(applicationID string) string {
	p := t.draw(applicationID)
	var b strings.Builder
	b.WriteString("digraph topology {\n  rankdir=LR;\n  node [fontname=\"Helvetica\"];\n")
	for _, topic := range p.topics {
		style := ""
		if topic.internal {
			style = ", style=dashed"
		}
		fmt.Fprintf(&b, "  %s [label=%s, shape=ellipse%s];\n", topic.id, quoteDOT(topic.label), style)
	}
	for _, s := range p.subs {
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=\"Subtopology %d\";\n", s.number, s.number)
		for _, x := range s.boxes {
			shape := "box"
			if x.store {
				shape = "cylinder"
			}
			fmt.Fprintf(&b, "    %s [label=%s, shape=%s];\n", x.id, quoteDOT(x.label), shape)
		}
		b.WriteString("  }\n")
	}
	for _, a := range p.arrows {
		style := ""
		switch {
		case a.both:
			style = " [style=dashed, dir=none]"
		case a.state:
			style = " [style=dashed]"
		}
		fmt.Fprintf(&b, "  %s -> %s%s;\n", a.from, a.to, style)
	}
	b.WriteString("}\n")
	return b.String()
}

var escapeDOT = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\r", " ")

func quoteDOT(s string) string { return `"` + escapeDOT.Replace(s) + `"` }

// Mermaid returns the topology as a Mermaid flowchart, which many viewers of
// Markdown draw: subtopologies as subgraphs, steps as boxes, stores as cylinders,
// topics as stadiums, internal ones dashed. A dotted line joins a step with a
// store.
func (t *Topology) Mermaid(applicationID string) string {
	p := t.draw(applicationID)
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	var internal []string
	for _, topic := range p.topics {
		fmt.Fprintf(&b, "  %s([%s])\n", topic.id, quoteMermaid(topic.label))
		if topic.internal {
			internal = append(internal, topic.id)
		}
	}
	for _, s := range p.subs {
		fmt.Fprintf(&b, "  subgraph sub%d[\"Subtopology %d\"]\n", s.number, s.number)
		for _, x := range s.boxes {
			if x.store {
				fmt.Fprintf(&b, "    %s[(%s)]\n", x.id, quoteMermaid(x.label))
			} else {
				fmt.Fprintf(&b, "    %s[%s]\n", x.id, quoteMermaid(x.label))
			}
		}
		b.WriteString("  end\n")
	}
	for _, a := range p.arrows {
		link := "-->"
		switch {
		case a.both:
			link = "-.-"
		case a.state:
			link = "-.->"
		}
		fmt.Fprintf(&b, "  %s %s %s\n", a.from, link, a.to)
	}
	if len(internal) > 0 {
		fmt.Fprintf(&b, "  classDef internal stroke-dasharray: 4 4\n  class %s internal\n", strings.Join(internal, ","))
	}
	return b.String()
}

// quoteMermaid writes everything that Mermaid or HTML could take for more than
// text as an entity.
func quoteMermaid(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			b.WriteByte(' ')
		case strings.ContainsRune("\"#<>&`\\;{}", r):
			fmt.Fprintf(&b, "#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
