package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/tasks"
	"github.com/tidegate/tidegate/topology"
)

// Sources by pattern. Which topics a pattern matches is found at the start of a
// process and then stays: with the list, partitions and tasks are fixed, as with
// topics that are named. The instances of a group must agree on the list, so it
// is a part of the fingerprint that members show each other, and the list of the
// group's leader holds: a member with another one ends, takes the leader's and
// goes on as a new instance. Barriers and manifests carry the fingerprint
// without the list, so a topic that appears between two starts does not turn the
// checkpoint into that of another topology.

// matching lists the topics that are read by pattern; told, if not nil, is the
// list of the group's leader.
func (d *deployment) matching(ctx context.Context, topo *topology.Topology, told []string) ([]string, error) {
	if len(topo.Patterns()) == 0 {
		return nil, nil
	}
	if told == nil {
		all, err := d.admin.ListTopics(ctx)
		if err != nil {
			return nil, fmt.Errorf("list topics: %w", err)
		}
		told = all
	}
	return topo.Matching(d.cfg.ApplicationID, told), nil
}

// inGroup is the fingerprint that members of the group compare:
// "fingerprint?topic,topic" where there are patterns.
func inGroup(plan *topology.Resolved) string {
	if len(plan.Patterns()) == 0 {
		return plan.Fingerprint()
	}
	return plan.Fingerprint() + "?" + strings.Join(plan.Matched(), ",")
}

// otherTopics ends an instance whose list of topics is not that of the leader.
type otherTopics struct {
	group string // the leader's fingerprint in the group
	list  []string
}

func (e *otherTopics) Error() string {
	return "the leader of the consumer group reads other topics by pattern: " + strings.Join(e.list, ", ")
}

// differs says what it means that the leader's fingerprint is another one.
func (d *deployment) differs(other string) error {
	_, list, ok := strings.Cut(other, "?")
	if ok && len(d.plan.Patterns()) > 0 {
		if topics := strings.Split(list, ","); !slices.Equal(topics, d.plan.Matched()) {
			return &otherTopics{other, topics}
		}
	}
	return foreignTopology(d.cfg.ApplicationID, other, d.groupPrint)
}

// adopt takes the leader's list. A topic of it that was made a moment ago may
// not be known everywhere yet.
func (d *deployment) adopt(ctx context.Context, topo *topology.Topology, other *otherTopics) error {
	d.cfg.Logger.Info("reading the topics that the leader of the consumer group reads", "topics", other.list, "instead of", d.plan.Matched())
	for deadline := time.Now().Add(connectFor); ; {
		err := d.resolve(ctx, topo, other.list)
		if err == nil && d.groupPrint == other.group {
			return nil
		}
		if ctx.Err() != nil || err != nil && permanent(err) {
			return err
		}
		if time.Now().After(deadline) {
			if err == nil {
				err = foreignTopology(d.cfg.ApplicationID, other.group, d.groupPrint)
			}
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// follow runs instances until one ends otherwise than because of its list of
// topics.
func (d *deployment) follow(ctx context.Context, topo *topology.Topology, run func(context.Context) error) error {
	for {
		stop, stopInputs := d.watchTopics(topo), d.watchInputs()
		err := run(ctx)
		stop()
		stopInputs()
		other := (*otherTopics)(nil)
		if !errors.As(err, &other) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err() // stopping: others have the tasks
		}
		if err := d.adopt(ctx, topo, other); err != nil {
			return err
		}
		d.status.set(Joining, nil)
	}
}

// watchTopics tells of topics that appear later and match, until stop is called.
func (d *deployment) watchTopics(topo *topology.Topology) (stop func()) {
	if len(topo.Patterns()) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	known := d.plan.Matched()
	wg.Go(func() {
		tick := time.NewTicker(d.cfg.ListTopicsEvery)
		defer tick.Stop()
		for {
			try, end := context.WithTimeout(ctx, 10*time.Second)
			now, err := d.matching(try, topo, nil)
			end()
			var later []string
			for _, topic := range now {
				if !slices.Contains(known, topic) {
					later = append(later, topic)
				}
			}
			if err == nil && len(later) > 0 {
				known = append(known, later...)
				d.cfg.Logger.Warn("topics that match a source pattern appeared and are not read yet: stop all instances and start them again", "topics", later)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// lateInputs finds where to begin with inputs that the checkpoint does not hold:
// topics that matched a pattern only later.
func (r *run) lateInputs(t ids.TaskID, restored *tasks.Restored) error {
	i := r.i
	var late []ids.TopicPartition
	external, _ := i.plan.TaskInputs(t)
	for _, tp := range external {
		if _, ok := restored.External[tp]; !ok {
			late = append(late, tp)
		}
	}
	if len(late) == 0 {
		return nil
	}
	var found []checkpoint.ExternalOffset
	if !i.retry(r.ctx, "find where new input topics begin", func(ctx context.Context) (err error) {
		found, err = i.firstOffsets(ctx, late)
		return err
	}) {
		return r.ctx.Err()
	}
	for _, o := range found {
		restored.External[o.TopicPartition] = o.Offset
		i.log.Info("reading an input that the checkpoint does not hold", "partition", o.TopicPartition.String(), "offset", o.Offset)
	}
	return nil
}

// moved explains a refused topology by topics of patterns: a later one with more
// partitions than there are tasks, or one that is gone.
func (i *instance) moved(m checkpoint.Manifest) error {
	had := map[string]int32{}
	for _, t := range m.Topics {
		had[t.Topic] = t.Partitions
	}
	taskCount := map[int32]int32{}
	for _, t := range m.Tasks {
		taskCount[t.Task.Sub] = max(taskCount[t.Task.Sub], t.Task.Partition+1)
	}
	var errs []error
	for _, t := range m.Topics {
		matches := len(i.plan.Matching(m.App, []string{t.Topic})) > 0
		if !t.Internal && matches && !slices.Contains(i.plan.Matched(), t.Topic) {
			errs = append(errs, fmt.Errorf("topic %q, which checkpoint %d read and which matches a source pattern, is gone: it had %d partitions", t.Topic, m.Checkpoint, t.Partitions))
		}
	}
	for _, topic := range i.plan.Matched() {
		sub, _ := i.plan.Reader(topic)
		n := i.plan.Partitions(topic)
		if _, read := had[topic]; !read && taskCount[sub] > 0 && n > taskCount[sub] {
			errs = append(errs, fmt.Errorf("topic %q, which appeared after checkpoint %d and matches a source pattern, has %d partitions, and the checkpoint has %d tasks to read them: make it with at most %d partitions, or exclude it from the pattern", topic, m.Checkpoint, n, taskCount[sub], taskCount[sub]))
		}
	}
	return errors.Join(errs...)
}
