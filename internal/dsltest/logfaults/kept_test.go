package logfaults

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/changelog"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/runtime"
	"github.com/tidegate/tidegate/serde"
)

// refused starts the application and checks that it ends with an error that says
// all of what is given.
func (c *cluster) refused(topo *tidegate.Topology, name string, says []string, opts ...tidegate.Option) {
	c.t.Helper()
	a := c.start(topo, name, opts...)
	select {
	case <-a.done:
	case <-c.ctx.Done():
		c.t.Fatal("it runs")
	}
	for _, s := range says {
		require.ErrorContains(c.t, a.err, s)
	}
}

// remake makes a topic anew with the settings that it had.
func (c *cluster) remake(topic string) {
	c.t.Helper()
	admin := c.client.K.Admin()
	found, err := admin.DescribeTopics(c.ctx, true, topic)
	require.NoError(c.t, err)
	require.NoError(c.t, admin.DeleteTopics(c.ctx, topic))
	_, err = admin.EnsureTopics(c.ctx, kafka.TopicSpec{Name: topic, Partitions: found[topic].Partitions, Replication: -1, Configs: found[topic].Configs})
	require.NoError(c.t, err)
}

func (c *cluster) exists(topic string) bool {
	c.t.Helper()
	found, err := c.client.K.Admin().DescribeTopics(c.ctx, false, topic)
	require.NoError(c.t, err)
	return found[topic].Exists
}

func (c *cluster) reset() {
	c.t.Helper()
	r, err := runtime.PlanReset(c.ctx, runtime.KafkaConfig{Brokers: c.broker.ListenAddrs()}, "app", slog.New(slog.DiscardHandler))
	require.NoError(c.t, err)
	defer r.Close()
	require.NoError(c.t, r.Execute(c.ctx))
}

// offsets are those of the application in some topics.
func (c *cluster) offsets(topics ...string) (list []kafka.Offset) {
	c.t.Helper()
	var tps []ids.TopicPartition
	for _, topic := range topics {
		for p := range int32(parts) {
			tps = append(tps, ids.TopicPartition{Topic: topic, Partition: p})
		}
	}
	found, err := c.client.K.Admin().FetchOffsets(c.ctx, "app", tps...)
	require.NoError(c.t, err)
	for _, tp := range tps {
		if o, ok := found[tp]; ok {
			list = append(list, o)
		}
	}
	return list
}

// Internal topics that were deleted while the application was stopped, with or
// without being made anew, are not made again without what the offsets rely on: the
// start is refused and changes nothing, until the application is reset.
func TestTopicLostWhileStopped(t *testing.T) {
	for _, topic := range []string{"app-counts-changelog", "app-by-key-repartition"} {
		for _, anew := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, made anew %v", topic, anew), func(t *testing.T) {
				t.Parallel()
				c := newCounted(t, true)
				a := c.start(c.topo, "a")
				c.round(200, a)
				a.end()
				says := []string{topic, "was deleted", "since the application last ran", "new application id", "tidegate reset"}
				if anew {
					c.remake(topic)
					says = append(says, "made anew")
				} else {
					require.NoError(t, c.client.K.Admin().DeleteTopics(c.ctx, topic))
				}
				before := c.offsets("in", "app-by-key-repartition")
				c.refused(c.topo, "a", says)
				require.Equal(t, anew, c.exists(topic), "a refused start made the topic")
				require.Equal(t, before, c.offsets("in", "app-by-key-repartition"))
				c.refused(c.topo, "another", says, tidegate.WithGuarantee(tidegate.AtLeastOnce))
				c.reset()
				a = c.start(c.topo, "a")
				c.await(func() bool { return c.out.Count() >= 2*c.sent }, a)
				a.end()
			})
		}
	}
}

// counting is a topology whose store "counts" has values of a serde.
func counting(t *testing.T, opts []tidegate.BuilderOption, describe func(g *tidegate.Grouped[string, string])) *tidegate.Topology {
	t.Helper()
	b := tidegate.NewBuilder(opts...)
	describe(b.Stream("in", str, str).GroupByKey("by-key"))
	topo, err := b.Build()
	require.NoError(t, err)
	return topo
}

func aggregate[A any](as serde.Serde[A]) func(g *tidegate.Grouped[string, string]) {
	return func(g *tidegate.Grouped[string, string]) {
		g.Aggregate("counts", func() (a A) { return a }, func(_, _ string, a A) A { return a }, as)
	}
}

func windowed(size, grace time.Duration) func(g *tidegate.Grouped[string, string]) {
	return func(g *tidegate.Grouped[string, string]) {
		g.WindowedBy(tidegate.Tumbling(size).Grace(grace), tidegate.ByWindow).Count("counts")
	}
}

// A store that would be read otherwise than it was written is refused, whether its
// local copy is there or not; one that reads what is there goes on.
func TestStoreOfAnotherKind(t *testing.T) {
	texts := aggregate(serde.String())
	for _, tt := range []struct {
		name          string
		before, after func(g *tidegate.Grouped[string, string])
		says          []string // nil: it starts
	}{
		{"serde", texts, aggregate(serde.Int64()), []string{`store "counts" holds values written by serde string`, "reads them with int64", "one that accepts the old fingerprint"}},
		{"format", texts, windowed(time.Minute, 0), []string{`store "counts" holds entries of format table-1`, "windows-1"}},
		{"window", windowed(time.Minute, 0), windowed(time.Hour, 0), []string{`store "counts" holds windows of another kind`, "60000 ms", "3600000 ms"}},
		{"accepted serde", aggregate(serde.Int64()), aggregate(serde.Time()), nil},
		{"same", texts, texts, nil},
		{"another store", texts, func(g *tidegate.Grouped[string, string]) {
			texts(g)
			g.Count("more")
		}, nil},
		{"another name", texts, func(g *tidegate.Grouped[string, string]) { g.Count("more") }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, map[string]int32{"in": parts})
			before, after := counting(t, nil, tt.before), counting(t, nil, tt.after)
			run := func(topo *tidegate.Topology, name string, sent int64) {
				c.produce("in", message(1, "k", "v", sent))
				a := c.start(topo, name)
				c.await(func() bool {
					return slices.ContainsFunc(c.offsets("in"), func(o kafka.Offset) bool { return o.TP.Partition == 1 && o.Offset == sent })
				}, a)
				a.end()
			}
			run(before, "a", 1)
			if tt.says == nil {
				run(after, "a", 2)
				return
			}
			for _, name := range []string{"a", "b"} {
				c.refused(after, name, append(tt.says, "another name", "tidegate reset"))
			}
			run(before, "a", 2)
		})
	}
}

// A store may lose its changelog and get it back, also after its topic was deleted
// meanwhile, though most tasks have nothing to do.
func TestTopicMadeAnewWithoutChangelog(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": parts})
	topo := counting(t, nil, aggregate(serde.String()))
	kept := func(want int) {
		c.await(func() bool {
			list := c.offsets("in")
			return len(list) == parts && !slices.ContainsFunc(list, func(o kafka.Offset) bool {
				m, ours, err := changelog.DecodeMeta(o.Metadata)
				return err != nil || !ours || len(m.Topics) != want
			})
		})
	}
	a := c.start(topo, "a")
	kept(1)
	a.end()
	a = c.start(topo, "a", tidegate.WithoutChangelog("counts"))
	kept(0)
	a.end()
	c.remake("app-counts-changelog")
	a = c.start(topo, "a")
	kept(1)
	a.end()
	require.NoError(t, c.client.K.Admin().DeleteTopics(c.ctx, "app-counts-changelog"))
	a = c.start(topo, "a", tidegate.WithoutChangelog("counts"))
	kept(0)
	a.end()
}

// Offsets of a release that kept nothing in them are gone on from, and kept with
// the first commit, for tasks without a record, too.
func TestOffsetsWithoutKept(t *testing.T) {
	c := newCounted(t, false)
	a := c.start(c.topo, "a")
	c.round(40, a)
	a.end()
	list := c.offsets("in")
	require.Len(t, list, parts)
	for n := range list {
		m, ours, err := changelog.DecodeMeta(list[n].Metadata)
		require.NoError(t, err)
		require.True(t, ours)
		require.Len(t, m.Topics, 1)
		require.Equal(t, list[n].TP.Partition == 0, len(m.Stores) == 1, "stores of task %s", list[n].TP)
		m.Topics, m.Stores = nil, nil
		list[n].Metadata, err = changelog.EncodeMeta(m)
		require.NoError(t, err)
	}
	require.NoError(t, c.client.K.Admin().CommitOffsets(c.ctx, "app", kafka.Membership{Generation: -1}, list))
	a = c.start(c.topo, "a")
	c.await(func() bool {
		for _, o := range c.offsets("in") {
			if m, _, err := changelog.DecodeMeta(o.Metadata); err != nil || len(m.Topics) != 1 {
				return false
			}
		}
		return true
	}, a)
	c.round(40, a)
	a.end()
	c.check()
	list[0].Metadata = strings.Repeat("x", 20) // somebody else's
	require.NoError(t, c.client.K.Admin().CommitOffsets(c.ctx, "app", kafka.Membership{Generation: -1}, list[:1]))
	c.remake("app-counts-changelog")
	c.refused(c.topo, "a", []string{"app-counts-changelog", "made anew"})
}

// ReuseSourceTopics can be switched on, and what that leaves empty is not taken
// for state when it is switched off.
func TestReuseSwitchedOff(t *testing.T) {
	c := newCluster(t, nil)
	_, err := c.client.K.Admin().EnsureTopics(c.ctx, kafka.TopicSpec{
		Name: "in", Partitions: parts, Replication: -1, Configs: map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "86400000"},
	})
	require.NoError(t, err)
	topology := func(opts ...tidegate.BuilderOption) *tidegate.Topology {
		b := tidegate.NewBuilder(opts...)
		b.Table("in", "rows", str, str, tidegate.FromEarliest())
		topo, err := b.Build()
		require.NoError(t, err)
		return topo
	}
	off, on := topology(), topology(tidegate.ReuseSourceTopics())
	for n, topo := range []*tidegate.Topology{off, on} {
		c.produce("in", message(0, "k", "v", 1))
		a := c.start(topo, "a")
		c.await(func() bool {
			list := c.offsets("in")
			return len(list) == parts && list[0].Offset == int64(n+1)
		}, a)
		a.end()
	}
	c.refused(off, "a", []string{`store "rows" had no changelog because of ReuseSourceTopics`, "tidegate reset"})
}
