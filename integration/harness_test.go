package integration

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/s3"
	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/runtime"
)

// settings say how an instance is made, in this process or in a child.
type settings struct {
	App, Prefix, Topology string
	Brokers               []string
	Name, StateDir        string
	S3                    s3.Config
	Interval, Timeout     time.Duration
	Aborts                int
	Transaction, Restart  time.Duration
	Session, Shutdown     time.Duration
	AlignmentBytes        int64
	Memory                int64
	Mode                  tidegate.Mode
	Commit                time.Duration
	Static                bool
}

// options are those of tidegate.New but for the store.
func (s settings) options() []tidegate.Option {
	list := []tidegate.Option{
		tidegate.WithMode(s.Mode), tidegate.WithCommitInterval(s.Commit),
		tidegate.WithApplicationID(s.App), tidegate.WithBrokers(s.Brokers...),
		tidegate.WithStateDir(s.StateDir), tidegate.WithInstanceName(s.Name),
		tidegate.WithCheckpointInterval(s.Interval), tidegate.WithCheckpointTimeout(s.Timeout),
		tidegate.WithToleratedAborts(s.Aborts), tidegate.WithSessionTimeout(s.Session),
		tidegate.WithTransactionTimeout(s.Transaction), tidegate.WithExpectedRestart(s.Restart),
		tidegate.WithShutdownDeadline(s.Shutdown), tidegate.WithAlignmentBytes(s.AlignmentBytes),
		tidegate.WithMemory(s.Memory),
	}
	if s.Static {
		list = append(list, tidegate.WithStaticMembership())
	}
	return list
}

// lab is the surroundings of one test: an application on real servers with
// topics of its own.
type lab struct {
	*testing.T
	ctx    context.Context
	kafka  *servers.KafkaServer
	s3     *servers.S3Server
	client *testkit.Client
	dir    string
	prefix string
	parts  int32
	base   settings
	env    []string // of child processes, added
}

// newLab makes topics in and out with parts partitions.
func newLab(t *testing.T, topology string, parts int32) *lab {
	t.Helper()
	server, bucket := servers.RequireS3(t)
	return newLabOn(t, servers.RequireKafka(t), server, bucket, topology, parts)
}

func newLabOn(t *testing.T, k *servers.KafkaServer, server *servers.S3Server, bucket, topology string, parts int32) *lab {
	t.Helper()
	return newLabAt(t, k, k.Brokers(), server, bucket, topology, parts)
}

// newLabAt is newLabOn with other bootstrap brokers than those of k.
func newLabAt(t *testing.T, k *servers.KafkaServer, brokers []string, server *servers.S3Server, bucket, topology string, parts int32) *lab {
	t.Helper()
	client, err := testkit.Dial(brokers...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	name := strings.ToLower(t.Name()) + "-" + fmt.Sprint(time.Now().UnixNano()%1e9)
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
	l := &lab{T: t, ctx: ctx, kafka: k, s3: server, client: client, dir: t.TempDir(), prefix: name + "-", parts: parts}
	l.base = settings{
		App: name, Prefix: l.prefix, Topology: topology, Brokers: brokers,
		Interval: 500 * time.Millisecond, Timeout: 10 * time.Second, Aborts: 3,
		Transaction: 5 * time.Minute, Restart: 2 * time.Minute,
		Session: 3 * time.Second, Shutdown: 20 * time.Second, AlignmentBytes: 16 << 20,
	}
	if server != nil {
		l.base.S3 = s3.Config{
			Bucket: bucket, Endpoint: server.Endpoint, Region: server.Region, PathStyle: true,
			Credentials: &s3.Credentials{AccessKeyID: server.AccessKey, SecretAccessKey: server.SecretKey},
		}
	}
	l.must(client.CreateTopics(ctx, parts, l.prefix+"in", l.prefix+"out"))
	t.Cleanup(l.dump)
	return l
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// topic returns the full name of one of the test's topics.
func (l *lab) topic(name string) string { return l.prefix + name }

func (l *lab) store() checkpoint.Store {
	l.Helper()
	s, err := s3.New(l.ctx, l.base.S3)
	l.must(err)
	return s
}

// eventually polls until done, at most until the deadline.
func (l *lab) eventually(limit time.Duration, what string, done func() bool) {
	l.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-l.ctx.Done():
			l.Fatalf("%s: the test's time is over", what)
		case <-deadline.C:
			l.Fatalf("not within %v: %s", limit, what)
		case <-tick.C:
		}
	}
}

// read follows a topic from its start.
func (l *lab) read(topic string, committed bool) *testkit.Reader {
	l.Helper()
	r, err := l.client.Read(l.topic(topic), l.parts, committed)
	l.must(err)
	l.Cleanup(r.Close)
	return r
}

// produce writes key=value records, one a line of list; record i goes to
// partition i modulo the number of partitions unless one is given.
func (l *lab) produce(list ...testkit.Message) {
	l.Helper()
	l.must(l.client.Produce(l.ctx, l.topic("in"), list))
}

// words makes n records with values w0 … of distinct words, spread over the
// partitions, with timestamps from on.
func (l *lab) words(from, n, distinct int) []testkit.Message {
	out := make([]testkit.Message, n)
	for i := range out {
		k := from + i
		out[i] = testkit.Message{
			Partition: int32(k) % l.parts, Key: fmt.Appendf(nil, "k%d", k),
			Value: fmt.Appendf(nil, "w%d", k*7919%distinct), Timestamp: 1_700_000_000_000 + int64(k),
		}
	}
	return out
}

// running checks that per key the values are 1, 2, …, each once, in order, and
// returns their number.
func (l *lab) running(r *testkit.Reader) int {
	l.Helper()
	return l.fold(r, func(_ string, last int64) int64 { return last + 1 })
}

// fold checks that each value of a key is what next makes of the one before.
func (l *lab) fold(r *testkit.Reader, next func(key string, last int64) int64) (n int) {
	l.Helper()
	last := map[string]int64{}
	for p, list := range r.All() {
		for _, m := range list {
			v := int64(binary.BigEndian.Uint64(m.Value))
			if want := next(string(m.Key), last[string(m.Key)]); v != want {
				l.Fatalf("%s at offset %d of partition %d: %d follows %d, want %d", m.Key, m.Offset, p, v, last[string(m.Key)], want)
			}
			last[string(m.Key)] = v
			n++
		}
	}
	return n
}

// awaitCount waits until a reader has n records, and checks that it does not
// have more.
func (l *lab) awaitCount(r *testkit.Reader, n int, limit time.Duration) {
	l.Helper()
	l.eventually(limit, fmt.Sprintf("%d records (there are %d)", n, r.Count()), func() bool { return r.Count() >= n })
	if r.Count() > n {
		l.Fatalf("read %d records, want %d", r.Count(), n)
	}
}

// ends returns the ends of a topic's partitions.
func (l *lab) offsets(at int64, topic string) map[int32]int64 {
	l.Helper()
	var tps []ids.TopicPartition
	for p := range l.parts {
		tps = append(tps, ids.TopicPartition{Topic: l.topic(topic), Partition: p})
	}
	found, err := l.client.K.Admin().ListOffsets(l.ctx, at, tps...)
	l.must(err)
	out := map[int32]int64{}
	for tp, o := range found {
		out[tp.Partition] = o
	}
	return out
}

// groupOffsets returns the application's committed offsets of topic in.
func (l *lab) groupOffsets() map[int32]kafka.Offset {
	l.Helper()
	var tps []ids.TopicPartition
	for p := range l.parts {
		tps = append(tps, ids.TopicPartition{Topic: l.topic("in"), Partition: p})
	}
	found, err := l.client.K.Admin().FetchOffsets(l.ctx, l.base.App, tps...)
	l.must(err)
	out := map[int32]kafka.Offset{}
	for tp, o := range found {
		out[tp.Partition] = o
	}
	return out
}

// local is an instance in this process.
type local struct {
	*tidegate.App
	l    *lab
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// run starts an instance in this process; it is stopped with the test.
func (l *lab) run(name string, opts ...tidegate.Option) *local {
	l.Helper()
	topo, err := topologies[l.base.Topology](l.prefix)
	l.must(err)
	return l.runTopology(topo, name, opts...)
}

func (l *lab) runTopology(topo *tidegate.Topology, name string, opts ...tidegate.Option) *local {
	l.Helper()
	s := l.base
	s.Name, s.StateDir = name, filepath.Join(l.dir, "state-"+name)
	all := append(s.options(), tidegate.WithLogger(logger(name)))
	if l.s3 != nil {
		all = append(all, tidegate.WithCheckpointStore(l.store()))
	}
	app, err := tidegate.New(topo, append(all, opts...)...)
	l.must(err)
	ctx, stop := context.WithCancel(context.Background())
	a := &local{App: app, l: l, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.err = app.Run(ctx)
	}()
	l.Cleanup(func() { stop(); <-a.done })
	return a
}

// close stops the instance cleanly.
func (a *local) close() {
	a.l.Helper()
	a.stop()
	<-a.done
	if a.err != nil {
		a.l.Fatal(a.err)
	}
}

// wait waits for the end of Run and returns its error.
func (a *local) wait(limit time.Duration) error {
	a.l.Helper()
	a.l.eventually(limit, "the application ends by itself", func() bool {
		select {
		case <-a.done:
			return true
		default:
			return false
		}
	})
	return a.err
}

// awaitRunning waits until the instance runs its tasks.
func (a *local) awaitRunning() {
	a.l.Helper()
	a.l.eventually(60*time.Second, "the application runs", func() bool {
		select {
		case <-a.done:
			a.l.Fatalf("it ended: %v", a.err)
		default:
		}
		return a.State() == tidegate.Running && len(a.Health().Restoring) == 0
	})
}

func logger(name string) *slog.Logger {
	level := slog.LevelError + 4
	if os.Getenv("TIDEGATE_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("app", name)
}

// wantError checks that an error says all of what is wanted.
func (l *lab) wantError(err error, parts ...string) {
	l.Helper()
	if err == nil {
		l.Fatalf("no error; want one that says %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			l.Fatalf("the error %q does not say %q", err, p)
		}
	}
}

// objects lists the checkpoint objects of the application by name.
func (l *lab) objects() []checkpoint.Name {
	l.Helper()
	var out []checkpoint.Name
	for o, err := range l.store().List(l.ctx, l.base.App+"/") {
		l.must(err)
		n, err := checkpoint.ParseName(o.Key)
		l.must(err)
		out = append(out, n)
	}
	return out
}

func phaseHook(f func(string)) tidegate.Option {
	return func(c *runtime.Config) { c.TestRules.Phase = f }
}

// hookHandler is a slog handler that hands every line to a function, too.
type hookHandler struct {
	slog.Handler
	f     func(msg string, attrs map[string]string)
	attrs []slog.Attr
}

func logHook(f func(msg string, attrs map[string]string)) slog.Handler {
	return &hookHandler{Handler: logger("hooked").Handler(), f: f}
}

func (h *hookHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *hookHandler) Handle(ctx context.Context, r slog.Record) error {
	attrs := map[string]string{}
	for _, a := range h.attrs {
		attrs[a.Key] = a.Value.String()
	}
	r.Attrs(func(a slog.Attr) bool { attrs[a.Key] = a.Value.String(); return true })
	h.f(r.Message, attrs)
	if h.Handler.Enabled(ctx, r.Level) {
		return h.Handler.Handle(ctx, r)
	}
	return nil
}

func (h *hookHandler) WithAttrs(list []slog.Attr) slog.Handler {
	return &hookHandler{Handler: h.Handler.WithAttrs(list), f: h.f, attrs: append(append([]slog.Attr(nil), h.attrs...), list...)}
}

// control returns the records of the control log so far.
func (l *lab) control(ctx context.Context) (out []barrier.Record, err error) {
	tp := ids.TopicPartition{Topic: l.base.App + "-control"}
	end, err := l.client.K.Admin().ListOffsets(ctx, kafka.Latest, tp)
	if err != nil {
		return nil, err
	}
	r, err := l.client.Read(tp.Topic, 1, false)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := r.Await(ctx, func() bool { return int64(r.Count()) >= end[tp] }); err != nil {
		return nil, err
	}
	for _, m := range r.All()[0] {
		rec, err := barrier.DecodeRecord(m.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, rec)
	}
	return out, nil
}

// dump logs the end of the control log when the test failed.
func (l *lab) dump() {
	if !l.Failed() || l.ctx.Err() != nil || l.base.Mode == tidegate.Changelog {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	list, err := l.control(ctx)
	if err != nil {
		l.Logf("control log: %v", err)
	}
	for i, r := range list {
		if i >= len(list)-30 {
			text := fmt.Sprintf("%+v", r.Body)
			l.Logf("control log %d: %s %v %s", i, r.Instance, r.Body.Kind(), text[:min(len(text), 300)])
		}
	}
}
