package tidegate

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// ProcessorPart is what a processor can be connected with: the definition of a
// store (KeyValueStore, WindowStore, …) or of an output (Output), or a *Table,
// which it may read.
type ProcessorPart interface {
	connect(c *connection)
}

// connection is a processor's node while it is described.
type connection struct {
	b       *Builder
	node    topology.Node
	outputs []any // *OutputDef
}

// store connects a store.
func (c *connection) store(s topology.Store) {
	c.b.t.AddStore(s)
	c.node.Stores = append(c.node.Stores, s.Name)
}

func isNil(p ProcessorPart) bool {
	v := reflect.ValueOf(p)
	return p == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// errNilPart is the error of a method of TaskContext that was given nil.
func errNilPart(method string) error {
	return fmt.Errorf("%s: the definition is nil: pass what was passed to Process", method)
}

// OutputDef defines a further output of a processor.
type OutputDef[K, V any] struct {
	name   string
	serdes Serdes[K, V]
	site   topology.Site
}

// Output defines a further output of a processor (a named child of Kafka
// Streams' ProcessorContext.forward, Flink's OutputTag). It is passed to Process
// or ProcessValues, opened in Init with TaskContext.Output, and its records are
// the stream that Stream.Output returns:
//
//	var late = tidegate.Output("late", tidegate.With(serde.String(), serde.Int64()))
//
//	checked := in.Process("check", newCheck, late)
//	checked.Output(late).To("late")
//
// The name is for descriptions and errors. The serdes may be left out, and
// restated with As.
func Output[K, V any](name string, serdes ...Serdes[K, V]) *OutputDef[K, V] {
	d := &OutputDef[K, V]{name: name, site: here()}
	if len(serdes) > 0 {
		d.serdes = serdes[0]
	}
	return d
}

func (d *OutputDef[K, V]) connect(c *connection) {
	for _, o := range c.outputs {
		if n, ok := o.(interface{ label() string }); ok && n.label() == d.name {
			c.b.t.Errorf(c.node.Site, "the step %q has two outputs with the name %q", c.node.Name, d.name)
		}
	}
	if d.name == "" {
		c.b.t.Errorf(d.site, "Output: the name is empty")
	}
	c.outputs = append(c.outputs, d)
}

func (d *OutputDef[K, V]) label() string { return d.name }

// Output returns the records that a processor sends to one of its further
// outputs; this stream is what its Process or ProcessValues returned. They count
// as re-keyed.
func (s *Stream[K, V]) Output[K2, V2 any](def *OutputDef[K2, V2]) *Stream[K2, V2] {
	site := here()
	if def == nil {
		s.b.t.Errorf(site, "Output: the definition is nil")
		return &Stream[K2, V2]{from: s.from}
	}
	if !slices.Contains(s.b.outputs[s.n], any(def)) {
		s.b.t.Errorf(site, "Output: the stream is not that of a processor with the output %q: pass its definition to Process, and call Output on what Process returned", def.name)
	}
	f := s.from
	f.n = s.add(topology.Node{Op: operators.OpOutput, Name: def.name, Site: site, Factory: operators.Merge[K2, V2]()})
	f.rekeyed = true
	f = f.lose("Output", site, def.serdes.Key == nil, def.serdes.Value == nil)
	return &Stream[K2, V2]{from: f, ks: def.serdes.Key, vs: def.serdes.Value}
}

// Outlet is an open output of a processor. Its methods are as those of
// ProcessorContext.
type Outlet[K, V any] struct{ in operators.Outlet[K, V] }

// Output opens an output that was passed to Process.
func (c *TaskContext) Output[K, V any](def *OutputDef[K, V]) (*Outlet[K, V], error) {
	if def == nil {
		return nil, errNilPart("Output")
	}
	if !slices.Contains(c.outputs, any(def)) {
		return nil, fmt.Errorf("output %q: pass its definition to Process(%q, …)", def.name, c.core.Name())
	}
	return &Outlet[K, V]{operators.OpenOutput[K, V](c.core, def.name)}, nil
}

// Forward sends a record to the output.
func (o *Outlet[K, V]) Forward(k K, v V) error { return o.in.Send(o.in.Now(), k, v, 0) }

// ForwardAt is Forward with another timestamp, in milliseconds since the epoch.
func (o *Outlet[K, V]) ForwardAt(timestamp int64, k K, v V) error {
	return o.in.Send(timestamp, k, v, 0)
}

// ForwardTombstone sends a record with a null value to the output.
func (o *Outlet[K, V]) ForwardTombstone(k K) error {
	var zero V
	return o.in.Send(o.in.Now(), k, zero, record.ValueNull)
}

// connect lets a processor read the table. The topics of both must be
// co-partitioned, as for a join.
func (t *Table[K, V]) connect(c *connection) {
	if t.b != c.b {
		c.b.t.Errorf(c.node.Site, "Process(%q): the table comes from another Builder", c.node.Name)
		return
	}
	c.node.Uses = append(c.node.Uses, t.n)
	c.node.KeyedState = true
}

// TableRows are the rows of a table that a processor reads. It cannot write.
type TableRows[K, V any] struct {
	get   operators.Getter[K, V]
	keys  operators.KeyScanner[K]
	ks    serde.Serde[K]
	fault func(error) error
}

// Rows opens a table that was passed to Process (Kafka Streams'
// connectProcessorAndStateStores with a table's store). It shows the table as it
// is after the records that the task has processed so far. Only the rows of this
// task's partition are there.
func (c *TaskContext) Rows[K, V any](t *Table[K, V]) (*TableRows[K, V], error) {
	if t == nil {
		return nil, errNilPart("Rows")
	}
	get, err := operators.OpenRows[K, V](c.core, t.n)
	if err != nil {
		return nil, err
	}
	return &TableRows[K, V]{
		get: get, keys: operators.OpenRowKeys[K](c.core, t.n), ks: t.ks, fault: c.core.Fault,
	}, nil
}

// Get returns the row of k and whether there is one. The value must not be
// changed.
func (r *TableRows[K, V]) Get(k K) (V, bool, error) {
	v, _, ok, err := r.get(k)
	return v, ok, r.fault(err)
}

// GetWithTimestamp is Get with the timestamp of the row, in milliseconds since
// the epoch (Kafka Streams' ValueAndTimestamp).
func (r *TableRows[K, V]) GetWithTimestamp(k K) (v V, timestamp int64, ok bool, err error) {
	v, timestamp, ok, err = r.get(k)
	return v, timestamp, ok, r.fault(err)
}
