package tidegatetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/harness"
	"github.com/tidegate/tidegate/topology"
)

// Driver runs one topology (Kafka Streams' TopologyTestDriver).
type Driver struct {
	t       testing.TB
	in      *harness.Driver
	graph   *topology.Topology
	topics  map[string]int32
	now     int64
	unread  map[string][]harness.Record
	stopped error // the first failure of the topology
	closed  bool
	allRead bool // check that nothing is left
}

// New makes the tasks of a topology (TopologyTestDriver's constructor). It fails
// the test when the partition counts do not fit together or a processor fails to
// begin. The driver is closed when the test ends.
func New(t testing.TB, top *tidegate.Topology, opts ...Option) *Driver {
	t.Helper()
	c := config{partitions: 1, topics: map[string]int32{}, start: time.UnixMilli(0), cacheBytes: 1 << 20}
	for _, o := range opts {
		o(&c)
	}
	d, err := open(t, top, &c)
	if err != nil {
		t.Fatalf("tidegatetest.New: %v", err)
	}
	t.Cleanup(d.Close)
	return d
}

func open(t testing.TB, top *tidegate.Topology, c *config) (*Driver, error) {
	switch {
	case top == nil:
		return nil, errors.New("the topology is nil: pass what Builder.Build returned")
	case c.partitions < 1:
		return nil, fmt.Errorf("WithPartitions(%d): must be at least 1", c.partitions)
	case c.start.UnixMilli() < 0:
		return nil, fmt.Errorf("WithStart(%v): must not be before the epoch", c.start)
	case c.cacheBytes < 0:
		return nil, fmt.Errorf("WithCacheBytes(%d): must not be negative", c.cacheBytes)
	}
	d := &Driver{
		t: t, graph: top.Graph(), topics: map[string]int32{}, now: c.start.UnixMilli(),
		unread: map[string][]harness.Record{}, allRead: c.allRead,
	}
	for _, topic := range slices.Concat(d.graph.Inputs(), d.graph.Sinks(), d.graph.GlobalTopics()) {
		d.topics[topic] = c.partitions
	}
	for topic, n := range c.topics {
		if n < 1 {
			return nil, fmt.Errorf("WithTopic(%q, %d): must have at least 1 partition", topic, n)
		}
		d.topics[topic] = n
	}
	var err error
	if d.in, err = harness.New(d.graph, d.topics, t.TempDir()); err != nil {
		return nil, err
	}
	d.in.CacheBytes, d.in.MaxSeen = c.cacheBytes, c.maxSeen
	if c.open != nil {
		d.in.Open = c.open
	}
	if c.onFailure != nil {
		d.in.Skip = func(e *harness.Failure) bool { return c.onFailure(e) == tidegate.Skip }
	}
	d.in.SetClock(d.now)
	if err := d.in.Start(); err != nil {
		return nil, errors.Join(err, d.in.Close())
	}
	// Wall-clock timers count from when they first see the clock.
	if err := d.in.Wall(d.now); err != nil {
		return nil, errors.Join(err, d.in.Close())
	}
	return d, nil
}

// Run processes what Queue wrote, to its last consequence.
func (d *Driver) Run() {
	d.t.Helper()
	d.must("Run", d.in.Run)
}

// StreamTime is the largest stream time of all tasks, in milliseconds since the
// epoch; −1 before the first record.
func (d *Driver) StreamTime() int64 {
	most := int64(-1)
	for _, sub := range d.in.Resolved().Subtopologies() {
		most = max(most, d.in.StreamTime(sub.Number))
	}
	return most
}

// Now is the driver's wall clock.
func (d *Driver) Now() time.Time { return time.UnixMilli(d.now).UTC() }

// AdvanceWallClock moves the wall clock by a span of at least 1ms and fires the
// wall-clock timers that are due, each once however many of its intervals passed
// (TopologyTestDriver.advanceWallClockTime). Partitions without records for 5
// seconds become idle and hold back stream time no longer.
func (d *Driver) AdvanceWallClock(by time.Duration) {
	d.t.Helper()
	if by < time.Millisecond {
		d.t.Fatalf("AdvanceWallClock(%v): must be at least 1ms", by)
	}
	d.must("AdvanceWallClock", func() error {
		d.now += by.Milliseconds()
		return d.in.Wall(d.now)
	})
}

// AdvanceStreamTime moves stream time to a time in milliseconds since the epoch,
// as if every partition of every input topic had a record with that timestamp
// which no step sees: windows close and stream-time timers fire, also behind
// repartition topics. Stream time never falls: an earlier time changes nothing.
// TopologyTestDriver lacks this; there one pipes a record for it.
func (d *Driver) AdvanceStreamTime(ms int64) {
	d.t.Helper()
	if ms < 0 {
		d.t.Fatalf("AdvanceStreamTime(%d): must not be negative", ms)
	}
	d.must("AdvanceStreamTime", func() error { return d.in.Advance(ms) })
}

// Restart takes a snapshot of every task, closes all processors, and makes the
// tasks anew from the snapshot, as an App does that is stopped and started
// again. Outputs that were not read yet stay. As in production, stream-time
// timers of Init and stream times are kept, and wall-clock timers begin anew.
// TopologyTestDriver lacks this.
func (d *Driver) Restart() {
	d.t.Helper()
	d.must("Restart", func() error {
		if err := d.in.Restart(); err != nil {
			return err
		}
		return d.in.Wall(d.now)
	})
}

// Late is how many records were dropped because they came after their window
// closed (Kafka Streams' dropped-records metric).
func (d *Driver) Late() int64 { return d.in.Metrics.LateDropped.Load() }

// MaxLateness is how far behind stream time the latest of them was.
func (d *Driver) MaxLateness() time.Duration {
	return time.Duration(d.in.Metrics.MaxLatenessMs.Load()) * time.Millisecond
}

// NullDropped is how many records were dropped because a step cannot use a null
// key or value (Kafka Streams' dropped-records metric).
func (d *Driver) NullDropped() int64 { return d.in.Metrics.NullDropped.Load() }

// TimestampDropped is how many records were dropped because they had no valid
// event time (tidegate.InvalidSkipped).
func (d *Driver) TimestampDropped() int64 { return d.in.Metrics.TimestampDropped.Load() }

// Skipped are the errors that the failure handler skipped, in order.
func (d *Driver) Skipped() []error {
	out := make([]error, len(d.in.Skipped))
	for i, err := range d.in.Skipped {
		out[i] = err
	}
	return out
}

// Close closes the processors and the state; twice is once
// (TopologyTestDriver.close). The end of the test calls it.
func (d *Driver) Close() {
	d.t.Helper()
	if d.closed {
		return
	}
	d.closed = true
	if err := d.in.Close(); err != nil {
		d.t.Errorf("tidegatetest: close: %v", err)
	}
	if !d.allRead || d.stopped != nil || d.t.Failed() {
		return
	}
	for _, topic := range slices.Sorted(maps.Keys(d.topics)) {
		if n := len(d.unreadOf(topic)); n > 0 {
			d.t.Errorf("tidegatetest: %d records of topic %q were not read, the first with key %q and value %q",
				n, topic, d.unread[topic][0].Key, d.unread[topic][0].Value)
		}
	}
}

// do runs something that moves records. After the first error the state is
// half-changed, which an App would roll back: nothing goes on from there.
func (d *Driver) do(f func() error) error {
	switch {
	case d.closed:
		return errors.New("the driver is closed")
	case d.stopped != nil:
		return fmt.Errorf("the topology stopped at an earlier error, make a new driver: %w", d.stopped)
	}
	err := f()
	d.stopped = err
	return err
}

func (d *Driver) must(what string, f func() error) {
	d.t.Helper()
	if err := d.do(f); err != nil {
		d.t.Fatalf("%s: %v", what, err)
	}
}

// names lists topics or stores for an error.
func names(of []string) string {
	if len(of) == 0 {
		return "none"
	}
	of = slices.Clone(of)
	slices.Sort(of)
	return strings.Join(slices.Compact(of), ", ")
}
