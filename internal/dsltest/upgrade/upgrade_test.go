package upgrade_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/checkpoint/dir"
	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/runtime"
	"github.com/tidegate/tidegate/serde"
)

const (
	app        = "app"
	partitions = 2
	keys       = 10
)

// stage is a broker, a store, and one application after the other.
type stage struct {
	*testing.T
	ctx     context.Context
	broker  *embedded.Broker
	client  *testkit.Client
	folder  string
	written map[string]int64 // records per key
	out     *testkit.Reader
}

func newStage(t *testing.T) *stage {
	b, err := embedded.Start(embedded.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	s := &stage{T: t, ctx: t.Context(), broker: b, folder: t.TempDir(), written: map[string]int64{}}
	s.client, err = testkit.Dial(b.Addr())
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	require.NoError(t, s.client.CreateTopics(s.ctx, partitions, "in", "out", "other"))
	s.out, err = s.client.Read("out", partitions, true)
	require.NoError(t, err)
	t.Cleanup(s.out.Close)
	return s
}

// write produces n records, round the keys.
func (s *stage) write(n int) {
	s.Helper()
	var list []testkit.Message
	for i := range n {
		key := fmt.Sprint("k", i%keys)
		s.written[key]++
		list = append(list, testkit.Message{Partition: int32(i) % partitions, Key: []byte(key), Value: []byte("v"), Timestamp: time.Now().UnixMilli()})
	}
	require.NoError(s, s.client.Produce(s.ctx, "in", list))
}

// counts is the first topology: records per key behind a repartition topic.
func counts(b *tidegate.Builder) *tidegate.Stream[string, int64] {
	return b.Stream("in", serde.String(), serde.String()).
		Repartition("again").
		GroupByKey("by-key").Count("counts").ToStream()
}

func first() (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()
	counts(b).To("out")
	return b.Build()
}

// more counts the same, and how often each count's last digit came, by a step and a
// store that are new and come first.
func more() (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()
	b.Stream("in", serde.String(), serde.String()).
		GroupBy("aside", func(k, _ string) string { return "aside-" + k }, serde.String()).
		Count("aside").ToStream().To("other")
	counts(b).To("out")
	return b.Build()
}

// other keeps none of the stores of first.
func other() (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()
	b.Stream("in", serde.String(), serde.String()).
		Repartition("again").
		GroupByKey("by-key").Count("renamed").ToStream().To("out")
	return b.Build()
}

type running struct {
	s    *stage
	app  *tidegate.App
	stop context.CancelFunc
	done chan error
}

func (s *stage) start(topology func() (*tidegate.Topology, error), opts ...tidegate.Option) *running {
	s.Helper()
	topo, err := topology()
	require.NoError(s, err)
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("UPGRADE_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	a, err := tidegate.New(topo, append([]tidegate.Option{
		tidegate.WithApplicationID(app), tidegate.WithBrokers(s.broker.Addr()),
		tidegate.WithCheckpointDir(filepath.Join(s.folder, "store")), tidegate.WithCheckpointInterval(100 * time.Millisecond),
		tidegate.WithStateDir(filepath.Join(s.folder, "state")), tidegate.WithInstanceName("i"), tidegate.WithWorkers(1),
		tidegate.WithCacheBytes(1), tidegate.WithSessionTimeout(6 * time.Second), tidegate.WithLogger(log),
	}, opts...)...)
	require.NoError(s, err)
	ctx, stop := context.WithCancel(s.ctx)
	r := &running{s: s, app: a, stop: stop, done: make(chan error, 1)}
	go func() { r.done <- a.Run(ctx) }()
	s.Cleanup(stop)
	return r
}

// fails returns the error with which the application ends by itself.
func (r *running) fails() error {
	r.s.Helper()
	select {
	case err := <-r.done:
		require.Error(r.s, err)
		return err
	case <-time.After(time.Minute):
		require.Fail(r.s, "it does not end")
	}
	return nil
}

func (r *running) close() {
	r.s.Helper()
	r.stop()
	require.NoError(r.s, <-r.done)
}

// await waits until the last count of every key in the output is the number of its
// records: state, input and output belong together.
func (s *stage) await(r *running) {
	s.Helper()
	require.Eventually(s, func() bool {
		select {
		case err := <-r.done:
			require.NoError(s, err)
			require.Fail(s, "it ended")
		default:
		}
		last := map[string]int64{}
		for _, list := range s.out.All() {
			for _, m := range list {
				last[string(m.Key)] = int64(binary.BigEndian.Uint64(m.Value))
			}
		}
		for key, n := range s.written {
			if last[key] != n {
				return false
			}
		}
		return true
	}, time.Minute, 20*time.Millisecond)
}

// once requires that every count of every key is in the output exactly once.
func (s *stage) once() {
	s.Helper()
	seen := map[string]int64{}
	for _, list := range s.out.All() {
		for _, m := range list {
			key, n := string(m.Key), int64(binary.BigEndian.Uint64(m.Value))
			require.Equal(s, seen[key]+1, n, key)
			seen[key] = n
		}
	}
}

// plan is what the command line does.
func (s *stage) plan() *runtime.Repair {
	s.Helper()
	store, err := dir.New(filepath.Join(s.folder, "store"))
	require.NoError(s, err)
	p, err := runtime.PlanRepair(s.ctx, runtime.KafkaConfig{Brokers: []string{s.broker.Addr()}}, app, store, slog.New(slog.NewTextHandler(io.Discard, nil)))
	require.NoError(s, err)
	s.Cleanup(p.Close)
	return p
}

// The control log is deleted while nothing runs: a start is refused and names the
// command; with StartFrom it goes on, with every output once.
func TestRepair(t *testing.T) {
	s := newStage(t)
	r := s.start(first)
	s.write(100)
	s.await(r)
	r.close()
	require.NoError(t, s.client.K.Admin().DeleteTopics(s.ctx, app+"-control"))
	err := s.start(first).fails()
	require.ErrorContains(t, err, "the log was lost")
	require.ErrorContains(t, err, "tidegate repair")

	p := s.plan()
	newest, ok := p.Newest()
	require.True(t, ok)
	require.Equal(t, p.Tag, newest.Name, "it stopped cleanly: nothing is ahead of the last checkpoint")
	require.Empty(t, p.Ahead)
	r = s.start(first, tidegate.StartFrom(newest.Name))
	s.write(100)
	s.await(r)
	r.close()
	s.once()

	// The new life has checkpoints of its own, and the option does nothing more.
	r = s.start(first, tidegate.StartFrom("last"))
	s.write(50)
	s.await(r)
	r.close()
	s.once()
}

// Going back further writes what came behind a second time, and the plan says so.
func TestRepairSaysWhatIsDoubled(t *testing.T) {
	s := newStage(t)
	r := s.start(first, tidegate.WithRetainedCheckpoints(50))
	s.write(40)
	s.await(r)
	r.close()
	older, _ := s.plan().Newest()
	r = s.start(first, tidegate.WithRetainedCheckpoints(50))
	s.write(60)
	s.await(r)
	r.close()
	before := s.out.Count()
	p := s.plan()
	require.NoError(t, p.Execute(s.ctx))
	r = s.start(first, tidegate.StartFrom(older.Name))
	require.Eventually(t, func() bool { return s.out.Count() == before+60 }, time.Minute, 20*time.Millisecond)
	s.await(r)
	r.close()
}

// A step with a store is added in front; the counts go on.
func TestUpgradeAddsStep(t *testing.T) {
	s := newStage(t)
	r := s.start(first)
	s.write(100)
	s.await(r)
	r.close()
	err := s.start(more).fails()
	require.ErrorContains(t, err, "another topology")
	require.ErrorContains(t, err, "tidegate upgrade")

	require.NoError(t, s.plan().Execute(s.ctx))
	err = s.start(more).fails()
	require.ErrorContains(t, err, "the log was lost", "without StartFrom nothing begins by accident")
	require.NoError(t, s.plan().Execute(s.ctx))
	r = s.start(more, tidegate.StartFrom("last"))
	s.write(100)
	s.await(r)
	r.close()
	s.once()
	aside, err := s.client.ReadToEnd(s.ctx, "other", partitions, true)
	require.NoError(t, err)
	n := 0
	for _, list := range aside {
		n += len(list)
	}
	require.Equal(t, 100, n, "the new step sees what came since")

	// And back: its store is refused, unless it may be dropped.
	require.NoError(t, s.plan().Execute(s.ctx))
	err = s.start(first, tidegate.StartFrom("last")).fails()
	require.ErrorContains(t, err, `AllowDroppedState("aside")`)
	require.NoError(t, s.plan().Execute(s.ctx))
	r = s.start(first, tidegate.StartFrom("last"), tidegate.AllowDroppedState("aside"))
	s.write(50)
	s.await(r)
	r.close()
	s.once()
}

// State under another name is not found by accident.
func TestUpgradeRefuses(t *testing.T) {
	s := newStage(t)
	r := s.start(first)
	s.write(20)
	s.await(r)
	r.close()
	require.NoError(t, s.plan().Execute(s.ctx))
	require.ErrorContains(t, s.start(other, tidegate.StartFrom("last")).fails(), `AllowDroppedState("counts")`)
	require.ErrorContains(t, s.start(first, tidegate.StartFrom("0123456789abcdef/7")).fails(), "holds no such marked checkpoint")
	topo, err := first()
	require.NoError(t, err)
	_, err = tidegate.New(topo, tidegate.WithApplicationID(app), tidegate.WithBrokers(s.broker.Addr()),
		tidegate.WithCheckpointDir(s.folder), tidegate.StartFrom("yesterday"))
	require.ErrorContains(t, err, "LIFE/N")
}
