package runtime

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/changelog"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/memory"
	"github.com/tidegate/tidegate/state/pebblestore"
	"github.com/tidegate/tidegate/tasks"
	"github.com/tidegate/tidegate/topology"
	"github.com/tidegate/tidegate/transactions"
)

// TestRules switches protocol rules off, so that the crash test can prove that
// it would notice their absence. The zero value keeps all; only test builds set
// anything.
type TestRules struct {
	Barrier      barrier.Rules
	Transactions transactions.Rules
	Tasks        tasks.Rules
	// OffsetsAhead stores input offsets that output does not cover.
	OffsetsAhead bool
	// CommitEarly commits transactions before the decision (R19).
	CommitEarly bool
	// StoreEarly writes state to the engine before its transaction is committed
	// (D1 of package changelog).
	StoreEarly bool
	// Phase, when set, hears in which phase of a checkpoint the instance is, so
	// that a test can kill it there.
	Phase func(phase string)
	// Engine, when set, puts something between tasks and their state, so that a
	// test can make the disk fail.
	Engine func(state.Engine) state.Engine
}

// deployment is what all instances of one Run have in common: configuration,
// the cluster as found, the state folder.
type deployment struct {
	cfg    Config
	status *status
	plan   *topology.Resolved

	client *kafka.Client
	admin  *kafka.Admin
	codec  kafka.Codec

	controlTopic string
	fingerprint  string
	groupPrint   string // see inGroup
	topicIDs     map[string][16]byte
	internal     []string // the topics that are the application's alone
	changelogs   []string // those of them that hold stores

	stateDir string
	name     string // stable instance name
	lock     *state.DirLock
	shared   *pebblestore.Shared
	// files are the copies of checkpoint files below stateDir, of filesOf; they
	// outlive instances. Set by the loop of the present one.
	files   *checkpoint.LocalFiles
	filesOf ids.Life

	// globals are the global tables; nil before openGlobals.
	globals *globals

	counters counters
	setbacks *setbacks

	topicsMu sync.Mutex
	topics   map[string]int32 // partition counts of topics that records name
	limits   map[string]tasks.Limit
}

type counters struct {
	records, skipped atomic.Int64
	operators        operators.Metrics
}

// deploy connects, checks and creates everything that instances need. Each
// error says what to do.
func deploy(ctx context.Context, cfg Config, topo *topology.Topology, st *status) (d *deployment, err error) {
	d = &deployment{cfg: cfg, status: st, setbacks: newSetbacks(cfg, st), controlTopic: ControlTopic(cfg.ApplicationID), topics: map[string]int32{}, limits: map[string]tasks.Limit{}}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if err := d.openStateDir(); err != nil {
		return d, err
	}
	if d.codec, err = kafka.ParseCodec(cfg.Compression); err != nil {
		return d, fmt.Errorf("WithCompression(%q): %w", cfg.Compression, err)
	}
	if d.client, err = kafka.NewClientFrom(cfg.Kafka.Brokers, cfg.Kafka.Sarama, cfg.Logger); err != nil {
		return d, err
	}
	d.admin = d.client.Admin()
	if err := d.connect(ctx); err != nil {
		return d, err
	}
	if cfg.Mode == Barrier {
		if err := cfg.Store.Check(ctx); err != nil {
			return d, fmt.Errorf("check the checkpoint store: %w", err)
		}
	}
	if err := d.checkMode(ctx, topo); err != nil {
		return d, err
	}
	if err := d.checkTimeouts(ctx); err != nil {
		return d, err
	}
	if err := d.resolve(ctx, topo, nil); err != nil {
		return d, err
	}
	return d, nil
}

// connect waits for a broker: one that is down at start is no error for a
// while, as pods start in any order.
func (d *deployment) connect(ctx context.Context) error {
	deadline := time.Now().Add(connectFor)
	var logged time.Time
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := d.admin.Ping(try)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if permanent(err) || time.Now().After(deadline) {
			return err
		}
		if time.Since(logged) > 5*time.Second {
			logged = time.Now()
			d.cfg.Logger.Warn("no broker answers yet; retrying", "brokers", d.cfg.Kafka.Brokers, "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// connectFor is how long a start waits for the first broker.
const connectFor = 30 * time.Second

func (d *deployment) openStateDir() error {
	dir := d.cfg.StateDir
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "tidegate", d.cfg.ApplicationID)
	}
	lock, err := state.LockDir(dir, d.cfg.ApplicationID)
	if errors.Is(err, state.ErrLocked) && d.cfg.StateDir == "" {
		// Several instances on one machine without WithStateDir each take a
		// folder of their own.
		for n := 1; errors.Is(err, state.ErrLocked) && n < 1000; n++ {
			next := dir + "-" + strconv.Itoa(n)
			if lock, err = state.LockDir(next, d.cfg.ApplicationID); err == nil {
				dir = next
			}
		}
	}
	if err != nil {
		return err
	}
	d.stateDir, d.lock = dir, lock
	// What a killed process left in its engines' folders is restored from the
	// checkpoint, not reused; the copies of checkpoint files are.
	if err := os.RemoveAll(filepath.Join(dir, "run")); err != nil {
		return fmt.Errorf("clear old state: %w", err)
	}
	if d.name = d.cfg.InstanceName; d.name == "" {
		if d.name, err = stableName(filepath.Join(dir, "instance")); err != nil {
			return err
		}
	}
	return nil
}

// stableName reads the instance's name from its state folder, or draws one: also
// where the file has something else, as zeros after a power failure.
func stableName(path string) (string, error) {
	b, err := os.ReadFile(path)
	if name := strings.TrimSpace(string(b)); err == nil && validID.MatchString(name) {
		return name, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read the instance's name: %w", err)
	}
	name := fmt.Sprintf("i%08x", uint32(randomID()))
	err = os.WriteFile(path+".tmp", []byte(name+"\n"), 0o600)
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		return "", state.Wrap(filepath.Dir(path), fmt.Errorf("keep the instance's name: %w", err))
	}
	return name, nil
}

func randomID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

func (d *deployment) newInstanceID() ids.InstanceID {
	return ids.InstanceID{Name: d.name, Rand: randomID()}
}

// checkTimeouts is R22's check at start.
func (d *deployment) checkTimeouts(ctx context.Context) error {
	text, err := d.admin.BrokerConfig(ctx, "transaction.max.timeout.ms")
	if err != nil {
		return fmt.Errorf("read the broker's transaction.max.timeout.ms: %w", err)
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("the broker's transaction.max.timeout.ms is %q: %w", text, err)
	}
	c := d.cfg
	if c.Mode == Changelog {
		return c.checkTransactionTimeout(time.Duration(ms) * time.Millisecond)
	}
	return transactions.CheckTimeouts(transactions.Timeouts{
		Interval: c.CheckpointInterval, CheckpointTimeout: c.CheckpointTimeout, ToleratedAborts: c.ToleratedAborts,
		Session: c.SessionTimeout, LongestRestart: c.ExpectedRestart, Transaction: c.TransactionTimeout,
		BrokerMax: time.Duration(ms) * time.Millisecond,
	})
}

// resolve finds the topics of the topology and creates or verifies the internal
// ones (R29). matched, if not nil, says which topics patterns match.
func (d *deployment) resolve(ctx context.Context, topo *topology.Topology, matched []string) error {
	matched, err := d.matching(ctx, topo, matched)
	if err != nil {
		return err
	}
	inputs := append(topo.Inputs(), matched...)
	names := slices.Concat(inputs, topo.Sinks(), topo.GlobalTopics())
	slices.Sort(names)
	names = slices.Compact(names)
	found, err := d.admin.DescribeTopics(ctx, false, names...)
	if err != nil {
		return fmt.Errorf("describe topics: %w", err)
	}
	counts := map[string]int32{}
	d.topicIDs = map[string][16]byte{}
	for name, t := range found {
		if t.Exists {
			counts[name] = t.Partitions
			if slices.Contains(inputs, name) || slices.Contains(topo.Sinks(), name) {
				d.topicIDs[name] = t.ID // a checkpoint knows nothing of global tables
			}
		}
	}
	if d.plan, err = topo.Resolve(d.cfg.ApplicationID, counts); err != nil {
		return err
	}
	if err := d.checkUnlogged(); err != nil {
		return err
	}
	if err := d.checkReused(ctx); err != nil {
		return err
	}
	d.fingerprint, d.groupPrint = d.plan.Fingerprint(), inGroup(d.plan)
	d.changelogs = nil
	var specs []kafka.TopicSpec
	if d.cfg.Mode == Changelog {
		specs = changelog.Topics(d.plan, d.cfg.ReplicationFactor, d.cfg.Unlogged)
		for _, t := range specs {
			d.changelogs = append(d.changelogs, t.Name)
		}
	} else {
		specs = []kafka.TopicSpec{{
			Name: d.controlTopic, Partitions: 1, Replication: d.cfg.ReplicationFactor, Configs: kafka.InternalConfigs(controlRecordBytes),
		}}
	}
	for _, t := range d.plan.InternalTopics() {
		specs = append(specs, kafka.TopicSpec{
			Name: t.Topic, Partitions: t.Partitions, Replication: d.cfg.ReplicationFactor, Configs: kafka.InternalConfigs(0),
		})
	}
	d.internal = internalNames(specs)
	if d.cfg.Mode == Changelog {
		if err := d.checkCommitted(ctx); err != nil {
			return err
		}
	}
	internal, err := d.admin.EnsureTopics(ctx, specs...)
	if err != nil {
		return fmt.Errorf("create or verify internal topics: %w", err)
	}
	for name, t := range internal {
		d.topicIDs[name] = t.ID
	}
	return nil
}

// controlRecordBytes is the largest control-log record: Start lists all tasks.
const controlRecordBytes = 8 << 20

// withACLs adds what the application must be allowed when Kafka denied access,
// at the start or later.
func withACLs(err error, application string, topo *topology.Topology) error {
	var code transactions.Code
	if errors.As(err, &code) {
		switch code {
		case transactions.TopicAuthorizationFailed, transactions.GroupAuthorizationFailed,
			transactions.ClusterAuthorizationFailed, transactions.TxnIDAuthorizationFailed:
			return &kafka.ACLError{Err: err, Required: kafka.RequiredACLs(application, readTopics(topo), topo.Sinks())}
		}
	}
	return kafka.WithACLs(err, application, readTopics(topo), topo.Sinks())
}

// readTopics are the external topics that are read, global tables' included, and
// patterns as they are.
func readTopics(topo *topology.Topology) []string {
	out := slices.Concat(topo.Inputs(), topo.GlobalTopics(), topo.Patterns())
	slices.Sort(out)
	return slices.Compact(out)
}

// partitionsOf finds the partition count of a topic that a record names.
func (d *deployment) partitionsOf(topic string) (int32, error) {
	d.topicsMu.Lock()
	n, ok := d.topics[topic]
	d.topicsMu.Unlock()
	if ok {
		return n, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	found, err := d.admin.DescribeTopics(ctx, false, topic)
	if err != nil {
		return 0, err
	}
	t := found[topic]
	if !t.Exists {
		return 0, errors.New("the topic does not exist: create it, or correct the name that the record gives")
	}
	d.topicsMu.Lock()
	d.topics[topic] = t.Partitions
	d.topicsMu.Unlock()
	return t.Partitions, nil
}

// limitOf finds what a sink topic takes at once, so that batches can be made to
// fit. Where it may not be read, or is no number, the broker alone judges.
func (d *deployment) limitOf(topic string) tasks.Limit {
	d.topicsMu.Lock()
	defer d.topicsMu.Unlock()
	if l, ok := d.limits[topic]; ok {
		return l
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var l tasks.Limit
	found, err := d.admin.DescribeTopics(ctx, true, topic)
	if err == nil {
		l.Bytes, err = strconv.Atoi(found[topic].Configs["max.message.bytes"])
	}
	if err != nil {
		d.cfg.Logger.Warn("cannot find out the largest batch of a topic; the broker alone judges", "topic", topic, "error", err)
		l.Bytes = 0
	}
	l.Strict = l.Bytes > 0 && d.codec == kafka.Codec(0) // none
	d.limits[topic] = l
	return l
}

func (d *deployment) envConfig(share int) tasks.EnvConfig {
	return tasks.EnvConfig{
		Topology: d.plan, CacheBytes: d.cfg.CacheBytes / int64(max(share, 1)),
		MaySkip: d.cfg.maySkip, Metrics: &d.counters.operators, Partitions: d.partitionsOf, Limit: d.limitOf,
		Globals: d.globals.stores,
	}
}

// memtableBytes is the largest memtable of a task. All tasks may come to be here.
func (d *deployment) memtableBytes() int64 {
	n := 0
	for _, t := range d.plan.Tasks() {
		if len(d.plan.Subtopologies()[t.Sub].Stores) > 0 {
			n++
		}
	}
	return d.cfg.memtable(n)
}

func (d *deployment) openEngine(dir string) (e state.Engine, err error) {
	if d.cfg.StateStore == Memory {
		e, err = memory.Open(dir)
	} else {
		e, err = pebblestore.Open(d.shared, dir, pebblestore.Options{Memtable: d.memtableBytes()})
	}
	if wrap := d.cfg.TestRules.Engine; wrap != nil && err == nil {
		e = wrap(e)
	}
	return e, err
}

// workerOf gives a task its worker: the same one at every start, so that the
// commands of two starts keep their order.
func (i *instance) workerOf(t ids.TaskID) *tasks.Worker {
	all := i.plan.Tasks()
	n, _ := slices.BinarySearchFunc(all, t, ids.TaskID.Compare)
	return i.workers[n%len(i.workers)]
}

func (d *deployment) close() {
	d.globals.close()
	if d.client != nil {
		_ = d.client.Close()
	}
	if d.shared != nil {
		_ = d.shared.Close()
	}
	if d.lock != nil {
		_ = d.lock.Close()
	}
}

// topicNames lists the topics whose ids a manifest holds, sorted.
func (d *deployment) topicNames() []string { return slices.Sorted(maps.Keys(d.topicIDs)) }
