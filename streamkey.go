package tidegate

import (
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

// MapValuesWithKey is MapValues whose function sees the key (Kafka Streams'
// mapValues with a ValueMapperWithKey). The key must not be changed.
func (s *Stream[K, V]) MapValuesWithKey[V2 any](f func(K, V) V2, vs ...serde.Serde[V2]) *Stream[K, V2] {
	return withValue(s, "MapValuesWithKey", here(), f == nil, operators.MapValuesWithKey(f), vs)
}

// FlatMapValuesWithKey is FlatMapValues whose function sees the key. The key
// must not be changed.
func (s *Stream[K, V]) FlatMapValuesWithKey[V2 any](f func(K, V) iter.Seq[V2], vs ...serde.Serde[V2]) *Stream[K, V2] {
	return withValue(s, "FlatMapValuesWithKey", here(), f == nil,
		operators.FlatMapValuesCtx(func(_ *record.RecordContext, k K, v V) (iter.Seq[V2], error) { return f(k, v), nil }), vs)
}

// Print writes each record to w as a line "[label]: key, value", for a look at
// what happens (Kafka Streams' print). An error of w fails the record. Tasks
// take turns.
func (s *Stream[K, V]) Print(w io.Writer, label string) {
	site := here()
	if w == nil {
		s.b.t.Errorf(site, "Print: the writer is nil: pass os.Stdout")
	}
	var mu sync.Mutex
	s.stateless("print", site, false, operators.Each(func(k K, v V, n record.Null) error {
		key, value := any(k), any(v)
		if n.Key() {
			key = "null"
		}
		if n.Value() {
			value = "null"
		}
		mu.Lock()
		defer mu.Unlock()
		_, err := fmt.Fprintf(w, "[%s]: %v, %v\n", label, key, value)
		return err
	}))
}

// FilterNot is the table of the rows for which f is false; see Filter.
func (t *Table[K, V]) FilterNot(f func(K, V) bool) *Table[K, V] {
	keep := func(k K, v V) bool { return !f(k, v) }
	return t.filtered("table-filter-not", here(), f == nil, keep)
}

// MapValuesWithKey is MapValues whose function sees the key.
func (t *Table[K, V]) MapValuesWithKey[V2 any](f func(K, V) V2, vs ...serde.Serde[V2]) *Table[K, V2] {
	site := here()
	v2 := last(t.b, site, "MapValuesWithKey", "value", vs)
	fr := viewNode(t.from, "table-map-values", site, f == nil,
		operators.TableMapValuesWithKey(f), operators.TableMapValuesWithKeyGetter(t.n, f))
	return mapped(t, fr.lose("MapValuesWithKey", site, false, v2 == nil), f, v2)
}
