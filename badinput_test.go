package tidegate_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/runtime"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// These tests run over the embedded broker: what they look at is the
// application's own reaction. What depends on a real server is in integration/.

// started is a running App.
type started struct {
	*tidegate.App
	t    *testing.T
	stop context.CancelFunc
	done chan struct{}
	err  error
}

func (c *cluster) start(app *tidegate.App) *started {
	ctx, cancel := context.WithCancel(context.Background())
	s := &started{App: app, t: c.t, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = app.Run(ctx)
	}()
	c.t.Cleanup(func() { cancel(); <-s.done })
	return s
}

// close stops cleanly.
func (s *started) close() {
	s.t.Helper()
	s.stop()
	<-s.done
	require.NoError(s.t, s.err)
}

// fails waits for the error with which Run ends and checks what it says.
func (s *started) fails(parts ...string) {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(45 * time.Second):
		s.t.Fatalf("Run does not fail; health %+v", s.Health())
	}
	require.Error(s.t, s.err)
	for _, p := range parts {
		require.ErrorContains(s.t, s.err, p)
	}
	require.Equal(s.t, tidegate.Failed, s.State())
	require.Equal(s.t, s.err, s.Health().Err)
}

// reader follows a topic, read committed.
func (c *cluster) reader(topic string, partitions int32) *testkit.Reader {
	c.t.Helper()
	r, err := c.client.Read(topic, partitions, true)
	require.NoError(c.t, err)
	c.t.Cleanup(r.Close)
	return r
}

func (c *cluster) await(r *testkit.Reader, n int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
	defer cancel()
	require.NoError(c.t, r.Await(ctx, func() bool { return r.Count() >= n }))
	require.Equal(c.t, n, r.Count())
}

func (c *cluster) produce(topic string, list ...testkit.Message) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	require.NoError(c.t, c.client.Produce(ctx, topic, list))
}

// values makes one record each for partition 1 of a topic.
func values(list ...string) (out []testkit.Message) {
	for i, v := range list {
		out = append(out, testkit.Message{Partition: 1, Key: []byte("k"), Value: []byte(v), Timestamp: int64(i)})
	}
	return out
}

// texts returns the values of a topic, in order per partition.
func texts(r *testkit.Reader) (out []string) {
	all := r.All()
	for p := range int32(8) {
		for _, m := range all[p] {
			out = append(out, string(m.Value))
		}
	}
	return out
}

func build(t *testing.T, f func(b *tidegate.Builder)) *tidegate.Topology {
	t.Helper()
	b := tidegate.NewBuilder()
	f(b)
	topo, err := b.Build()
	require.NoError(t, err)
	return topo
}

// strict decodes only values that begin with "v".
type strict struct{ serde.Serde[string] }

func (s strict) Decode(b []byte) (string, error) {
	if !strings.HasPrefix(string(b), "v") {
		return "", errors.New("it does not begin with v")
	}
	return s.Serde.Decode(b)
}

// badRecords are the three ways in which a record can be bad for a step.
var badRecords = map[string]struct {
	topology func(b *tidegate.Builder)
	says     []string
}{
	"undecodable": {func(b *tidegate.Builder) {
		b.Stream("in", serde.String(), serde.Serde[string](strict{serde.String()})).To("out")
	}, []string{"cannot decode", "in-1@2", "it does not begin with v"}},
	"error": {func(b *tidegate.Builder) {
		b.Stream("in", serde.String(), serde.String()).
			PeekCtx(func(_ *tidegate.RecordContext, _, v string) error {
				if v == "bad" {
					return errors.New("no such account")
				}
				return nil
			}).To("out")
	}, []string{"user function failed", "in-1@2", "no such account"}},
	"panic": {func(b *tidegate.Builder) {
		b.Stream("in", serde.String(), serde.String()).
			Peek(func(_, v string) {
				if v == "bad" {
					panic("index out of everything")
				}
			}).To("out")
	}, []string{"user function panicked", "in-1@2", "index out of everything"}},
}

// TestBadRecordFails: the error names topic, partition and offset; nothing is
// lost: the output before it is there once, and a start that skips it goes on
// behind it.
func TestBadRecordFails(t *testing.T) {
	for name, tt := range badRecords {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, map[string]int32{"in": 2, "out": 2})
			out := c.reader("out", 2)
			c.produce("in", values("v0", "v1")...)
			a := c.start(c.app(build(t, tt.topology), "a"))
			c.await(out, 2)
			c.produce("in", values("bad", "v3", "v4")...)
			a.fails(tt.says...)
			require.Zero(t, a.Health().Skipped)
			var asked []error
			a = c.start(c.app(build(t, tt.topology), "a", tidegate.WithFailureHandler(func(err error) tidegate.FailureAction {
				asked = append(asked, err)
				return tidegate.Skip
			})))
			c.await(out, 4)
			a.close()
			require.Equal(t, []string{"v0", "v1", "v3", "v4"}, texts(out))
			require.EqualValues(t, 1, a.Health().Skipped)
			require.Len(t, asked, 1)
			for _, s := range tt.says {
				require.ErrorContains(t, asked[0], s)
			}
		})
	}
}

// TestUnknownTopics: a topic that the topology names is looked for at start, one
// that a record names when the record comes.
func TestUnknownTopics(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 2, "out": 2})
	c.start(c.app(build(t, func(b *tidegate.Builder) {
		b.Stream("nothere", serde.String(), serde.String()).To("out")
	}), "a")).fails(`topic "nothere"`, "does not exist", "badinput_test.go")
	c.start(c.app(build(t, func(b *tidegate.Builder) {
		b.Stream("in", serde.String(), serde.String()).To("nothere")
	}), "b")).fails(`topic "nothere"`, "does not exist", "badinput_test.go")

	dynamic := build(t, func(b *tidegate.Builder) {
		b.Stream("in", serde.String(), serde.String()).
			ToDynamic(func(_ *tidegate.RecordContext, _, v string) string { return v })
	})
	out := c.reader("out", 2)
	c.produce("in", values("out", "nothere", "out")...)
	c.start(c.app(dynamic, "c")).fails("in-1@1", "nothere", "does not exist")
	a := c.start(c.app(dynamic, "c", tidegate.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Skip })))
	c.await(out, 2)
	require.EqualValues(t, 1, a.Health().Skipped)
	require.NoError(t, c.broker.CreateTopic("nothere", 1))
	c.produce("in", values("nothere")...)
	c.await(c.reader("nothere", 1), 1)
	a.close()
}

// TestOtherTopologyUnderTheSameID: while the first one runs the second is
// refused and the first goes on; after it stopped, its checkpoints are not
// taken for another topology's.
func TestOtherTopologyUnderTheSameID(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 2, "out": 2})
	first := counting(t, "in", "out")
	other := build(t, func(b *tidegate.Builder) {
		b.Stream("in", serde.String(), serde.String()).GroupByKey("by-key").Count("other").ToStream().To("out")
	})
	out := c.reader("out", 2)
	c.produce("in", words(100, 10, 2)...)
	a := c.start(c.app(first, "a"))
	c.await(out, 100)
	c.start(c.app(other, "b")).fails("another topology", "app", "application id")
	c.produce("in", words(100, 10, 2)...)
	c.await(out, 200)
	a.close()
	c.start(c.app(other, "b")).fails("another topology", "app")
	a = c.start(c.app(counting(t, "in", "out"), "a"))
	c.produce("in", words(100, 10, 2)...)
	c.await(out, 300)
	a.close()
	checkRunning(t, out.All())
}

// TestStateFolderInUse: two processes, or two applications, with one state
// folder.
func TestStateFolderInUse(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 2, "out": 2})
	a := c.start(c.app(counting(t, "in", "out"), "a"))
	require.Eventually(t, func() bool { return a.State() == tidegate.Running }, 30*time.Second, 10*time.Millisecond)
	b := c.start(c.app(counting(t, "in", "out"), "a", tidegate.WithInstanceName("b")))
	b.fails("in use", filepath.Join(c.dir, "a"), fmt.Sprint(os.Getpid()), "own state folder")
	require.ErrorIs(t, b.err, state.ErrLocked)
	require.Equal(t, tidegate.Running, a.State())
	a.close()
	b = c.start(c.app(counting(t, "in", "out"), "a", tidegate.WithApplicationID("another")))
	b.fails("belongs to", `"app"`, `"another"`)
	require.ErrorIs(t, b.err, state.ErrForeign)
}

// TestDamagedLocalState: whatever is left in a state folder, whole, damaged or
// foreign, is wiped: state comes from the checkpoint.
func TestDamagedLocalState(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 2, "out": 2})
	out := c.reader("out", 2)
	total := 0
	for range 3 {
		c.produce("in", words(500, 20, 2)...)
		total += 500
		a := c.start(c.app(counting(t, "in", "out"), "a"))
		c.await(out, total)
		// As if killed: what a process leaves is copied aside and comes back,
		// damaged.
		kept := filepath.Join(t.TempDir(), "run")
		copyLive(t, kept, filepath.Join(c.dir, "a", "run"))
		a.close()
		damage(t, kept, func(string) bool { return true })
		require.NoError(t, os.RemoveAll(filepath.Join(c.dir, "a", "run")))
		require.NoError(t, os.Rename(kept, filepath.Join(c.dir, "a", "run")))
	}
	checkRunning(t, out.All())
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "a", "OWNER"), []byte("{"), 0o600))
	a := c.start(c.app(counting(t, "in", "out"), "a"))
	a.fails("corrupted", filepath.Join(c.dir, "a"), "remove the folder")
}

// copyLive copies a folder that a running application writes to. A snapshot's
// folder is removed once it is uploaded, so what a listing names may be gone when
// it is opened: the copy is without it, as a killed process's folder would be.
func copyLive(t *testing.T, to, from string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if e.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(target, b, 0o600)
	}))
}

// damage changes a byte in the middle of every file that is chosen; it returns
// their names.
func damage(t *testing.T, dir string, choose func(path string) bool) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !choose(path) {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil || len(b) == 0 {
			return err
		}
		b[len(b)/2] ^= 0x10
		list = append(list, path)
		return os.WriteFile(path, b, 0o600)
	}))
	require.NotEmpty(t, list)
	return list
}

// TestDamagedCheckpoint: an object of the last checkpoint was damaged. The error
// names it, nothing falls back by itself, and going back to the checkpoint
// before works if the user says so.
func TestDamagedCheckpoint(t *testing.T) {
	for _, kind := range []string{"pack", "part", "manifest"} {
		t.Run(kind, func(t *testing.T) {
			c := newCluster(t, map[string]int32{"in": 2, "out": 2})
			out := c.reader("out", 2)
			c.produce("in", words(500, 20, 2)...)
			a := c.start(c.app(counting(t, "in", "out"), "a"))
			c.await(out, 500)
			a.close()
			old := a.Health().LastCheckpoint
			c.produce("in", words(500, 20, 2)...)
			a = c.start(c.app(counting(t, "in", "out"), "a"))
			c.await(out, 1000)
			a.close()
			newer := damage(t, filepath.Join(c.dir, "checkpoints"), func(path string) bool {
				_, rest, ok := strings.Cut(path, "/"+kind+"/")
				n, err := strconv.ParseInt(strings.Trim(strings.SplitN(rest, "/", 2)[0], "."), 10, 64)
				return ok && err == nil && n > old
			})
			// Another instance: this one has files of its own, and downloads none.
			a = c.start(c.app(counting(t, "in", "out"), "b"))
			a.fails("corrupted", kind, "RestoreFrom")
			require.ErrorIs(t, a.err, checkpoint.ErrCorrupted)
			named := false
			for _, n := range newer {
				rel, err := filepath.Rel(filepath.Join(c.dir, "checkpoints"), n)
				require.NoError(t, err)
				named = named || strings.Contains(a.err.Error(), rel)
			}
			require.True(t, named, "%v names none of %v", a.err, newer)

			a = c.start(c.app(counting(t, "in", "out"), "b", tidegate.RestoreFrom(old, tidegate.AllowDuplicates)))
			c.await(out, 1500)
			c.produce("in", words(500, 20, 2)...)
			c.await(out, 2000)
			a.close()
		})
	}
}

// TestNoCheckpointFolder: a folder for checkpoints that cannot be one.
func TestNoCheckpointFolder(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 2, "out": 2})
	file := filepath.Join(c.dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	app, err := tidegate.New(counting(t, "in", "out"), tidegate.WithApplicationID("app"), tidegate.WithBrokers(c.broker.Addr()),
		tidegate.WithCheckpointDir(filepath.Join(file, "checkpoints")), tidegate.WithStateDir(filepath.Join(c.dir, "a")), tidegate.WithLogger(testLogger()))
	if err == nil {
		err = app.Run(context.Background())
	}
	require.ErrorContains(t, err, filepath.Join(file, "checkpoints"))
}

// TestContradictoryTimeouts is R22's check: by itself and against the broker.
func TestContradictoryTimeouts(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 2, "out": 2})
	c.start(c.app(counting(t, "in", "out"), "a", tidegate.WithTransactionTimeout(time.Minute))).
		fails("WithTransactionTimeout(1m0s)", "WithCheckpointInterval(200ms)", "WithCheckpointTimeout(10s)", "WithToleratedAborts(2)", "WithSessionTimeout(2s)", "WithExpectedRestart(5m0s)")
	c.start(c.app(counting(t, "in", "out"), "a", tidegate.WithTransactionTimeout(24*time.Hour))).
		fails("WithTransactionTimeout(24h0m0s)", "transaction.max.timeout.ms")
	_, err := tidegate.New(counting(t, "in", "out"), tidegate.WithApplicationID("a/b"), tidegate.WithCheckpointInterval(time.Millisecond))
	for _, s := range []string{"a/b", "WithBrokers", "WithCheckpointStore", "WithCheckpointInterval(1ms)"} {
		require.ErrorContains(t, err, s)
	}
}

// TestBrokerComesLate: the broker starts after the application, and goes away
// for longer than a session timeout in the middle.
func TestBrokerComesLate(t *testing.T) {
	dir := t.TempDir()
	first, err := embedded.Start(embedded.Options{Topics: map[string]int32{"in": 2, "out": 2}, Dir: dir})
	require.NoError(t, err)
	port := first.Port()
	require.NoError(t, first.Close())
	c := &cluster{t: t, broker: first, dir: t.TempDir()}
	a := c.start(c.app(counting(t, "in", "out"), "a"))
	require.Never(t, func() bool { return a.State() != tidegate.Joining && a.State() != tidegate.Created }, 700*time.Millisecond, 20*time.Millisecond)

	up := func() *embedded.Broker {
		var b *embedded.Broker
		require.Eventually(t, func() bool {
			var err error
			b, err = embedded.Start(embedded.Options{Dir: dir, Port: port})
			return err == nil
		}, 20*time.Second, 50*time.Millisecond)
		return b
	}
	b := up()
	c.client, err = testkit.Dial(b.Addr())
	require.NoError(t, err)
	t.Cleanup(c.client.Close)
	c.produce("in", words(500, 20, 2)...)
	out := c.reader("out", 2)
	c.await(out, 500)

	require.NoError(t, b.Close())
	// Longer than the session timeout of 2 s.
	require.Never(t, func() bool { return a.State() == tidegate.Failed }, 3*time.Second, 20*time.Millisecond)
	b = up()
	t.Cleanup(func() { _ = b.Close() })
	c.produce("in", words(500, 20, 2)...)
	c.await(out, 1000)
	a.close()
	checkRunning(t, out.All())
}

// failingEngine is a state engine whose snapshots fail with an error.
type failingEngine struct {
	state.Engine
	fail *atomic.Pointer[error]
}

func (e failingEngine) Snapshot(dir string) (state.Snapshot, error) {
	if err := e.fail.Load(); err != nil {
		return state.Snapshot{}, *err
	}
	return e.Engine.Snapshot(dir)
}

// TestDiskFull: no space for local state ends the application with an error that
// says what helps; nothing is lost or doubled. That Pebble reports a full disk as
// such is tested in state/pebblestore.
func TestDiskFull(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 2, "out": 2})
	out := c.reader("out", 2)
	var fail atomic.Pointer[error]
	disk := func(rc *runtime.Config) {
		rc.TestRules.Engine = func(e state.Engine) state.Engine { return failingEngine{e, &fail} }
	}
	c.produce("in", words(500, 20, 2)...)
	a := c.start(c.app(counting(t, "in", "out"), "a", disk))
	c.await(out, 500)
	full := state.Wrap(filepath.Join(c.dir, "a"), &fs.PathError{Op: "write", Path: "000007.sst", Err: syscall.ENOSPC})
	fail.Store(&full)
	c.produce("in", words(500, 20, 2)...)
	a.fails("no space left", filepath.Join(c.dir, "a"), "free space")
	require.ErrorIs(t, a.err, state.ErrDiskFull)
	fail.Store(nil)
	a = c.start(c.app(counting(t, "in", "out"), "a", disk))
	c.await(out, 1000)
	a.close()
	checkRunning(t, out.All())
}

// TestLocalStateFailsWhileRunning: state that turns out damaged in the middle is
// wiped and restored from the checkpoint, without a restart of the process.
func TestLocalStateFailsWhileRunning(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 2, "out": 2})
	out := c.reader("out", 2)
	var fail atomic.Pointer[error]
	c.produce("in", words(500, 20, 2)...)
	a := c.start(c.app(counting(t, "in", "out"), "a", func(rc *runtime.Config) {
		rc.TestRules.Engine = func(e state.Engine) state.Engine { return failingEngine{e, &fail} }
	}))
	c.await(out, 500)
	bad := state.Corrupted(filepath.Join(c.dir, "a"), errors.New("checksum of block 3"))
	fail.Store(&bad)
	c.produce("in", words(500, 20, 2)...)
	require.Eventually(t, func() bool { return a.Health().Failures > 0 }, 30*time.Second, time.Millisecond)
	fail.Store(nil)
	c.await(out, 1000)
	a.close()
	checkRunning(t, out.All())
}

// TestHealthCountsDroppedRecords: what no handler is asked about is counted.
func TestHealthCountsDroppedRecords(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 1})
	minute := time.Minute.Milliseconds()
	c.produce("in",
		testkit.Message{Key: []byte("k"), Value: []byte("v"), Timestamp: minute},
		testkit.Message{Value: []byte("no key"), Timestamp: 2 * minute},
		testkit.Message{Key: []byte("k"), Timestamp: 3 * minute},
		testkit.Message{Key: []byte("k"), Value: []byte("late"), Timestamp: minute},
	)
	a := c.start(c.app(build(t, func(b *tidegate.Builder) {
		b.Stream("in", serde.String(), serde.String()).GroupByKey("g").
			WindowedBy(tidegate.Tumbling(time.Minute), tidegate.ByWindow).Count("n")
	}), "a"))
	require.Eventually(t, func() bool { return a.Health().Records == 4 && a.Health().Late == 1 }, 20*time.Second, 5*time.Millisecond)
	require.EqualValues(t, 2, a.Health().NullDropped)
	require.Zero(t, a.Health().Skipped)
	a.close()
}
