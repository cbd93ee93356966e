package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/runtime"
)

// looking makes an application look at its topics often.
var looking = settingsOf(func(c *runtime.Config) { c.ListTopicsEvery = 500 * time.Millisecond })

// addPartitions makes a topic of the test larger.
func (l *lab) addPartitions(topic string, count int32) {
	l.Helper()
	admin, err := sarama.NewClusterAdmin(l.kafka.Brokers(), servers.SaramaConfig())
	l.must(err)
	defer admin.Close()
	l.must(admin.CreatePartitions(topic, count, nil, false))
}

// TestFaultPartitionsAdded: somebody adds partitions to an input topic while the
// application runs: it ends and says so, since keys that moved would miss their
// state. So does every start after that. In both modes. Real Kafka and S3.
func TestFaultPartitionsAdded(t *testing.T) {
	for name, lab := range map[string]func(*testing.T, string, int32) *lab{"barrier": newLab, "changelog": newLogLab} {
		t.Run(name, func(t *testing.T) {
			l := lab(t, "sums", 2)
			committed := l.read("out", true)
			l.produce(l.numbers(0, 10)...)
			a := l.run("a", looking)
			l.awaitCount(committed, 20, 60*time.Second)
			l.addPartitions(l.topic("in"), 3)
			l.wantError(a.wait(60*time.Second), l.topic("in"), "got more partitions: it has 3", "read 2", "new application id")
			l.wantError(l.run("a").wait(60*time.Second), "partition")
			l.fold(committed, triangle)
		})
	}
}

// makeAnew makes a topic that was deleted a moment ago, and had the id. A broker that
// has not heard of the deletion yet still shows the old one.
func (l *lab) makeAnew(topic string, was [16]byte) {
	l.Helper()
	var err error
	defer func() {
		if err != nil {
			l.Logf("make %s anew: %v", topic, err)
		}
	}()
	l.eventually(20*time.Second, "the topic is made anew", func() bool {
		ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
		defer cancel()
		err = l.client.CreateTopics(ctx, l.parts, topic)
		id := l.topicID(topic)
		return err == nil && id != was && id != [16]byte{}
	})
}

// topicID is zero for a topic that is not there.
func (l *lab) topicID(topic string) [16]byte {
	l.Helper()
	found, err := l.client.K.Admin().DescribeTopics(l.ctx, false, topic)
	l.must(err)
	return found[topic].ID
}

// deleting deletes topics while an application runs, and returns the error with
// which it ends.
func (l *lab) deleting(a *local, again bool, topic string) error {
	l.Helper()
	was := l.topicID(topic)
	l.must(l.client.K.Admin().DeleteTopics(l.ctx, topic))
	if again {
		l.makeAnew(topic, was)
	}
	return a.wait(90 * time.Second)
}

// TestFaultTopicDeleted: while the application runs somebody deletes a topic that
// it reads, with or without making it anew, or one that it writes: it ends with an
// error that names the topic and says what to do. Real Kafka and S3.
func TestFaultTopicDeleted(t *testing.T) {
	type row struct {
		topic    string // %s-… of the application, or the test's
		internal bool
		again    bool
		quick    bool
		says     []string
	}
	for name, tt := range map[string]row{
		"repartition":            {topic: "-by-word-repartition", internal: true, says: []string{"tidegate repair"}},
		"repartition, made anew": {topic: "-by-word-repartition", internal: true, again: true, quick: true, says: []string{"made anew", "tidegate repair"}},
		"control log":            {topic: "-control", internal: true, says: []string{"control log", "tidegate repair"}},
		"control log, made anew": {topic: "-control", internal: true, again: true, says: []string{"made anew", "control log", "tidegate repair"}},
		"input":                  {topic: "in", says: []string{"new application id"}},
		"input, made anew":       {topic: "in", again: true, says: []string{"made anew", "new application id"}},
		"output":                 {topic: "out", says: []string{"does not exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			if !tt.quick {
				onlyMakeFaults(t)
			}
			l := newLab(t, "counts", 2)
			committed := l.read("out", true)
			l.produce(l.words(0, 500, 20)...)
			a := l.run("a")
			l.awaitCount(committed, 500, 60*time.Second)
			full := l.topic(tt.topic)
			if tt.internal {
				full = l.base.App + tt.topic
			}
			if tt.topic == "out" {
				committed.Close()
			}
			if tt.topic != "out" { // that one is deleted while no transaction writes it
				l.produce(l.words(500, 100, 20)...)
			}
			begun := time.Now()
			if tt.topic == "out" {
				l.must(l.client.K.Admin().DeleteTopics(l.ctx, full))
				l.produce(l.words(600, 100, 20)...)
				l.wantError(a.wait(90*time.Second), append(tt.says, full)...)
			} else {
				l.wantError(l.deleting(a, tt.again, full), append(tt.says, full)...)
			}
			t.Logf("it ended after %v: %v", time.Since(begun).Round(100*time.Millisecond), a.err)
		})
	}
}

// TestFaultChangelogDeleted: in changelog mode somebody deletes a store's changelog
// topic, or a repartition topic, while the application runs, with or without making
// it anew, and whether it is written then or not: it ends with an error that names
// the topic and says what to do. Nothing that was visible is taken back. Real Kafka.
func TestFaultChangelogDeleted(t *testing.T) {
	type row struct {
		topic        string // of the application
		again, quiet bool   // made anew; nothing is written any more
		atLeastOnce  bool
		quick        bool
		says         []string
	}
	for name, tt := range map[string]row{
		"deleted":                {topic: "-sums-changelog", says: []string{"somebody deleted", "new application id", "reset"}},
		"deleted, at least once": {topic: "-sums-changelog", atLeastOnce: true, says: []string{"somebody deleted", "new application id", "reset"}},
		"deleted, nothing to do": {topic: "-sums-changelog", quiet: true, quick: true, says: []string{"somebody deleted", "new application id", "reset"}},
		"made anew":              {topic: "-sums-changelog", again: true, quick: true, says: []string{"made anew", "new application id", "reset"}},
		"repartition":            {topic: "-by-word-repartition", says: []string{"deleted", "tidegate reset"}},
		"repartition, made anew": {topic: "-by-word-repartition", again: true, says: []string{"made anew", "tidegate reset"}},
	} {
		t.Run(name, func(t *testing.T) {
			if !tt.quick {
				onlyMakeFaults(t)
			}
			of := "sums"
			if !strings.Contains(tt.topic, of) {
				of = "counts"
			}
			l := newLogLab(t, of, 2)
			committed := l.read("out", true)
			first, then := l.numbers(0, 10), l.numbers(10, 10)
			if of == "counts" {
				first, then = l.words(0, 500, 20), l.words(500, 100, 20)
			}
			l.produce(first...)
			var opts []tidegate.Option
			if tt.quiet || tt.again {
				opts = append(opts, looking)
			}
			if tt.atLeastOnce {
				opts = append(opts, tidegate.WithGuarantee(tidegate.AtLeastOnce))
			}
			a := l.run("a", opts...)
			l.awaitCount(committed, len(first), 60*time.Second)
			begun, topic := time.Now(), l.base.App+tt.topic
			was := l.topicID(topic)
			l.must(l.client.K.Admin().DeleteTopics(l.ctx, topic))
			if tt.again {
				l.makeAnew(topic, was)
			}
			if !tt.quiet {
				l.produce(then...)
			}
			l.wantError(a.wait(110*time.Second), append(tt.says, topic)...)
			t.Logf("it ended after %v: %v", time.Since(begun).Round(100*time.Millisecond), a.err)
		})
	}
}
