package operators

import (
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

// writer encodes records into reused buffers and finds their partition.
type writer[K, V any] struct {
	ks          serde.Serde[K]
	vs          serde.Serde[V]
	keyNull     nulls[K]
	valueNull   nulls[V]
	partitioner func(K, int32) int32
	part        serde.PartitionKeyer
	node, own   int32
	kbuf, vbuf  []byte
}

func newWriter[K, V any](b *Build, ks serde.Serde[K], vs serde.Serde[V], partitioner func(K, int32) int32) *writer[K, V] {
	w := &writer[K, V]{
		ks: ks, vs: vs, keyNull: nullsOf(ks), valueNull: nullsOf(vs), partitioner: partitioner,
		node: b.id(), own: b.g.env.Task().Partition,
	}
	w.part, _ = ks.(serde.PartitionKeyer)
	return w
}

// write appends a record to an output.
func (w *writer[K, V]) write(c *Context, out Output, k K, v V, n record.Null) error {
	var key, value []byte
	var err error
	if !n.Key() && w.keyNull.is(k) {
		n |= record.KeyNull
	}
	if !n.Value() && w.valueNull.is(v) {
		n |= record.ValueNull
	}
	if !n.Key() {
		if key, err = w.ks.Append(w.kbuf[:0], k); err != nil {
			return c.failAt(w.node, KindEncode, fmt.Errorf("key: %w", err))
		}
		w.kbuf = key
	}
	if !n.Value() {
		if value, err = w.vs.Append(w.vbuf[:0], v); err != nil {
			return c.failAt(w.node, KindEncode, fmt.Errorf("value: %w", err))
		}
		w.vbuf = value
	}
	partition, err := w.partition(c, out.Partitions(), k, key, n)
	if err != nil {
		return c.failAt(w.node, KindUser, err)
	}
	if err := out.Append(partition, key, value, n, c.Timestamp, c.Headers); err != nil {
		return w.refused(c, err)
	}
	return nil
}

// partition decides by the key's bytes. A record without a key stays on the
// partition number of its task, so that a repetition goes to the same place.
func (w *writer[K, V]) partition(c *Context, n int32, k K, key []byte, null record.Null) (int32, error) {
	switch {
	case n <= 1:
		return 0, nil
	case null.Key():
		return w.own % n, nil
	case w.partitioner != nil:
		c.node = w.node
		p := w.partitioner(k, n)
		if p < 0 || p >= n {
			return 0, fmt.Errorf("the partitioner returned %d for a topic of %d partitions", p, n)
		}
		return p, nil
	case w.part != nil:
		key = w.part.PartitionKey(key)
	}
	return ids.Partition(key, n), nil
}

func (w *writer[K, V]) refused(c *Context, err error) error {
	if errors.Is(err, ErrRefused) {
		return c.failAt(w.node, KindOutput, err)
	}
	return fmt.Errorf("step %q: %w", c.g.res.Node(int(w.node)).Label(), err)
}

// Sink writes to an external topic.
func Sink[K, V any](topic string, ks serde.Serde[K], vs serde.Serde[V], partitioner func(K, int32) int32) Factory {
	return func(b *Build, _ []any) (any, error) {
		return output(b, topic, false, ks, vs, partitioner)
	}
}

// RepartitionSink writes to the topic of a repartition step.
func RepartitionSink[K, V any](step string, ks serde.Serde[K], vs serde.Serde[V], partitioner func(K, int32) int32) Factory {
	return func(b *Build, _ []any) (any, error) {
		return output(b, b.g.res.StepTopic(step), true, ks, vs, partitioner)
	}
}

func output[K, V any](
	b *Build, topic string, internal bool, ks serde.Serde[K], vs serde.Serde[V], partitioner func(K, int32) int32,
) (any, error) {
	out, err := b.g.env.Output(topic, internal)
	if err != nil {
		return nil, err
	}
	w := newWriter(b, ks, vs, partitioner)
	return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
		return w.write(c, out, k, v, n)
	}), nil
}

// DynamicSink writes each record to the topic that it names.
func DynamicSink[K, V any](
	topic func(*record.RecordContext, K, V) string, ks serde.Serde[K], vs serde.Serde[V], partitioner func(K, int32) int32,
) Factory {
	return func(b *Build, _ []any) (any, error) {
		env, w, node := b.g.env, newWriter(b, ks, vs, partitioner), b.id()
		outs := map[string]Output{}
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if n.Value() {
				env.Metrics().NullDropped.Add(1)
				return nil
			}
			c.node = node
			name := topic(&c.RecordContext, k, v)
			out, ok := outs[name]
			if !ok {
				var err error
				if out, err = env.Output(name, false); err != nil {
					return w.refused(c, fmt.Errorf("open topic %q: %w", name, err))
				}
				outs[name] = out
			}
			return w.write(c, out, k, v, n)
		}), nil
	}
}
