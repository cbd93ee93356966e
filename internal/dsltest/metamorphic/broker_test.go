package metamorphic

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/testkit"
)

// TestBroker runs topologies of the same generator with two instances on an
// in-process broker, one of which ends in the middle and another one begins. Here
// nobody holds back a task that reads ahead, so windows and joins close behind the
// whole input only.
func TestBroker(t *testing.T) {
	all := seedsOf(2)
	if *seeds > 0 {
		all = all[:len(kept)+max(1, *seeds/50)]
	}
	for _, seed := range all {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { runBroker(t, seed) }) {
			break
		}
	}
}

type brokerRun struct {
	t          *testing.T
	in         *input
	topo       *topology
	built      *tidegate.Topology
	partitions int32
	mode       tidegate.Mode
	broker     *embedded.Broker
	client     *testkit.Client
	dir        string
	opts       []tidegate.Option // beyond those of start
	apps       map[string]*instance
	outs       map[*sink]*testkit.Reader
}

type instance struct {
	app  *tidegate.App
	stop context.CancelFunc
	done chan error
	net  *testkit.Network // of runFleet
}

func runBroker(t *testing.T, seed int64) {
	rnd := newRand(seed)
	in := newInput(rnd, 200)
	topo := generate(rnd, in, 8+rnd.IntN(8), in.end-begin+slack)
	r := &brokerRun{
		t: t, in: in, topo: topo, partitions: int32(1 + rnd.IntN(3)), dir: t.TempDir(), apps: map[string]*instance{},
		mode: []tidegate.Mode{tidegate.Barrier, tidegate.Changelog}[seed%2], outs: map[*sink]*testkit.Reader{},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v mode, %d partitions, steps:\n%s\nreplay: go test ./internal/dsltest/metamorphic -run TestBroker -seed=%d",
				r.mode, r.partitions, strings.Join(topo.log, "\n"), seed)
		}
	})
	var err error
	if r.built, err = topo.b.Build(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	r.open()
	r.start(ctx, "a")
	r.start(ctx, "b")
	r.produce(ctx, in.all[:in.fixed])
	r.await(ctx, "the fixed tables", func(s *sink) bool { return s.first })
	half := in.fixed + rnd.IntN(len(in.all)-in.fixed)
	r.produce(ctx, in.all[in.fixed:half])
	r.end("a")
	r.produce(ctx, in.all[half:])
	r.start(ctx, "c")
	// What stands above the steps that wait for time must be through, before
	// time goes on in those that read an input topic themselves.
	r.await(ctx, "what does not wait for time", func(s *sink) bool { return s.now })
	r.ticks(ctx)
	r.await(ctx, "everything", func(*sink) bool { return true })
	var late int64
	for _, name := range []string{"b", "c"} {
		late += r.apps[name].app.Health().Late
		r.end(name)
	}
	if late != 0 {
		t.Errorf("%d records were late", late)
	}
	// Nothing comes behind it.
	for _, s := range topo.sinks {
		check(t, s, r.toEnd(ctx, s))
	}
}

func (r *brokerRun) open() {
	r.t.Helper()
	topics := map[string]int32{}
	for _, topic := range slices.Concat(streamTopics, tableTopics, fixedTopics) {
		topics[topic] = r.partitions
	}
	for _, s := range r.topo.sinks {
		topics[s.topic] = r.partitions
	}
	var err error
	if r.broker, err = embedded.Start(embedded.Options{Topics: topics}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = r.broker.Close() })
	if r.client, err = testkit.Dial(r.broker.Addr()); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(r.client.Close)
	for _, s := range r.topo.sinks {
		if r.outs[s], err = r.client.Read(s.topic, r.partitions, true); err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(r.outs[s].Close)
	}
}

func (r *brokerRun) start(ctx context.Context, name string, opts ...tidegate.Option) {
	r.t.Helper()
	app, err := tidegate.New(r.built, append([]tidegate.Option{
		tidegate.WithApplicationID("app"), tidegate.WithBrokers(r.broker.Addr()), tidegate.WithMode(r.mode),
		tidegate.WithCheckpointDir(filepath.Join(r.dir, "checkpoints")), tidegate.WithStateDir(filepath.Join(r.dir, name)),
		tidegate.WithInstanceName(name), tidegate.WithCheckpointInterval(200 * time.Millisecond),
		tidegate.WithCommitInterval(100 * time.Millisecond), tidegate.WithCheckpointTimeout(20 * time.Second),
		tidegate.WithSessionTimeout(5 * time.Second), tidegate.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	}, append(slices.Clone(r.opts), opts...)...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	i := &instance{app: app, stop: cancel, done: make(chan error, 1)}
	r.apps[name] = i
	go func() { i.done <- app.Run(ctx) }()
	r.t.Cleanup(func() { r.end(name) })
}

// end stops an instance; twice is once.
func (r *brokerRun) end(name string) {
	i := r.apps[name]
	if i == nil {
		return
	}
	delete(r.apps, name)
	i.stop()
	if err := <-i.done; err != nil {
		r.t.Errorf("instance %s ended: %v", name, err)
	}
}

// encode makes a message's bytes.
func encode(m message) testkit.Message {
	out := testkit.Message{Key: must(keys.Append(nil, m.k)), Timestamp: m.ts}
	if !m.null {
		out.Value = must(nums.Append(nil, m.v))
	}
	return out
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func (r *brokerRun) produce(ctx context.Context, all []message) {
	r.t.Helper()
	topics := map[string][]testkit.Message{}
	for _, m := range all {
		raw := encode(m)
		raw.Partition = ids.Partition(raw.Key, r.partitions)
		topics[m.topic] = append(topics[m.topic], raw)
	}
	r.write(ctx, topics)
}

// ticks moves time in every partition of every input to where all is closed.
func (r *brokerRun) ticks(ctx context.Context) {
	r.t.Helper()
	topics := map[string][]testkit.Message{}
	for _, topic := range slices.Concat(streamTopics, tableTopics, fixedTopics) {
		for p := range r.partitions {
			raw := encode(message{topic, rec{k: fmt.Sprint(tickKey, p), ts: r.in.end + 2*r.topo.lag}})
			raw.Partition = p
			topics[topic] = append(topics[topic], raw)
		}
	}
	r.write(ctx, topics)
}

func (r *brokerRun) write(ctx context.Context, topics map[string][]testkit.Message) {
	r.t.Helper()
	for topic, all := range topics {
		if err := r.client.Produce(ctx, topic, all); err != nil {
			r.t.Fatal(err)
		}
	}
}

// await waits until the sinks of that kind hold what they must.
func (r *brokerRun) await(ctx context.Context, what string, of func(*sink) bool) {
	r.t.Helper()
	for _, s := range r.topo.sinks {
		if !of(s) {
			continue
		}
		err := r.outs[s].Await(ctx, func() bool {
			for name, i := range r.apps {
				if i.app.State() == tidegate.Failed {
					r.t.Fatalf("wait for %s: instance %s failed: %v", what, name, i.app.Health().Err)
				}
			}
			// A stream may have too much: then it never gets right.
			return len(s.diff(r.decode(s, r.outs[s].All()))) == 0
		})
		if err != nil {
			check(r.t, s, r.decode(s, r.outs[s].All()))
			r.t.Fatalf("wait for %s: %v", what, err)
		}
	}
}

func (r *brokerRun) toEnd(ctx context.Context, s *sink) []rec {
	r.t.Helper()
	all, err := r.client.ReadToEnd(ctx, s.topic, r.partitions, true)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.decode(s, all)
}

func (r *brokerRun) decode(s *sink, all map[int32][]testkit.Message) (out []rec) {
	r.t.Helper()
	for p := range r.partitions {
		for _, m := range all[p] {
			one, err := s.decode(m.Key, m.Value, m.Timestamp)
			if err != nil {
				r.t.Fatal(err)
			}
			out = append(out, one)
		}
	}
	return out
}
