package changelog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/state"
)

// Log takes the changelog records of a task. Its methods are called on the
// goroutine of the task.
type Log struct {
	NewBatch func(tp ids.TopicPartition) *kafka.Builder
	// Send takes a finished batch of the present commit interval over.
	Send func(*kafka.Builder)
	// Now is the time that changelog records carry.
	Now func() time.Time
}

// StoreSpec is one store of a task with its changelog partition.
type StoreSpec struct {
	Name      string
	Changelog ids.TopicPartition
	Topic     [16]byte // the topic's id
	// Expires: range deletions are not logged; see topics.go.
	Expires bool
	// Unlogged: the store has no changelog, and is empty whenever its task starts.
	Unlogged bool
	// FromSource, if not nil, says that Changelog is an input of the task, and
	// makes the store's row of one of its records. Nothing is written to it, and
	// its bounds end at the task's committed offset.
	FromSource func(r *record.Raw) (key, value []byte, ok bool)
}

// logged reports whether the store's changes are written to its changelog.
func (s StoreSpec) logged() bool { return !s.Unlogged && s.FromSource == nil }

// Engine is a task's state.Engine in changelog mode: its stores keep what is
// written in layers, log it, and write it to the engine below once it is
// committed. So the engine below holds committed state only, whenever the
// process ends (ADR 0008).
//
// Snapshot ends a commit interval (the sealed layer is not visible in files):
// it sends what is left of the changelog batches. Apply writes the oldest
// sealed interval below.
type Engine struct {
	below     state.Engine
	positions state.KV
	specs     []StoreSpec
	stores    map[string]*store
	log       Log
	closed    bool
	renewed   time.Time // when the positions of stores that rest were last looked at
}

var _ state.Engine = (*Engine)(nil)

// keeper is an engine below whose folder can be opened again after a crash.
type keeper interface {
	// Flush writes everything to files.
	Flush() error
}

// NewEngine puts layers and logging over an engine.
func NewEngine(below state.Engine, specs []StoreSpec) (*Engine, error) {
	e := &Engine{below: below, stores: map[string]*store{}, specs: slices.Clone(specs)}
	slices.SortFunc(e.specs, func(a, b StoreSpec) int { return strings.Compare(a.Name, b.Name) })
	var err error
	if e.positions, err = below.Store(positionsName); err != nil {
		return nil, err
	}
	for _, spec := range e.specs {
		kv, err := below.Store(spec.Name)
		if err != nil {
			return nil, err
		}
		e.stores[spec.Name] = &store{overlay: newOverlay(kv), e: e, spec: spec}
	}
	return e, nil
}

// Attach gives the engine its log, before its task runs.
func (e *Engine) Attach(l Log) { e.log = l }

// Store returns a store of the topology.
func (e *Engine) Store(name string) (state.KV, error) {
	if s := e.stores[name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("the task has no store %q", name)
}

// Snapshot ends the commit interval. There are no files to a snapshot.
func (e *Engine) Snapshot(string) (state.Snapshot, error) {
	for _, spec := range e.specs {
		s := e.stores[spec.Name]
		s.send()
		s.seal()
	}
	return state.Snapshot{}, nil
}

// Apply writes the oldest interval that ended below; its transaction is
// committed. next are the positions behind it, by store; a store that is not in
// it keeps its position, which is always right (D3). With a position of any store
// those of the others are as good as new now and then: a task that could commit
// is the only one that writes to its changelogs, so nothing was missed in them.
func (e *Engine) Apply(next map[string]int64) error {
	if e.closed {
		return nil // its position stays lower
	}
	for _, spec := range e.specs {
		s := e.stores[spec.Name]
		if len(s.layers) < 2 {
			return errors.New("apply without an ended interval")
		}
		if err := s.apply(); err != nil {
			return err
		}
	}
	for _, spec := range e.specs {
		if n, ok := next[spec.Name]; ok && !spec.Unlogged {
			if err := e.setPosition(spec, n); err != nil {
				return err
			}
		}
	}
	if now := time.Now(); len(next) > 0 && now.Sub(e.renewed) >= renewEvery {
		e.renewed = now
		return e.renew(next)
	}
	return nil
}

// renewEvery is how often the positions of stores that rest are written again. One
// that is too old would cost the whole task its local state; see Reusable.
const renewEvery = reusableFor / 12

// renew writes the positions of stores that are not in next again, as of now.
func (e *Engine) renew(next map[string]int64) error {
	for _, spec := range e.specs {
		if _, ok := next[spec.Name]; ok || spec.Unlogged {
			continue
		}
		p, ok, err := e.Position(spec.Name)
		if err == nil && ok {
			err = e.setPosition(spec, p.Next)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setPosition stores a position. REQUIRES: everything it covers was written.
func (e *Engine) setPosition(spec StoreSpec, next int64) error {
	p := Position{Topic: spec.Topic, Next: next, At: time.Now()}
	return e.positions.Set([]byte(spec.Name), AppendPosition(nil, p))
}

// Position returns a store's position; ok is false when it has none.
func (e *Engine) Position(store string) (p Position, ok bool, err error) {
	b, ok, err := e.positions.Get([]byte(store))
	if err != nil || !ok {
		return p, false, err
	}
	p, err = DecodePosition(b)
	return p, err == nil, err
}

// Waiting returns the bytes of changes that are not applied.
func (e *Engine) Waiting() (n int64) {
	for _, s := range e.stores {
		n += s.bytes()
	}
	return n
}

// Metrics returns those of the engine below.
func (e *Engine) Metrics() state.EngineMetrics { return e.below.Metrics() }

// Close forgets what was not applied, and keeps the rest where the engine below
// can.
func (e *Engine) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	for _, s := range e.stores {
		s.drop()
		s.discard()
	}
	return errors.Join(e.Flush(), e.below.Close())
}

// Flush makes what was applied outlast a kill, where the engine below can.
func (e *Engine) Flush() error {
	if k, ok := e.below.(keeper); ok {
		return k.Flush()
	}
	return nil
}

// store is one KV of a task: an overlay whose writes are logged.
type store struct {
	*overlay
	e     *Engine
	spec  StoreSpec
	batch *kafka.Builder
}

var noBytes = []byte{} // empty, not null

func (s *store) Set(key, value []byte) error {
	if value == nil {
		value = noBytes
	}
	s.append(key, value)
	return s.overlay.Set(key, value)
}

func (s *store) Delete(key []byte) error {
	s.append(key, nil)
	return s.overlay.Delete(key)
}

// DeleteRange logs a tombstone per key, except where old entries leave the
// changelog by themselves.
func (s *store) DeleteRange(from, to []byte) error {
	if !s.spec.Expires && s.spec.logged() {
		it := s.Scan(from, to, false)
		for it.Next() {
			s.append(it.Key(), nil)
		}
		err := it.Err()
		if e := it.Close(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
	}
	return s.overlay.DeleteRange(from, to)
}

// append adds a record to the changelog batch.
func (s *store) append(key, value []byte) {
	if !s.spec.logged() {
		return
	}
	if key == nil {
		key = noBytes // null keys cannot be compacted
	}
	if s.batch != nil && !s.batch.Fits(len(key)+len(value)) {
		s.send()
	}
	if s.batch == nil {
		s.batch = s.e.log.NewBatch(s.spec.Changelog)
	}
	s.batch.Append(key, value, nil, max(s.e.log.Now().UnixMilli(), 0))
	if s.batch.Full() {
		s.send()
	}
}

func (s *store) send() {
	if s.batch != nil {
		b := s.batch
		s.batch = nil
		s.e.log.Send(b)
	}
}

func (s *store) discard() {
	if s.batch != nil {
		s.batch.Discard()
		s.batch = nil
	}
}
