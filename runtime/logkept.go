package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/changelog"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/topology"
)

// In changelog mode offsets, state and records between tasks are in topics that
// somebody can delete while the application is stopped, and nothing but the
// topology says how state is written. So committed offsets name the topics that
// they rely on and how the stores are written, and a start compares (ADR 0023).

// kept is what the offsets of a task name.
func (d *deployment) kept(t ids.TaskID) (topics []changelog.KeptTopic, stores []changelog.KeptStore) {
	keep := func(topic string) {
		if k, ok := changelog.KeepTopic(topic, d.topicIDs[topic]); ok {
			topics = append(topics, k)
		}
	}
	for _, s := range d.plan.Subtopologies()[t.Sub].Stores {
		if slices.Contains(d.cfg.Unlogged, s.Name) {
			continue
		}
		if s.FromSource == nil {
			keep(changelog.TopicName(d.cfg.ApplicationID, s.Name))
		}
		if t.Partition == 0 { // all tasks write it alike, and texts are long
			stores = append(stores, changelog.KeepStore(s))
		}
	}
	for _, topic := range d.plan.TaskOutputs(t.Sub) {
		keep(topic)
	}
	return topics, stores
}

// checkKept compares what an offset names with the topology and with the
// application's internal topics as they are; one that is not in has is missing.
func (d *deployment) checkKept(m changelog.Meta, has map[string][16]byte) error {
	var errs []error
	for _, name := range d.internal {
		at := slices.IndexFunc(m.Topics, func(k changelog.KeptTopic) bool { return k.Name == changelog.HashTopic(name) })
		if at < 0 {
			continue
		}
		id, exists := has[name]
		now, known := changelog.KeepTopic(name, id)
		switch {
		case !exists:
			errs = append(errs, d.lostTopic(name, "was deleted"))
		case known && now != m.Topics[at]:
			errs = append(errs, d.lostTopic(name, "was deleted and made anew"))
		}
	}
	for _, k := range m.Stores {
		at := slices.IndexFunc(d.plan.Stores(), func(s *topology.Store) bool { return s.Name == k.Name })
		if at >= 0 && !slices.Contains(d.cfg.Unlogged, k.Name) {
			errs = append(errs, sameStore(k, d.plan.Stores()[at], resetAdvice(d.cfg, Changelog)))
		}
	}
	return errors.Join(errs...)
}

// lostTopic says what it means that an internal topic is not the one that the
// committed offsets rely on.
func (d *deployment) lostTopic(name, how string) error {
	err := fmt.Errorf("topic %s %s since the application last ran, and the offsets of consumer group %s belong to what it held", name, how, d.cfg.ApplicationID)
	if slices.Contains(d.changelogs, name) {
		return d.changelogLost(err)
	}
	return fmt.Errorf("%w: records between tasks that were acknowledged are lost; use a new application id, or %s; the application then reads its inputs again", err, resetAdvice(d.cfg, Changelog))
}

// sameStore refuses a store whose entries would be read otherwise than they were
// written.
func sameStore(had changelog.KeptStore, s *topology.Store, reset string) error {
	now := changelog.KeepStore(s)
	if had.Source != now.Source {
		if now.Source {
			return nil // its rows come from the source topic from now on
		}
		return fmt.Errorf("store %q had no changelog because of ReuseSourceTopics, and without that option its changelog would be empty: keep the option, or %s", s.Name, reset)
	}
	other := func(what, had, now, instead string) error {
		return fmt.Errorf("store %q holds %s, the topology reads %s: %s, give the store another name, under which it begins empty, or %s", s.Name, fmt.Sprintf(what, short(had)), short(now), instead, reset)
	}
	var errs []error
	switch {
	case !changelog.Same(had.Format, s.Format):
		errs = append(errs, other("entries of format %s", had.Format, s.Format, "use the step that wrote them"))
	case !changelog.Same(had.Layout, now.Layout):
		errs = append(errs, other("windows of another kind (%s)", had.Layout, now.Layout, "use the windows of before"))
	}
	for _, c := range []struct {
		what, had string
		now       topology.Serde
	}{{"keys", had.Key, s.Key}, {"values", had.Value, s.Value}} {
		if !changelog.Same(c.had, c.now.Fingerprint) && (c.now.Accepts == nil || !c.now.Accepts(c.had)) {
			errs = append(errs, other(c.what+" written by serde %s", c.had, "them with "+c.now.Fingerprint, "use the old serde, or one that accepts the old fingerprint"))
		}
	}
	return errors.Join(errs...)
}

// checkCommitted is checkKept for all committed offsets, before topics that are
// missing would be made. It does not wait for transactions that are under way:
// each task's start compares again.
func (d *deployment) checkCommitted(ctx context.Context) error {
	var inputs []ids.TopicPartition
	for _, t := range d.plan.Tasks() {
		external, internal := d.plan.TaskInputs(t)
		inputs = slices.Concat(inputs, external, internal)
	}
	offsets, err := d.admin.LastOffsets(ctx, d.cfg.ApplicationID, inputs...)
	if err != nil {
		return fmt.Errorf("read what the committed offsets belong to: %w", err)
	}
	var metas []changelog.Meta
	for _, tp := range inputs {
		m, ours, err := changelog.DecodeMeta(offsets[tp].Metadata)
		if err != nil {
			return fmt.Errorf("offset of %s in group %s: %w", tp, d.cfg.ApplicationID, err)
		}
		if ours && len(m.Topics)+len(m.Stores) > 0 {
			metas = append(metas, m)
		}
	}
	if len(metas) == 0 {
		return nil
	}
	for begun := time.Now(); ; {
		found, err := d.admin.DescribeTopics(ctx, false, d.internal...)
		if err != nil {
			return fmt.Errorf("describe internal topics: %w", err)
		}
		has := map[string][16]byte{}
		for name, t := range found {
			if t.Exists {
				has[name] = t.ID
			}
		}
		var errs []error
		for _, m := range metas {
			errs = append(errs, d.checkKept(m, has))
		}
		err = distinct(errs)
		if err == nil || len(has) == len(d.internal) || time.Since(begun) >= missingFor {
			return err
		}
		select { // a broker may be behind in its metadata
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(missingFor / 20):
		}
	}
}

// distinct joins errors, each text once: tasks of one subtopology say the same.
func distinct(errs []error) error {
	seen := map[string]bool{}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool {
		if err == nil || seen[err.Error()] {
			return true
		}
		seen[err.Error()] = true
		return false
	})...)
}

// internalNames are the names of topics.
func internalNames(specs []kafka.TopicSpec) (out []string) {
	for _, s := range specs {
		out = append(out, s.Name)
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
