package kafka

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type logSink struct {
	mu      sync.Mutex
	records []LogRecord
	last    LogBatch
	n       int
}

func (l *logSink) sink(b LogBatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, b.Records...)
	l.last = b
	l.n++
}

func (l *logSink) get(f func(*logSink) bool) func() bool {
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return f(l)
	}
}

func TestLogRoundTrip(t *testing.T) {
	e := start(t)
	e.topic("A-control", 1)
	w := e.c.NewLogWriter("A-control")
	s := &logSink{}
	r, err := e.c.NewLogReader(LogReaderConfig{Topic: "A-control", Sink: s.sink, MaxWait: 50 * time.Millisecond})
	e.must(err)
	e.eventually("the end of the empty log", s.get(func(l *logSink) bool { return l.n > 0 && l.last.CaughtUp() }))
	for i := range int64(5) {
		off, err := w.Append(e.ctx, fmt.Append(nil, i))
		if err != nil || off != i {
			t.Fatalf("append: offset %d, %v; want %d", off, err, i)
		}
	}
	e.eventually("all records", s.get(func(l *logSink) bool { return l.last.Next == 5 && l.last.CaughtUp() }))
	var got []string
	for _, rec := range s.records {
		got = append(got, fmt.Sprintf("%d=%s", rec.Offset, rec.Value))
	}
	if !slices.Equal(got, []string{"0=0", "1=1", "2=2", "3=3", "4=4"}) {
		t.Errorf("records %v", got)
	}
	if d := time.Since(time.UnixMilli(s.records[0].Timestamp)); d < 0 || d > time.Minute {
		t.Errorf("timestamp %v ago", d)
	}
	asked := time.Now()
	r.Want()
	e.eventually("an answer later than Want", s.get(func(l *logSink) bool { return l.last.AnsweredAt.After(asked) }))
	r.SeekTo(3)
	e.eventually("the last two again", s.get(func(l *logSink) bool { return len(l.records) == 7 }))
	r.SeekTo(9)
	e.eventually("the error of a log that is too short", s.get(func(l *logSink) bool {
		var oor *OffsetOutOfRangeError
		return errors.As(l.last.Err, &oor) && oor.Offset == 9 && oor.End == 5
	}))
}

func TestAppendRetriesOnlyWhatWasNotWritten(t *testing.T) {
	e := start(t, kfake.NumBrokers(2))
	e.topic("A-control", 1)
	w := e.c.NewLogWriter("A-control")
	e.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "A-control", Err: kerr.NotLeaderForPartition, Count: 2})
	if off, err := w.Append(e.ctx, []byte("a")); err != nil || off != 0 {
		t.Fatalf("offset %d, %v", off, err)
	}
	e.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "A-control", Err: kerr.RequestTimedOut})
	if _, err := w.Append(e.ctx, []byte("b")); !InDoubt(err) {
		t.Errorf("a timeout is not in doubt: %v", err)
	}
	var sent atomic.Int32
	e.cluster.ControlKey(0, func(kmsg.Request) (kmsg.Response, error, bool) {
		sent.Add(1)
		return nil, errors.New("cut"), true
	})
	if _, err := w.Append(e.ctx, []byte("c")); !InDoubt(err) || sent.Load() != 1 {
		t.Errorf("a lost answer: %v, sent %d times", err, sent.Load())
	}
	if _, err := w.Append(e.ctx, []byte("d")); err != nil {
		t.Errorf("after a cut connection: %v", err)
	}
	e.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "A-control", Err: kerr.TopicAuthorizationFailed})
	if _, err := w.Append(e.ctx, []byte("e")); Classify(err) != ClassAuthorization || InDoubt(err) {
		t.Errorf("authorization: %v, class %v", err, Classify(err))
	}
}
