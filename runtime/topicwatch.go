package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
		timer := time.NewTimer(d.cfg.ListTopicsEvery)
		defer timer.Stop()
		missing := map[string]time.Time{} // since when internal topics are not found
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			try, end := context.WithTimeout(ctx, 10*time.Second)
			err := d.sameTopics(try, missing)
			end()
			if err != nil {
				d.fail(err)
				return
			}
			if len(missing) > 0 {
				timer.Reset(min(d.cfg.ListTopicsEvery, time.Second))
			} else {
				timer.Reset(d.cfg.ListTopicsEvery)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// missingFor is how long an internal topic may be missing before that is taken
// for true: a broker may be behind in its metadata.
const missingFor = 10 * time.Second

// sameTopics reports what changed about the topics that are read. An external
// topic that is not there is told by who reads it; of internal ones missing
// remembers since when. A broker that does not answer says nothing.
func (d *deployment) sameTopics(ctx context.Context, missing map[string]time.Time) error {
	inputs := slices.Concat(d.plan.Inputs(), d.plan.GlobalTopics())
	names := slices.Concat(inputs, d.internal)
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
			if !slices.Contains(d.internal, name) {
				continue
			}
			if since, ok := missing[name]; !ok {
				missing[name] = time.Now()
			} else if time.Since(since) >= missingFor {
				errs = append(errs, d.deleted(name))
			}
			continue
		}
		delete(missing, name)
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
	case slices.Contains(d.changelogs, topic):
		return d.changelogLost(err)
	}
	return fmt.Errorf("%w: records between tasks that were acknowledged are lost: %s", err, d.repairAdvice())
}

// deleted is the error of an internal topic that was there at the start and is
// not any more.
func (d *deployment) deleted(topic string) error {
	return d.remade(topic, fmt.Errorf("somebody deleted topic %s while the application ran", topic))
}

// changelogLost says what a changelog topic that is gone means.
func (d *deployment) changelogLost(err error) error {
	return fmt.Errorf("%w: the state that it held has no other whole copy, and the committed offsets belong to it; use a new application id, or %s; the application then reads its inputs again", err, resetAdvice(d.cfg, Changelog))
}

// sameChangelogs reports that changelog topics are not those that the application
// started with: what would be restored from them is not the state that belongs to
// the committed offsets.
func (d *deployment) sameChangelogs(ctx context.Context, topics []string) error {
	found, err := d.admin.DescribeTopics(ctx, false, topics...)
	if err != nil {
		return err
	}
	for _, name := range topics {
		want, t := d.topicIDs[name], found[name]
		switch {
		case !slices.Contains(d.changelogs, name): // an input that serves as one
		case !t.Exists:
			return &topicMissingError{name}
		case t.ID != [16]byte{} && t.ID != want:
			return d.remade(name, &kafka.TopicRemadeError{Topic: name, Had: want, Has: t.ID})
		}
	}
	return nil
}

// topicMissingError says that a broker does not know an internal topic, which may
// be because it is behind.
type topicMissingError struct{ topic string }

func (e *topicMissingError) Error() string { return fmt.Sprintf("topic %s is not there", e.topic) }

// writeAdvice adds what it means that an internal topic, which was there at the
// start, cannot be written any more.
func (d *deployment) writeAdvice(err error) error {
	var refused *kafka.Error
	if code, _ := kafka.Code(err); code != unknownTopic || !errors.As(err, &refused) {
		return err
	}
	if slices.Contains(d.changelogs, refused.TP.Topic) {
		return d.changelogLost(fmt.Errorf("%w: somebody deleted this changelog topic", err))
	}
	if _, internal := d.topicIDs[refused.TP.Topic]; internal && !slices.Contains(d.plan.Sinks(), refused.TP.Topic) {
		return fmt.Errorf("%w: somebody deleted this internal topic, with records that were acknowledged: %s", err, d.repairAdvice())
	}
	return err
}

// controlLost says what a control log that is gone means.
func (d *deployment) controlLost(err error) error {
	return fmt.Errorf("%w: somebody deleted the control log %s, which only the application itself may write; what is completed stays in the checkpoint store, but which transactions belong to it was in the log: %s", err, d.controlTopic, d.repairAdvice())
}

// fail ends the application with an error that did not come from one of its
// instances.
func (d *deployment) fail(err error) { d.globals.fail(err) }

// repairAdvice is what to do when a topic of the application's own is gone.
func (d *deployment) repairAdvice() string {
	if d.cfg.Mode == Changelog {
		return resetAdvice(d.cfg, Changelog)
	}
	return fmt.Sprintf("stop all instances, and see with `tidegate repair --brokers %s --application %s --checkpoints …` from which checkpoint StartFrom can go on", strings.Join(d.cfg.Kafka.Brokers, ","), d.cfg.ApplicationID)
}
