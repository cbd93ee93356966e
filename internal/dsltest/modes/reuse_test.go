package modes

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/internal/testkit"
)

// lookups joins the stream "in" with the table of topic "rows".
func lookups(t *testing.T, opts ...tidegate.SourceOption) *tidegate.Topology {
	t.Helper()
	b := tidegate.NewBuilder(tidegate.ReuseSourceTopics())
	rows := b.Table("rows", "tab", str, str, opts...)
	b.Stream("in", str, str).
		LeftJoinTable("j", rows, func(l string, r tidegate.Opt[string]) string { return l + "=" + r.Or("null") }).
		As(str, str).To("out")
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func (c *cluster) compacted(ctx context.Context, topic string, configs map[string]string) {
	c.t.Helper()
	_, err := c.client.K.Admin().EnsureTopics(ctx, kafka.TopicSpec{Name: topic, Partitions: 2, Replication: 1, Configs: configs})
	if err != nil {
		c.t.Fatal(err)
	}
}

func message(p int32, key, value string, at int64) testkit.Message {
	m := testkit.Message{Partition: p, Key: []byte(key), Timestamp: at}
	if value != "" {
		m.Value = []byte(value)
	}
	return m
}

// lines keeps what is logged.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), part)
}

func TestReuseSourceTopics(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 2, "out": 2})
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	c.compacted(ctx, "rows", map[string]string{"cleanup.policy": "compact"})
	topo := lookups(t)
	for _, topic := range topo.InternalTopics("app", tidegate.Changelog) {
		if topic.Kind == tidegate.ChangelogTopic {
			t.Errorf("changelog %s is listed", topic.Name)
		}
	}
	out := c.read("out", 2)
	n := 0
	var log lines
	logged := tidegate.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	// Each round changes rows, and asks for all of them; folders are new, or those
	// of a round before.
	var want []string
	rows := map[string]string{}
	for round, folder := range []string{"a", "b", "b", "c", "a"} {
		log = lines{}
		at := int64(round) * 1000
		var changes, asks []testkit.Message
		set := func(key, value string) {
			changes = append(changes, message(int32(len(key)%2), key, value, at))
			rows[key] = value
		}
		set("k", fmt.Sprint("x", round))
		set(strings.Repeat("k", 4+round), "y")
		set(strings.Repeat("k", 2+round), "") // "kk" is not there
		changes = append(changes, testkit.Message{Value: []byte("no key"), Timestamp: at})
		for _, p := range []int32{0, 1} {
			for length := 1; length < 10; length++ {
				if int32(length%2) == p {
					key := strings.Repeat("k", length)
					asks = append(asks, message(p, key, fmt.Sprint(round), at+500))
					value := rows[key]
					if value == "" {
						value = "null"
					}
					want = append(want, fmt.Sprintf("%s %d=%s", key, round, value))
				}
			}
		}
		for topic, list := range map[string][]testkit.Message{"rows": changes, "in": asks} {
			if err := c.client.Produce(ctx, topic, list); err != nil {
				t.Fatal(err)
			}
		}
		n += len(asks)
		app := run(ctx, t, c.app(topo, folder, logged, tidegate.WithMaxTaskIdle(2*time.Second)))
		await(ctx, t, out, n, app)
		app.end()
		if kept := log.count("records=0 "); round == 2 && kept != 2 {
			t.Errorf("%d tasks of 2 went on with their local state:\n%s", kept, log.b.String())
		}
		if folder == "b" && round == 1 && log.count("records=0 ") != 0 {
			t.Errorf("tasks without local state restored nothing:\n%s", log.b.String())
		}
	}
	var got []string
	for _, list := range out.All() {
		for _, m := range list {
			got = append(got, fmt.Sprintf("%s %s", m.Key, m.Value))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	found, err := c.client.K.Admin().DescribeTopics(ctx, false, "app-tab-changelog")
	if err != nil || found["app-tab-changelog"].Exists {
		t.Errorf("the table has a changelog topic: %v", err)
	}
}

// A standby follows an input as far as its task, and is taken over from there.
func TestReuseSourceTopicsStandby(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 2, "out": 2})
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	c.compacted(ctx, "rows", map[string]string{"cleanup.policy": "compact"})
	topo, out := lookups(t), c.read("out", 2)
	var rows []testkit.Message
	for i := range 1000 {
		rows = append(rows, message(int32(i%2), fmt.Sprint("k", i), fmt.Sprint("v", i), 0))
	}
	if err := c.client.Produce(ctx, "rows", rows); err != nil {
		t.Fatal(err)
	}
	ask := func(at int64, n int, apps ...*running) {
		t.Helper()
		var asks []testkit.Message
		for i := range 1000 {
			asks = append(asks, message(int32(i%2), fmt.Sprint("k", i), "", at))
			asks[i].Value = []byte("q")
		}
		if err := c.client.Produce(ctx, "in", asks); err != nil {
			t.Fatal(err)
		}
		await(ctx, t, out, n, apps[0])
	}
	opts := []tidegate.Option{tidegate.WithStandbys(1), tidegate.WithMaxTaskIdle(2 * time.Second)}
	a := run(ctx, t, c.app(topo, "a", opts...))
	ask(1000, 1000, a)
	b := run(ctx, t, c.app(topo, "b", opts...))
	err := out.Await(ctx, func() bool {
		ask(2000, out.Count()+1000, a)
		return b.State() == tidegate.Running && len(b.Health().Tasks) == 1 && len(b.Health().Restoring) == 0
	})
	if err != nil {
		t.Fatal(err)
	}
	a.end()
	ask(3000, out.Count()+1000, b)
	for _, list := range out.All() {
		for _, m := range list {
			if string(m.Value) != "q=v"+strings.TrimPrefix(string(m.Key), "k") {
				t.Fatalf("%s %s", m.Key, m.Value)
			}
		}
	}
}

// Topics that cannot serve as changelogs are refused, with what to do.
func TestReuseSourceTopicsRefused(t *testing.T) {
	for _, test := range []struct {
		configs map[string]string
		opts    []tidegate.Option
		want    []string
	}{
		{map[string]string{"cleanup.policy": "delete"}, nil, []string{"topic rows", "cleanup.policy=delete", "Set cleanup.policy=compact"}},
		{map[string]string{"cleanup.policy": "compact,delete"}, nil, []string{"cleanup.policy=compact,delete"}},
		{map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "1000"}, nil, []string{"delete.retention.ms=1000", "at least 86400000"}},
		{map[string]string{"cleanup.policy": "compact"}, []tidegate.Option{tidegate.WithOffsetReset(tidegate.Latest)}, []string{`table "tab"`, "FromEarliest"}},
	} {
		c := newCluster(t, map[string]int32{"in": 2, "out": 2})
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		c.compacted(ctx, "rows", test.configs)
		err := c.app(lookups(t), "a", test.opts...).Run(ctx)
		for _, part := range test.want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v: error %v does not say %q", test.configs, err, part)
			}
		}
	}
	own := 0
	for _, topic := range lookups(t, tidegate.FromLatest()).InternalTopics("app", tidegate.Changelog) {
		if topic.Name == "app-tab-changelog" {
			own++
		}
	}
	if own != 1 {
		t.Error("a table that begins at the end has no changelog of its own")
	}
}
