// Package patterns_test tests sources by pattern.
package patterns_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
	"github.com/tidegate/tidegate/topology"
)

var str = serde.String()

func build(t *testing.T, f func(b *tidegate.Builder)) *tidegate.Topology {
	t.Helper()
	b := tidegate.NewBuilder()
	f(b)
	top, err := b.Build()
	require.NoError(t, err)
	return top
}

// Whole names match, whatever the partition counts; what the topology writes,
// and internal topics, do not.
func TestPatternReadsWhatMatches(t *testing.T) {
	top := build(t, func(b *tidegate.Builder) {
		b.StreamPattern("in-.*|other", str, str).
			MapValuesCtx(func(c *tidegate.RecordContext, _, v string) (string, error) {
				return fmt.Sprintf("%s/%d:%s", c.Topic, c.Partition, v), nil
			}, str).
			To("in-out")
	})
	d := tidegatetest.New(t, top, tidegatetest.WithTopic("in-a", 2), tidegatetest.WithTopic("in-b", 3),
		tidegatetest.WithTopic("other", 1), tidegatetest.WithTopic("others", 1), tidegatetest.WithTopic("my-in-a", 1))
	for topic, p := range map[string]int32{"in-a": 1, "in-b": 2, "other": 0} {
		d.Input(topic, str, str).Pipe("k", "v", tidegatetest.Partition(p))
	}
	var got []string
	for _, r := range d.Output("in-out", str, str).ReadAll() {
		got = append(got, r.Value)
	}
	require.ElementsMatch(t, []string{"in-a/1:v", "in-b/2:v", "other/0:v"}, got)
}

func TestPatternKeepsStateOverARestart(t *testing.T) {
	top := build(t, func(b *tidegate.Builder) {
		b.StreamPattern("in-.*", str, str).GroupByKey("g").Count("n").ToStream().To("out")
	})
	d := tidegatetest.New(t, top, tidegatetest.WithTopic("in-a", 2), tidegatetest.WithTopic("in-b", 2))
	for i, topic := range []string{"in-a", "in-b", "in-a"} {
		d.Input(topic, str, str).Pipe("k", "v", tidegatetest.At(int64(i)))
		d.Restart()
	}
	var got []int64
	for _, r := range d.Output("out", str, serde.Int64()).ReadAll() {
		got = append(got, r.Value)
	}
	require.Equal(t, []int64{1, 2, 3}, got)
}

func TestPatternMistakes(t *testing.T) {
	b := tidegate.NewBuilder()
	b.StreamPattern("in-(", str, str)
	b.StreamPattern("", str, str)
	b.StreamPattern[string, string]("x", nil, str)
	_, err := b.Build()
	for _, want := range []string{
		`patterns_test.go:`, `StreamPattern: the pattern "in-(" is no regular expression`, `the pattern "" must not be empty`, "the key serde is nil",
	} {
		require.ErrorContains(t, err, want)
	}
}

func resolve(t *testing.T, partitions map[string]int32, f func(b *tidegate.Builder)) (*topology.Resolved, error) {
	t.Helper()
	return build(t, f).Graph().Resolve("app", partitions)
}

func TestPatternsThatDoNotFit(t *testing.T) {
	stateful := func(b *tidegate.Builder) {
		b.StreamPattern("in-.*", str, str).GroupByKey("g").Count("n")
	}
	apart := func(b *tidegate.Builder) {
		b.StreamPattern("in-.*", str, str).To("out")
		b.StreamPattern(".*-a", str, str).To("out")
	}
	for name, c := range map[string]struct {
		build  func(b *tidegate.Builder)
		topics map[string]int32
		want   string
	}{
		"no match":    {stateful, map[string]int32{"other": 1, "in-": 0}, `no topic matches the pattern "in-.*"`},
		"only own":    {stateful, map[string]int32{"app-x-changelog": 1, "__consumer_offsets": 50}, "no topic matches"},
		"state":       {stateful, map[string]int32{"in-a": 1, "in-b": 2}, "needs co-partitioned topics"},
		"two readers": {apart, map[string]int32{"in-a": 1, "out": 1}, `topic "in-a" is read here by the pattern ".*-a" and also at`},
		"disagree": {func(b *tidegate.Builder) {
			b.StreamPattern("in-.*", str, str, tidegate.FromLatest()).To("out")
			b.Stream("in-a", str, str, tidegate.FromEarliest()).To("out")
		}, map[string]int32{"in-a": 1, "out": 1}, "choose one"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resolve(t, c.topics, c.build)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "patterns_test.go:")
		})
	}
}

// One pattern twice, and a pattern with a topic that it matches, are read once,
// by one subtopology.
func TestPatternsThatShareTopics(t *testing.T) {
	for _, second := range []func(b *tidegate.Builder) *tidegate.Stream[string, string]{
		func(b *tidegate.Builder) *tidegate.Stream[string, string] { return b.StreamPattern("in-.*", str, str) },
		func(b *tidegate.Builder) *tidegate.Stream[string, string] { return b.Stream("in-a", str, str) },
	} {
		top := build(t, func(b *tidegate.Builder) {
			b.StreamPattern("in-.*", str, str, tidegate.FromLatest(), tidegate.IdleAfter(time.Second)).To("one")
			second(b).To("two")
		})
		d := tidegatetest.New(t, top, tidegatetest.WithTopic("in-a", 1))
		d.Input("in-a", str, str).Pipe("k", "v")
		for _, out := range []string{"one", "two"} {
			require.Len(t, d.Output(out, str, str).ReadAll(), 1)
		}
		r, err := top.Graph().Resolve("app", map[string]int32{"in-a": 2, "in-b": 3, "one": 1, "two": 1})
		require.NoError(t, err)
		require.Len(t, r.Subtopologies(), 1)
		require.Equal(t, []string{"in-a", "in-b"}, r.Inputs())
		require.Contains(t, r.Describe(), "Topics found by pattern\n  in-a, in-b\n")
		require.Equal(t, topology.ResetLatest, r.Reset("in-b"))
		require.EqualValues(t, 1000, r.IdleMs("in-b"))
	}
}

// A topic that appears later leaves the topology the same one, unless it needs
// more tasks.
func TestFingerprintHoldsThePattern(t *testing.T) {
	reading := func(pattern string) func(b *tidegate.Builder) {
		return func(b *tidegate.Builder) { b.StreamPattern(pattern, str, str).GroupByKey("g").Count("n") }
	}
	id := func(pattern string, topics map[string]int32) string {
		r, err := resolve(t, topics, reading(pattern))
		require.NoError(t, err)
		return r.Fingerprint()
	}
	one := id("in-.*", map[string]int32{"in-a": 2})
	require.Equal(t, one, id("in-.*", map[string]int32{"in-a": 2, "in-b": 2}))
	require.NotEqual(t, one, id("in-.+", map[string]int32{"in-a": 2}))
	require.NotEqual(t, one, id("in-.*", map[string]int32{"in-a": 3}))
}

func TestPatternInDescriptions(t *testing.T) {
	top := build(t, func(b *tidegate.Builder) { b.StreamPattern(`in-\d+`, str, str).To("out") })
	require.Contains(t, top.Describe(), `source-0 (topics matching in-\d+) ->`)
	require.Contains(t, top.Graph().DOT("app"), `topics matching in-\\d+`)
	require.Contains(t, top.Graph().Mermaid("app"), `topics matching in-`)
	require.Contains(t, top.Graph().DOT("app"), "t1 -> n0;")
}
