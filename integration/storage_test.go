package integration

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/runtime"
)

// TestNoNameTwice: a checkpoint is cut off by kill -9 with its files stored,
// and the process that goes on from the one before makes files of the same
// names with other content. What is restored after that has its own content;
// restoring twice loses and doubles nothing. Real Kafka and S3, real processes
// (R15).
func TestNoNameTwice(t *testing.T) {
	l := newLab(t, "counts", 2)
	committed := l.read("out", true)
	c := l.start("a")
	total := 0
	feed := func(n int) {
		l.produce(l.words(total, n, 30)...)
		total += n
	}
	feed(1000)
	l.awaitCount(committed, total, 60*time.Second)
	for range 2 {
		c.arm("prepared", 0, "kill")
		feed(300)
		c.awaitKilled(60 * time.Second)
		feed(700) // the next checkpoint holds something else
		c = l.start("a")
		l.awaitCount(committed, total, 60*time.Second)
		for range 2 {
			l.must(c.p.Kill())
			c = l.start("a")
			c.awaitRunning()
			feed(100)
			l.awaitCount(committed, total, 60*time.Second)
		}
	}
	c.close()
	l.running(committed)
}

// TestRestoreFromAnOlderCheckpoint: refused unless the user allows duplicates;
// then the doubled span is told, later checkpoints are retired, and output from
// there is written again, and once only however often the application is
// started with the option. Repartition records that were purged meanwhile are
// not needed. Real Kafka and S3.
func TestRestoreFromAnOlderCheckpoint(t *testing.T) {
	l := newLab(t, "counts", 2)
	committed := l.read("out", true)
	keep := tidegate.WithRetainedCheckpoints(1000)
	a := l.run("a", keep)
	l.produce(l.words(0, 400, 20)...)
	l.awaitCount(committed, 400, 60*time.Second)
	old := a.Health().LastCheckpoint
	l.produce(l.words(400, 400, 20)...)
	l.awaitCount(committed, 800, 60*time.Second)
	l.purged("by-word")
	a.close()

	_, err := tidegate.New(mustTopology(l), append(l.base.options(), tidegate.WithCheckpointStore(l.store()),
		func(c *runtime.Config) { c.RestoreFrom = &old })...)
	l.wantError(err, "RestoreFrom", "AllowDuplicates", fmt.Sprint(old))

	err = l.run("a", keep, tidegate.RestoreFrom(old+100000, tidegate.AllowDuplicates)).wait(60 * time.Second)
	l.wantError(err, "restore from checkpoint", "not kept")

	var told atomic.Value
	for k := range 2 {
		a = l.run("a", keep, tidegate.RestoreFrom(old, tidegate.AllowDuplicates), tidegate.WithLogger(slog.New(logHook(func(msg string, attrs map[string]string) {
			if attrs["input"] != "" {
				told.Store(msg + " " + attrs["input"])
			}
		}))))
		a.awaitRunning()
		l.awaitCount(committed, 1200, 60*time.Second)
		if k == 0 {
			text, _ := told.Load().(string)
			for p := range 2 {
				l.wantError(fmt.Errorf("%s", text), "second time", fmt.Sprintf("%s-%d: 200 to 399", l.topic("in"), p))
			}
		}
		a.close()
	}
	// Each word: 1…20, 21…40, and from 21 again.
	seen := map[string]int64{}
	for p, list := range committed.All() {
		for _, m := range list {
			seen[string(m.Key)]++
			want := seen[string(m.Key)]
			if want > 40 {
				want -= 20
			}
			if v := int64(binary.BigEndian.Uint64(m.Value)); v != want {
				t.Fatalf("%s at offset %d of partition %d: %d, want %d", m.Key, m.Offset, p, v, want)
			}
		}
	}
}

// deleteOffsets deletes the group's offsets, as its refusal recommends.
func (l *lab) deleteOffsets() {
	l.Helper()
	admin, err := sarama.NewClusterAdmin(l.kafka.Brokers(), servers.SaramaConfig())
	l.must(err)
	defer admin.Close()
	for p := range l.parts {
		l.must(admin.DeleteConsumerGroupOffset(l.base.App, l.topic("in"), p))
	}
}

func mustTopology(l *lab) *tidegate.Topology {
	topo, err := topologies[l.base.Topology](l.prefix)
	l.must(err)
	return topo
}

// purged waits until records of a repartition topic were deleted, and checks
// that none was deleted that the last completed checkpoint needs.
func (l *lab) purged(name string) {
	l.Helper()
	topic := l.base.App + "-" + name + "-repartition"
	var tps []ids.TopicPartition
	for p := range l.parts {
		tps = append(tps, ids.TopicPartition{Topic: topic, Partition: p})
	}
	l.eventually(30*time.Second, "the repartition topic is purged", func() bool {
		begins, err := l.client.K.Admin().ListOffsets(l.ctx, kafka.Earliest, tps...)
		l.must(err)
		return !slices.ContainsFunc(tps, func(tp ids.TopicPartition) bool { return begins[tp] == 0 })
	})
}

// TestGroupOffsetsReset: while the application is stopped somebody resets the
// group's offsets: refused with both values and the way out. Deleting them, as
// the error says, goes on from the checkpoint. Real Kafka and S3 (R28).
func TestGroupOffsetsReset(t *testing.T) {
	l := newLab(t, "sums", 2)
	committed := l.read("out", true)
	l.produce(l.numbers(0, 10)...)
	a := l.run("a")
	l.awaitCount(committed, 20, 60*time.Second)
	a.close()
	tp := ids.TopicPartition{Topic: l.topic("in"), Partition: 1}
	l.must(l.client.K.Admin().CommitOffsets(l.ctx, l.base.App, kafka.Membership{Generation: -1}, []kafka.Offset{{TP: tp, Offset: 3}}))
	err := l.run("a").wait(60 * time.Second)
	l.wantError(err, tp.String(), "the group has 3", "has 10", "--delete-offsets", l.base.App)

	l.deleteOffsets()
	l.produce(l.numbers(10, 10)...)
	a = l.run("a")
	l.awaitCount(committed, 40, 60*time.Second)
	a.close()
	l.fold(committed, triangle)
}

// TestControlLogDeleted: the control log is gone while checkpoints and group
// offsets exist: refused, never a silent new beginning. Real Kafka and S3
// (R24.3).
func TestControlLogDeleted(t *testing.T) {
	l := newLab(t, "sums", 2)
	committed := l.read("out", true)
	l.produce(l.numbers(0, 10)...)
	a := l.run("a")
	l.awaitCount(committed, 20, 60*time.Second)
	a.close()
	l.must(l.client.K.Admin().DeleteTopics(l.ctx, l.base.App+"-control"))
	err := l.run("a").wait(60 * time.Second)
	l.wantError(err, "the log was lost", "application id", l.base.App)
	l.deleteOffsets()
	err = l.run("a").wait(60 * time.Second)
	l.wantError(err, "the log was lost", "checkpoint store", "holds checkpoint")
}

// TestRepartitionTopicRecreated: while the application is stopped somebody
// deletes its repartition topic, which a start makes anew: records that were
// acknowledged may be gone, so it refuses and says so. Real Kafka and S3 (R29).
func TestRepartitionTopicRecreated(t *testing.T) {
	l := newLab(t, "counts", 2)
	committed := l.read("out", true)
	l.produce(l.words(0, 100, 10)...)
	a := l.run("a")
	l.awaitCount(committed, 100, 60*time.Second)
	a.close()
	topic := l.base.App + "-by-word-repartition"
	l.must(l.client.K.Admin().DeleteTopics(l.ctx, topic))
	err := l.run("a").wait(60 * time.Second)
	l.wantError(err, topic, "made anew", "tidegate repair")
}

// TestInputTopicRecreated is the same with an input topic: offsets of the old
// one mean nothing in the new one. Real Kafka and S3 (R28).
func TestInputTopicRecreated(t *testing.T) {
	l := newLab(t, "sums", 2)
	committed := l.read("out", true)
	l.produce(l.numbers(0, 10)...)
	a := l.run("a")
	l.awaitCount(committed, 20, 60*time.Second)
	a.close()
	l.must(l.client.K.Admin().DeleteTopics(l.ctx, l.topic("in")))
	l.eventually(20*time.Second, "the topic is made anew", func() bool {
		return l.client.CreateTopics(l.ctx, 2, l.topic("in")) == nil
	})
	l.produce(l.numbers(0, 30)...)
	err := l.run("a").wait(60 * time.Second)
	l.wantError(err, l.topic("in"), "made anew", "new application id")
}

// TestInputTopicTrimmed: records behind the checkpoint's offset were deleted
// while the application was stopped: an error with both offsets. Real Kafka and
// S3 (R29).
func TestInputTopicTrimmed(t *testing.T) {
	l := newLab(t, "sums", 2)
	committed := l.read("out", true)
	l.produce(l.numbers(0, 10)...)
	a := l.run("a")
	l.awaitCount(committed, 20, 60*time.Second)
	a.close()
	l.produce(l.numbers(10, 10)...)
	tp := ids.TopicPartition{Topic: l.topic("in"), Partition: 1}
	l.must(l.client.K.Admin().DeleteRecords(l.ctx, map[ids.TopicPartition]int64{tp: 15}))
	err := l.run("a").wait(60 * time.Second)
	l.wantError(err, tp.String(), "offset 10", "15", "retention")
}

// TestRepartitionTopicWithWrongSettings: an internal topic that is there but
// would lose records is refused at start with the setting. Real Kafka (R29).
func TestRepartitionTopicWithWrongSettings(t *testing.T) {
	l := newLab(t, "counts", 2)
	topic := l.base.App + "-by-word-repartition"
	l.must(l.kafka.CreateTopic(l.ctx, topic, 2, map[string]string{"retention.ms": "60000"}))
	err := l.run("a").wait(60 * time.Second)
	l.wantError(err, topic, "retention.ms", "60000")
}
