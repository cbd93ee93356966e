package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/kafka"
)

// Topics can change while an application reads them: somebody adds partitions,
// or deletes a topic and makes it anew. Tasks, state and offsets belong to the
// topics as they were found at the start, so both end the application, with an
// error that says what to do, before results are made of something else.

// watchInputs looks at the topics now and then until stop is called.
func (d *deployment) watchInputs() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(d.cfg.ListTopicsEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			try, end := context.WithTimeout(ctx, 10*time.Second)
			err := d.sameTopics(try)
			end()
			if err != nil {
				d.fail(err)
				return
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// sameTopics reports what changed about the topics that are read. A topic that
// is not there is told by who reads it; a broker that does not answer says
// nothing.
func (d *deployment) sameTopics(ctx context.Context) error {
	inputs := slices.Concat(d.plan.Inputs(), d.plan.GlobalTopics())
	names := slices.Clone(inputs)
	for _, t := range d.plan.InternalTopics() {
		names = append(names, t.Topic)
	}
	if d.cfg.Mode == Barrier {
		names = append(names, d.controlTopic)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	found, err := d.admin.DescribeTopics(ctx, false, names...)
	if err != nil {
		return nil //nolint:nilerr // the next look tells
	}
	var errs []error
	for _, name := range names {
		t := found[name]
		if !t.Exists {
			continue
		}
		if want, known := d.topicIDs[name]; known && t.ID != [16]byte{} && t.ID != want {
			errs = append(errs, d.remade(name, &kafka.TopicRemadeError{Topic: name, Had: want, Has: t.ID}))
			continue
		}
		if read := d.plan.Partitions(name); slices.Contains(inputs, name) && t.Partitions > read {
			errs = append(errs, morePartitions(name, read, t.Partitions))
		}
	}
	return errors.Join(errs...)
}

func morePartitions(topic string, read, has int32) error {
	return fmt.Errorf("input topic %s got more partitions: it has %d, the application's tasks read %d; records of the new ones would not be read, and keys that moved to them would miss their state; state and offsets are intact: read a topic with %d partitions into which the records are copied, or start under a new application id, which begins without state", topic, has, read, read)
}

// remade says what a topic that was made anew means.
func (d *deployment) remade(topic string, err error) error {
	switch {
	case topic == d.controlTopic:
		return d.controlLost(err)
	case slices.Contains(d.plan.GlobalTopics(), topic):
		return fmt.Errorf("%w: start the application again, it reads the global table from the topic's start", err)
	case slices.Contains(d.plan.Inputs(), topic):
		return fmt.Errorf("%w: the application's offsets belong to the topic that was deleted; to read a new one from its start, use a new application id", err)
	}
	return fmt.Errorf("%w: records between tasks that were acknowledged are lost; start under a new application id", err)
}

// writeAdvice adds what it means that an internal topic, which was there at the
// start, cannot be written any more.
func (d *deployment) writeAdvice(err error) error {
	var refused *kafka.Error
	if code, _ := kafka.Code(err); code != unknownTopic || !errors.As(err, &refused) {
		return err
	}
	if _, internal := d.topicIDs[refused.TP.Topic]; internal && !slices.Contains(d.plan.Sinks(), refused.TP.Topic) {
		return fmt.Errorf("%w: somebody deleted this internal topic, with records that were acknowledged: start under a new application id", err)
	}
	return err
}

// controlLost says what a control log that is gone means.
func (d *deployment) controlLost(err error) error {
	return fmt.Errorf("%w: somebody deleted the control log %s, which only the application itself may write; what is completed stays in the checkpoint store, but which transactions belong to it was in the log: use a new application id, and decide where its inputs begin", err, d.controlTopic)
}

// fail ends the application with an error that did not come from one of its
// instances.
func (d *deployment) fail(err error) { d.globals.fail(err) }
