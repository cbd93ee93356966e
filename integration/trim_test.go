package integration

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
)

// TestTrim: the control log is trimmed while an instance runs; another one joins,
// and a third begins when nobody is left, both with a snapshot. Real Kafka and S3.
func TestTrim(t *testing.T) {
	l := newLab(t, "counts", 2)
	l.base.Interval, l.base.Session = 200*time.Millisecond, 2*time.Second
	trimming := tidegate.WithControlLogRecords(30)
	tp := ids.TopicPartition{Topic: l.base.App + "-control"}
	begin := int64(0)
	trimmed := func() {
		t.Helper()
		last := begin
		l.eventually(60*time.Second, "the control log is trimmed", func() bool {
			first, err := l.client.K.Admin().ListOffsets(l.ctx, kafka.Earliest, tp)
			begin = first[tp]
			return err == nil && begin > last
		})
	}
	committed := l.read("out", true)
	a := l.run("a", trimming)
	f := l.feed(20, 20, 50*time.Millisecond, committed.Count)
	trimmed()
	b := l.run("b", trimming)
	b.awaitRunning()
	trimmed()
	f.progress(60*time.Second, 2)
	a.close()
	trimmed()
	f.progress(60*time.Second, 2)
	b.close()
	c := l.run("c", trimming)
	trimmed()
	f.progress(60*time.Second, 2)
	total := f.end()
	l.awaitCount(committed, total, 60*time.Second)
	c.close()
	l.running(committed)
}
