package topology

import (
	"fmt"
	"slices"
)

// Reset returns the offset reset of an external input.
func (t *Topology) Reset(topic string) OffsetReset {
	return resetOf(t.nodes, (*Node).named, topic)
}

func resetOf(nodes []*Node, topics func(*Node) []string, topic string) OffsetReset {
	for _, n := range nodes {
		if n.Reset != ResetDefault && slices.Contains(topics(n), topic) {
			return n.Reset
		}
	}
	return ResetDefault
}

// IdleMs returns the idle timeout of an external input, 0 for the
// application's.
func (t *Topology) IdleMs(topic string) int64 {
	return idleOf(t.nodes, (*Node).named, topic)
}

func idleOf(nodes []*Node, topics func(*Node) []string, topic string) int64 {
	for _, n := range nodes {
		if n.IdleMs > 0 && slices.Contains(topics(n), topic) {
			return n.IdleMs
		}
	}
	return 0
}

// checkSources refuses sources of one topic that do not agree on how it is
// read: it is read once for all of them.
func checkSources(nodes []*Node, topics func(*Node) []string) []error {
	var errs []error
	readers := map[string][]*Node{}
	for _, n := range nodes {
		for _, topic := range topics(n) {
			for _, o := range readers[topic] {
				errs = append(errs, disagree(topic, o, n)...)
			}
			readers[topic] = append(readers[topic], n)
		}
	}
	return errs
}

// disagree compares two sources of a topic. Where one leaves the offset reset
// or the idle timeout to the application, the other one's counts.
func disagree(topic string, a, b *Node) []error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, &Error{b.Site, fmt.Sprintf("topic %q is read "+format+": a topic is read once, choose one", append([]any{topic}, args...)...)})
	}
	if a.Reset != b.Reset && a.Reset != ResetDefault && b.Reset != ResetDefault {
		bad("from %s here and from %s at %s", b.Reset, a.Reset, a.Site)
	}
	if a.IdleMs != b.IdleMs && a.IdleMs != 0 && b.IdleMs != 0 {
		bad("with an idle timeout of %d ms here and of %d ms at %s", b.IdleMs, a.IdleMs, a.Site)
	}
	if a.Timestamps.id() != b.Timestamps.id() {
		bad("at %s here and at %s at %s (share one option value where they are the same)", b.Timestamps.text(), a.Timestamps.text(), a.Site)
	}
	return errs
}

func (n *Node) named() []string { return n.Topics }

// id of nil is that of the records' own timestamps.
func (t *Timestamps) id() any {
	if t == nil {
		return DefaultTimestamps
	}
	return t.ID
}

func (t *Timestamps) text() string {
	if t == nil {
		return DefaultTimestamps
	}
	return t.Text
}

// DefaultTimestamps is the ID and the Text of the records' own timestamps.
const DefaultTimestamps = "record timestamps (invalid: fail)"
