package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/integration/measure"
	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/internal/testkit"
)

// world is a broker, the instances, what goes in and what comes out.
type world struct {
	settings
	dir    string
	kafka  *servers.KafkaServer
	client sarama.Client
	admin  sarama.ClusterAdmin
	kit    *testkit.Client
	reader *testkit.Reader
	heavy  []string         // tasks with all the keys
	probes map[int32][]byte // a key of each partition

	mu    sync.Mutex
	newly map[int32]time.Time // when the first record came out that went in behind since
	seen  map[int32]time.Time // the newest that came out, by when it went in
	since time.Time

	stopLoad context.CancelFunc
	loadDone chan error
}

func newWorld(ctx context.Context, s settings) (w *world, err error) {
	w = &world{settings: s, seen: map[int32]time.Time{}, newly: map[int32]time.Time{}, probes: map[int32][]byte{}}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.kafka, err = servers.Kafka(ctx, servers.KafkaOptions{Own: true, Config: map[string]string{
		"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0",
	}}); err != nil {
		return w, err
	}
	if w.dir, err = os.MkdirTemp("", "tidegate-takeover-"); err != nil {
		return w, err
	}
	if w.client, err = sarama.NewClient(w.kafka.Brokers(), servers.SaramaConfig()); err != nil {
		return w, err
	}
	if w.admin, err = sarama.NewClusterAdmin(w.kafka.Brokers(), servers.SaramaConfig()); err != nil {
		return w, err
	}
	for _, topic := range []string{input, output} {
		if err := w.kafka.CreateTopic(ctx, topic, int32(s.partitions), nil); err != nil {
			return w, err
		}
	}
	if w.kit, err = testkit.Dial(w.kafka.Brokers()...); err != nil {
		return w, err
	}
	w.reader, err = w.kit.Follow(output, int32(s.partitions), true, w.read)
	return w, err
}

func (w *world) close() {
	if w.stopLoad != nil {
		w.stopLoad()
		if err := <-w.loadDone; err != nil && !errors.Is(err, context.Canceled) {
			fmt.Println("input:", err)
		}
	}
	if w.reader != nil {
		w.reader.Close()
	}
	if w.kit != nil {
		w.kit.Close()
	}
	if w.admin != nil {
		_ = w.admin.Close()
	}
	if w.client != nil {
		_ = w.client.Close()
	}
	if w.dir != "" {
		_ = os.RemoveAll(w.dir)
	}
}

// read takes a committed record of the output.
func (w *world) read(m testkit.Message) {
	at := probeTime(m.Value)
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.After(w.seen[m.Partition]) {
		w.seen[m.Partition] = at
	}
	if _, known := w.newly[m.Partition]; !known && !w.since.IsZero() && at.After(w.since) {
		w.newly[m.Partition] = time.Now()
	}
}

func (w *world) start(name string, standbys int) (*child, error) {
	text, err := json.Marshal(childSettings{w.kafka.Brokers(), w.dir, name, standbys, w.interval, w.session})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	logs := w.dir
	if w.keep != "" {
		logs = w.keep
	}
	c := &child{name: name}
	c.p, err = servers.StartProcess(servers.Command{
		Path: self, Env: []string{childVariable + "=" + string(text)}, LogPath: filepath.Join(logs, name+".log"), Stdout: c,
	})
	return c, err
}

// until polls.
func (w *world) until(ctx context.Context, what string, holds func() (bool, error), needs ...*child) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		for _, c := range needs {
			if !c.p.Alive() {
				return fmt.Errorf("%s: instance %s ended: %s", what, c.name, measure.Tail(c.p.LogPath))
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}

// share waits until both run their halves.
func (w *world) share(ctx context.Context, list ...*child) error {
	return w.until(ctx, "each has its half of the tasks", func() (bool, error) {
		for _, c := range list {
			if now := c.condition(); now.State != "Running" || len(now.Tasks) != w.partitions/len(list) {
				return false, nil
			}
		}
		return true, nil
	}, list...)
}

// begin starts two instances, fills the state of the coordinator's tasks, and
// waits until the other one has copies.
func (w *world) begin(ctx context.Context) (first, other *child, err error) {
	a, err := w.start("a", 1)
	if err != nil {
		return nil, nil, err
	}
	b, err := w.start("b", 1)
	if err != nil {
		return nil, nil, err
	}
	if err := w.share(ctx, a, b); err != nil {
		return nil, nil, err
	}
	first, other = a, b
	if slices.Contains(b.condition().Tasks, "0_0") {
		first, other = b, a
	}
	w.heavy = first.condition().Tasks
	begun := time.Now()
	if err := w.fill(ctx); err != nil {
		return nil, nil, err
	}
	if err := w.flows(ctx, first, other); err != nil {
		return nil, nil, err
	}
	filled := time.Since(begun)
	if err := w.until(ctx, "the standby has all", func() (bool, error) {
		of := w.copies(first.name)
		return len(of) > 0 && maps.Equal(of, w.copies(other.name)), nil
	}, first, other); err != nil {
		return nil, nil, err
	}
	var bytes int64
	for _, size := range w.copies(first.name) {
		bytes += size
	}
	fmt.Printf("%d keys of %d bytes in tasks %v of instance %s, %d MB in files; filled in %v, the standby had all %v later\n",
		w.keys, 8+w.valueBytes, w.heavy, first.name, bytes>>20, filled.Round(time.Second), (time.Since(begun) - filled).Round(100*time.Millisecond))
	return first, other, nil
}

// again stops the instance that has all tasks, starts it as one without standbys,
// and another one with an empty folder that has none of the state.
func (w *world) again(ctx context.Context, all *child) (first, other *child, err error) {
	if err := all.p.Stop(time.Minute); err != nil {
		return nil, nil, err
	}
	if first, err = w.start(all.name, 0); err != nil {
		return nil, nil, err
	}
	if err := w.share(ctx, first); err != nil {
		return nil, nil, err
	}
	if other, err = w.start("c", 0); err != nil {
		return nil, nil, err
	}
	if err := w.share(ctx, first, other); err != nil {
		return nil, nil, err
	}
	if got := first.condition().Tasks; !slices.Equal(got, w.heavy) {
		return nil, nil, fmt.Errorf("the tasks with much state are %v, and instance %s kept %v", w.heavy, first.name, got)
	}
	return first, other, w.flows(ctx, first, other)
}

// fill writes all keys, and finds one of each partition for the probes.
func (w *world) fill(ctx context.Context) error {
	writer, err := measure.NewWriter(w.client, input)
	if err != nil {
		return err
	}
	into := map[int32]bool{}
	for _, t := range w.heavy {
		_, p, _ := strings.Cut(t, "_")
		n, err := strconv.Atoi(p)
		if err != nil {
			return fmt.Errorf("task %q: %w", t, err)
		}
		into[int32(n)] = true
	}
	r := rand.New(rand.NewPCG(1, 1))
	now := time.Now().UnixMilli()
	for made, n := 0, uint64(0); made < w.keys || len(w.probes) < w.partitions; n++ {
		key := binary.BigEndian.AppendUint64(nil, n*0x9e3779b97f4a7c15) // in no order
		p := int32(measure.Murmur2(key)&0x7fffffff) % int32(w.partitions)
		if w.probes[p] == nil {
			w.probes[p] = key
		}
		if !into[p] || made == w.keys {
			continue
		}
		value := make([]byte, w.valueBytes)
		for i := 0; i+8 <= len(value); i += 8 {
			binary.LittleEndian.PutUint64(value[i:], r.Uint64())
		}
		if err := writer.Add(now, key, value); err != nil {
			return err
		}
		if made++; made%100_000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return writer.Close(ctx)
}

// flows sends a record to each partition and waits until they come out.
func (w *world) flows(ctx context.Context, needs ...*child) error {
	writer, err := measure.NewWriter(w.client, input)
	if err != nil {
		return err
	}
	sent := time.Now()
	if err := w.probe(writer); err != nil {
		return err
	}
	if err := writer.Close(ctx); err != nil {
		return err
	}
	return w.until(ctx, "records come out of every partition", func() (bool, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for p := range w.probes {
			if !w.seen[p].After(sent) {
				return false, nil
			}
		}
		return true, nil
	}, needs...)
}

func (w *world) probe(writer *measure.Writer) error {
	now := time.Now()
	for _, key := range w.probes {
		if err := writer.Add(now.UnixMilli(), key, probe(now, w.valueBytes)); err != nil {
			return err
		}
	}
	return writer.Flush()
}

// load sends records to every partition until stop is called.
func (w *world) load() error {
	writer, err := measure.NewWriter(w.client, input)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				done <- writer.Close(context.Background())
				return
			case <-tick.C:
			}
			if err := w.probe(writer); err != nil {
				done <- err
				return
			}
		}
	}()
	w.stopLoad, w.loadDone = cancel, done
	return nil
}

func (w *world) endLoad() error {
	w.stopLoad()
	err := <-w.loadDone
	w.stopLoad = nil
	return err
}

// copies are the files of checkpoints of the tasks with much state that an
// instance has in its folder.
func (w *world) copies(name string) map[string]int64 {
	list := map[string]int64{}
	root := filepath.Join(w.dir, name, "files")
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // files come and go
		}
		if task := filepath.Base(filepath.Dir(path)); slices.Contains(w.heavy, task) {
			if info, err := d.Info(); err == nil {
				list[strings.TrimPrefix(path, root)] = info.Size()
			}
		}
		return nil
	})
	return list
}

// missed waits until the group has one member less.
func (w *world) missed(ctx context.Context) (time.Time, error) {
	var at time.Time
	err := w.until(ctx, "the group misses the instance", func() (bool, error) {
		groups, err := w.admin.DescribeConsumerGroups([]string{app})
		if err != nil {
			return false, err
		}
		if len(groups) != 1 || !errors.Is(groups[0].Err, sarama.ErrNoError) {
			return false, nil
		}
		at = time.Now()
		return len(groups[0].Members) < 2, nil
	})
	return at, err
}
