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

// ErrOtherMode says that an application's state was written in the other mode.
var ErrOtherMode = errors.New("the application's state was written in another mode")

// checkMode refuses to start on state of the other mode: in barrier mode the
// control log is its trace, in changelog mode the metadata of committed offsets.
// The two keep state and offsets in places that do not know of each other.
func (d *deployment) checkMode(ctx context.Context, topo *topology.Topology) error {
	var trace string
	var err error
	other := Barrier
	if d.cfg.Mode == Changelog {
		trace, err = d.traceOfBarriers(ctx)
	} else {
		// With a control log this is where the application belongs, and its offsets
		// need not be asked for: transactions that it prepared may hold them back
		// until an instance that has yet to start commits them.
		if trace, err = d.traceOfBarriers(ctx); err == nil && trace != "" {
			return nil
		}
		other = Changelog
		if err == nil {
			trace, err = d.traceOfChangelogs(ctx, topo)
		}
	}
	if err != nil {
		return fmt.Errorf("find out in which mode the application ran: %w", err)
	}
	if trace == "" {
		return nil
	}
	return fmt.Errorf("%w: application %q ran in %s mode (%s), this instance was started in %s mode: start it with WithMode(%s), or %s", ErrOtherMode,
		d.cfg.ApplicationID, other, trace, d.cfg.Mode, optionOf(other), resetAdvice(d.cfg, other))
}

func optionOf(m Mode) string {
	if m == Changelog {
		return "Changelog"
	}
	return "Barrier"
}

// resetAdvice is the command that gives the state of a mode up.
func resetAdvice(c Config, of Mode) string {
	checkpoints := ""
	if of == Barrier {
		checkpoints = " --checkpoints …"
	}
	return fmt.Sprintf("give its state up: stop all instances and run `tidegate reset --brokers %s --application %s%s`, which shows what it would delete, then with --execute", strings.Join(c.Kafka.Brokers, ","), c.ApplicationID, checkpoints)
}

func (d *deployment) traceOfBarriers(ctx context.Context) (string, error) {
	found, err := d.admin.DescribeTopics(ctx, false, d.controlTopic)
	if err != nil || !found[d.controlTopic].Exists {
		return "", err
	}
	tp := ids.TopicPartition{Topic: d.controlTopic}
	ends, err := d.admin.ListOffsets(ctx, kafka.Latest, tp)
	if err != nil || ends[tp] == 0 {
		return "", err
	}
	return "it has a control log, topic " + d.controlTopic, nil
}

func (d *deployment) traceOfChangelogs(ctx context.Context, topo *topology.Topology) (string, error) {
	matched, err := d.matching(ctx, topo, nil)
	if err != nil {
		return "", err
	}
	inputs := append(topo.Inputs(), matched...)
	slices.Sort(inputs)
	inputs = slices.Compact(inputs)
	found, err := d.admin.DescribeTopics(ctx, false, inputs...)
	if err != nil {
		return "", err
	}
	var tps []ids.TopicPartition
	for _, name := range inputs {
		for p := range found[name].Partitions {
			tps = append(tps, ids.TopicPartition{Topic: name, Partition: p})
		}
	}
	offsets, err := d.admin.FetchOffsets(ctx, d.cfg.ApplicationID, tps...)
	if err != nil {
		return "", err
	}
	for _, tp := range tps {
		if o, ok := offsets[tp]; ok && strings.HasPrefix(o.Metadata, changelog.MetaPrefix) {
			return fmt.Sprintf("changelog mode committed offset %d of %s", o.Offset, tp), nil
		}
	}
	return "", nil
}

// validateChangelog checks what only changelog mode uses. Options that only
// barrier mode uses have no effect and are no error, so that switching the mode
// is one option.
func (c Config) validateChangelog(bad func(format string, args ...any)) {
	if c.CommitInterval < time.Millisecond {
		bad("WithCommitInterval(%v): want at least 1ms, or 0 for the default", c.CommitInterval)
	}
	if c.AcceptableLag < 1 {
		bad("WithAcceptableLag(%d): want at least 1 record, or 0 for the default", c.AcceptableLag)
	}
	if c.StartFrom != "" {
		bad("StartFrom(%q) begins with a checkpoint, and WithMode(Changelog) has none: use WithMode(Barrier), or leave it out", c.StartFrom)
	}
	if c.RestoreFrom != nil {
		bad("RestoreFrom(%d) goes back to a checkpoint, and WithMode(Changelog) has none: use WithMode(Barrier), or leave it out", *c.RestoreFrom)
	}
}

// checkUnlogged refuses names that are no store's, in either mode.
func (d *deployment) checkUnlogged() error {
	var names []string
	for _, s := range d.plan.Stores() {
		names = append(names, s.Name)
	}
	for _, name := range d.cfg.Unlogged {
		if !slices.Contains(names, name) {
			return fmt.Errorf("WithoutChangelog(%q): the topology has no such store, it has %q", name, names)
		}
	}
	return nil
}

// checkTransactionTimeout compares the transaction timeout with what it must
// outlast and with what the broker allows.
func (c Config) checkTransactionTimeout(most time.Duration) error {
	switch {
	case c.Guarantee == AtLeastOnce:
		return nil
	case c.TransactionTimeout > most:
		return fmt.Errorf("WithTransactionTimeout(%v) is above the broker's transaction.max.timeout.ms of %v: lower the one or raise the other", c.TransactionTimeout, most)
	case c.TransactionTimeout < c.CommitInterval+time.Second:
		return fmt.Errorf("WithTransactionTimeout(%v) must be at least a second above WithCommitInterval(%v): an interval's transaction is open for that long", c.TransactionTimeout, c.CommitInterval)
	}
	return nil
}
