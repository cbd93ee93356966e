package optest

import (
	"bytes"
	"fmt"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/state"
)

// env is a task's operators.Env.
type env struct{ t *task }

func (e env) Task() ids.TaskID                    { return e.t.id }
func (e env) Store(name string) (state.KV, error) { return e.t.engine.Store(name) }
func (e env) CacheBytes() int64                   { return e.t.d.CacheBytes }
func (e env) MaySkip() bool                       { return e.t.d.Skip != nil }
func (e env) Metrics() *operators.Metrics         { return &e.t.d.Metrics }

func (e env) Fail(err *operators.RecordError) error {
	d := e.t.d
	if d.Skip == nil || err.Fatal || !d.Skip(err) {
		return err
	}
	d.Skipped = append(d.Skipped, err)
	return nil
}

func (e env) Output(topic string, internal bool) (operators.Output, error) {
	n := max(e.t.d.res.Partitions(topic), e.t.d.given[topic])
	if n == 0 {
		return nil, fmt.Errorf("topic %q: %w: unknown topic", topic, operators.ErrRefused)
	}
	_, read := e.t.d.res.Reader(topic)
	return output{e.t, topic, n, internal, read}, nil
}

type output struct {
	t        *task
	topic    string
	n        int32
	internal bool
	read     bool // by the topology itself
}

func (o output) Partitions() int32 { return o.n }

// Append refuses what a task's output refuses.
func (o output) Append(p int32, key, value []byte, null record.Null, ts int64, h record.Headers) error {
	if p < 0 || p >= o.n {
		return fmt.Errorf("topic %s has %d partitions, a partitioner chose %d", o.topic, o.n, p)
	}
	if ts < 0 || ts > kafka.MaxTimestamp {
		return fmt.Errorf("%w: timestamp %d is outside what Kafka can store (0 to %d milliseconds): set RecordContext.Timestamp", operators.ErrRefused, ts, kafka.MaxTimestamp)
	}
	d := o.t.d
	r := Record{Topic: o.topic, Partition: p, Timestamp: ts, from: o.t.id}
	for _, x := range h {
		r.Headers = append(r.Headers, record.Header{Key: x.Key, Value: bytes.Clone(x.Value)})
	}
	if !null.Key() {
		r.Key = append([]byte{}, key...)
	}
	if !null.Value() {
		r.Value = append([]byte{}, value...)
	}
	if o.read {
		d.queue = append(d.queue, r)
	}
	if !o.internal {
		d.out[o.topic] = append(d.out[o.topic], r)
	}
	return nil
}
