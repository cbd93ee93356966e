package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
)

// TestFaultForeignMember: a consumer of Kafka's own client uses the application's
// group. Where it was first, the application refuses to start and says why; where
// the application was, the consumer is refused and the application goes on; nor
// can an outsider change the group's offsets meanwhile. Both group protocols of
// Kafka. Real Kafka and S3, Kafka's own client.
func TestFaultForeignMember(t *testing.T) {
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run(protocol+" first", func(t *testing.T) {
			if protocol == "classic" {
				onlyMakeFaults(t)
			}
			l := newLab(t, "sums", 2)
			m := servers.StartGroupMember(t, l.kafka.Brokers()[0], l.base.App, l.topic("in"), protocol)
			l.eventually(60*time.Second, "the foreign consumer is a member", func() bool { return strings.Contains(m.Said(), "joined") })
			err := l.run("a").wait(60 * time.Second)
			l.wantError(err, l.base.App, "not instances of this application", "another application id")
			t.Logf("%v", err)
		})
		t.Run(protocol+" later", func(t *testing.T) {
			if protocol == "classic" {
				onlyMakeFaults(t)
			}
			l := newLab(t, "sums", 2)
			committed := l.read("out", true)
			a := l.run("a")
			l.produce(l.numbers(0, 10)...)
			l.awaitCount(committed, 20, 60*time.Second)
			m := servers.StartGroupMember(t, l.kafka.Brokers()[0], l.base.App, l.topic("in"), protocol)
			l.eventually(60*time.Second, "the foreign consumer is refused", func() bool {
				select {
				case <-a.done:
					t.Fatalf("the application ended: %v", a.err)
				default:
				}
				return strings.Contains(m.Said(), "failed")
			})
			t.Logf("the foreign consumer: %s", m.Said())
			tp := ids.TopicPartition{Topic: l.topic("in"), Partition: 1}
			err := l.client.K.Admin().CommitOffsets(l.ctx, l.base.App, kafka.Membership{Generation: -1}, []kafka.Offset{{TP: tp, Offset: 3}})
			if err == nil {
				t.Fatal("an outsider could change the group's offsets")
			}
			l.produce(l.numbers(10, 10)...)
			l.awaitCount(committed, 40, 60*time.Second)
			if a.State() != tidegate.Running {
				t.Fatalf("the application is %v", a.State())
			}
			a.close()
			l.fold(committed, triangle)
		})
	}
}
