package topology

import (
	"fmt"
	"strings"
)

// Describe lists the subtopologies with their steps, and every internal topic
// and store, for an application id.
func (t *Topology) Describe(applicationID string) string {
	return t.describe(applicationID, func(r *Repartition) string {
		if r.Partitions > 0 {
			return fmt.Sprintf("%d partitions", r.Partitions)
		}
		return "partitions as upstream or as joined"
	}, nil)
}

// Describe is Topology.Describe with partition counts, tasks and the
// fingerprint.
func (r *Resolved) Describe() string {
	text := r.describe(r.ApplicationID, func(s *Repartition) string {
		return fmt.Sprintf("%d partitions", r.steps[s.Name])
	}, r.tasks)
	if len(r.matched) > 0 {
		text += "Topics found by pattern\n  " + strings.Join(r.Matched(), ", ") + "\n"
	}
	return text + "Fingerprint: " + r.Fingerprint() + "\n"
}

func (t *Topology) describe(app string, partitions func(*Repartition) string, tasks []int32) string {
	var b strings.Builder
	for _, s := range t.subs {
		fmt.Fprintf(&b, "Subtopology %d", s.Number)
		if tasks != nil {
			fmt.Fprintf(&b, " (%d tasks)", tasks[s.Number])
		}
		b.WriteString("\n")
		for _, n := range s.Nodes {
			t.describeNode(&b, app, n)
		}
	}
	b.WriteString("Internal topics\n")
	for _, r := range t.Repartitions() {
		fmt.Fprintf(&b, "  %s: %s, key %s, value %s, written by %s, read by %d", r.TopicName(app), partitions(r),
			r.Key.Fingerprint, r.Value.Fingerprint, numbers(r.Writers), r.Reader)
		if len(r.SharedBy) > 0 {
			fmt.Fprintf(&b, ", shared by %s", strings.Join(r.SharedBy, ", "))
		}
		if len(r.Cycle) > 0 {
			fmt.Fprintf(&b, ", cycle from %s", numbers(r.Cycle))
		}
		b.WriteString("\n")
	}
	if len(t.repartitions) == 0 {
		b.WriteString("  none\n")
	}
	b.WriteString("Stores\n")
	for _, s := range t.Stores() {
		fmt.Fprintf(&b, "  %s: %s, key %s, value %s", s.Name, s.Format, s.Key.Fingerprint, s.Value.Fingerprint)
		if s.SizeMs > 0 {
			fmt.Fprintf(&b, ", windows of %d ms", s.SizeMs)
		}
		if s.Windows != "" {
			fmt.Fprintf(&b, ", %s", s.Windows)
		}
		if s.SizeMs > 0 || s.Windows != "" {
			fmt.Fprintf(&b, ", grace %d ms", s.GraceMs)
		} else if s.GraceMs > 0 {
			fmt.Fprintf(&b, ", kept %d ms", s.GraceMs)
		}
		if s.FromSource != nil {
			fmt.Fprintf(&b, ", changelog is topic %s", s.SourceTopic)
		}
		b.WriteString("\n")
	}
	if len(t.stores) == 0 {
		b.WriteString("  none\n")
	}
	if len(t.globals) > 0 {
		b.WriteString("Global tables\n")
	}
	for _, g := range t.globals {
		fmt.Fprintf(&b, "  %s: topic %s, key %s, value %s\n", g.Name, g.Topic, g.Key.Fingerprint, g.Value.Fingerprint)
	}
	return b.String()
}

func (t *Topology) describeNode(b *strings.Builder, app string, n *Node) {
	fmt.Fprintf(b, "  %s", n.Label())
	switch n.Kind {
	case Source:
		if n.Pattern != nil {
			fmt.Fprintf(b, " (topics matching %s)", n.Pattern.Text)
		} else {
			fmt.Fprintf(b, " (topic %s)", strings.Join(n.Topics, ", "))
		}
		if n.Reset != ResetDefault {
			fmt.Fprintf(b, " from %s", n.Reset)
		}
		if n.Timestamps != nil {
			fmt.Fprintf(b, " at %s", n.Timestamps.Text)
		}
		if n.IdleMs > 0 {
			fmt.Fprintf(b, " idle after %d ms", n.IdleMs)
		}
	case Sink:
		if n.SinkTopic == "" {
			b.WriteString(" (topic named by each record)")
		} else {
			fmt.Fprintf(b, " (topic %s)", n.SinkTopic)
		}
	case RepartitionSink, RepartitionSource:
		fmt.Fprintf(b, " (topic %s)", t.step(n.Step).TopicName(app))
	}
	if len(n.Stores) > 0 {
		fmt.Fprintf(b, " (store %s)", strings.Join(n.Stores, ", "))
	}
	for i, u := range n.Uses {
		if i == 0 {
			b.WriteString(" reads ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(u.Label())
	}
	for i, c := range n.Children {
		if i == 0 {
			b.WriteString(" -> ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(c.Label())
	}
	b.WriteString("\n")
}

func numbers(ns []int32) string {
	parts := make([]string, len(ns))
	for i, n := range ns {
		parts[i] = fmt.Sprint(n)
	}
	return strings.Join(parts, ", ")
}
