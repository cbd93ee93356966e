package topology

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Pattern is what a source reads whose topics are found by their names.
type Pattern struct {
	// Text is the user's regular expression; it must match the whole name.
	Text string
	re   *regexp.Regexp
}

// NewPattern compiles a regular expression in Go's syntax.
func NewPattern(text string) (*Pattern, error) {
	if text == "" {
		return nil, fmt.Errorf("must not be empty")
	}
	re, err := regexp.Compile(`^(?:` + text + `)$`)
	if err != nil {
		return nil, fmt.Errorf("is no regular expression: %w", err)
	}
	return &Pattern{Text: text, re: re}, nil
}

// Match reports whether the pattern matches the whole name.
func (p *Pattern) Match(topic string) bool { return p.re.MatchString(topic) }

// InternalName reports whether a name is that of an internal topic of an
// application.
func InternalName(applicationID, topic string) bool {
	rest, ok := strings.CutPrefix(topic, applicationID+"-")
	return ok && (rest == "control" || strings.HasSuffix(rest, "-changelog") || strings.HasSuffix(rest, "-repartition"))
}

// Patterns returns the patterns of all sources, in the order of description.
func (t *Topology) Patterns() []string {
	var out []string
	for _, n := range t.nodes {
		if n.Pattern != nil && !slices.Contains(out, n.Pattern.Text) {
			out = append(out, n.Pattern.Text)
		}
	}
	return out
}

// Matching returns those of the topics that sources read by their pattern,
// sorted: neither internal topics nor what the topology itself writes.
func (t *Topology) Matching(applicationID string, topics []string) []string {
	var out []string
	for _, n := range t.nodes {
		if n.Pattern != nil {
			out = append(out, t.matching(n, applicationID, topics)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (t *Topology) matching(n *Node, applicationID string, topics []string) []string {
	var out []string
	sinks := t.Sinks()
	for _, topic := range topics {
		kafkas := strings.HasPrefix(topic, "__") // "__consumer_offsets"
		if n.Pattern.Match(topic) && !kafkas && !InternalName(applicationID, topic) && !slices.Contains(sinks, topic) {
			out = append(out, topic)
		}
	}
	slices.Sort(out)
	return out
}

// joinPatterns connects sources that are known to read one topic: those of one
// pattern, and a pattern with the named topics that it matches.
func (t *Topology) joinPatterns(u union) {
	sinks := t.Sinks()
	for _, a := range t.nodes {
		if a.Pattern == nil {
			continue
		}
		for _, b := range t.nodes {
			same := b.Pattern != nil && b.Pattern.Text == a.Pattern.Text
			if same || slices.ContainsFunc(b.Topics, func(topic string) bool {
				return a.Pattern.Match(topic) && !slices.Contains(sinks, topic)
			}) {
				u.join(a.ID, b.ID)
			}
		}
	}
}

// takeMatches finds the topics of the patterns.
func (r *Resolved) takeMatches(partitions map[string]int32) []error {
	var errs []error
	var all []string
	for topic, n := range partitions {
		if n > 0 {
			all = append(all, topic)
		}
	}
	for _, n := range r.nodes {
		if n.Pattern == nil {
			continue
		}
		found := r.matching(n, r.ApplicationID, all)
		if len(found) == 0 {
			errs = append(errs, &Error{n.Site, fmt.Sprintf("no topic matches the pattern %q, which must match the whole name: create one before the application starts, let the application describe it, or correct the pattern", n.Pattern.Text)})
		}
		for _, topic := range found {
			r.tops[topic] = partitions[topic]
		}
		r.matched[n.ID] = found
	}
	return errs
}

// checkMatches refuses a topic that patterns bring into two subtopologies
// (R18), and sources that do not agree on how a matched topic is read.
func (r *Resolved) checkMatches() []error {
	if len(r.matched) == 0 {
		return nil
	}
	first := map[string]*Node{}
	var errs []error
	for _, n := range r.nodes {
		for _, topic := range r.SourceTopics(n) {
			o, seen := first[topic]
			if !seen {
				first[topic] = n
				continue
			}
			if r.subOf[o.ID] != r.subOf[n.ID] {
				errs = append(errs, &Error{n.Site, fmt.Sprintf(
					"topic %q is read here by the pattern %q and also at %s, in two parts of the topology that are not connected: a topic is read once; make the patterns such that they share no topic, or read both with one StreamPattern and divide its records by RecordContext.Topic", topic, n.Pattern.Text, o.Site)})
			}
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return checkSources(r.nodes, r.SourceTopics)
}

// SourceTopics returns the external topics that a source reads: those that it
// names, or those that its pattern matched.
func (r *Resolved) SourceTopics(n *Node) []string {
	if n.Pattern != nil {
		return r.matched[n.ID]
	}
	return n.Topics
}

// Matched returns the topics that were found by patterns, sorted.
func (r *Resolved) Matched() []string {
	var out []string
	for _, topics := range r.matched {
		out = append(out, topics...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Inputs returns the external topics that are read, sorted.
func (r *Resolved) Inputs() []string { return r.topics(r.SourceTopics) }

// Reset returns the offset reset of an external input.
func (r *Resolved) Reset(topic string) OffsetReset { return resetOf(r.nodes, r.SourceTopics, topic) }

// IdleMs returns the idle timeout of an external input, 0 for the
// application's.
func (r *Resolved) IdleMs(topic string) int64 { return idleOf(r.nodes, r.SourceTopics, topic) }

// bind makes the subtopologies with the topics that they read here.
func (r *Resolved) bind() {
	for _, s := range r.subs {
		c := *s
		c.resolved = r
		for _, n := range s.Nodes {
			if n.Pattern != nil {
				c.Topics = append(slices.Clone(c.Topics), r.matched[n.ID]...)
			}
		}
		slices.Sort(c.Topics)
		c.Topics = slices.Compact(c.Topics)
		r.bound = append(r.bound, &c)
	}
}
