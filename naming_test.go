package tidegate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

// listing is what a topology is known by outside of the program.
func listing(t *testing.T, b *tidegate.Builder, counts map[string]int32) string {
	t.Helper()
	top, err := b.Build()
	require.NoError(t, err)
	var out strings.Builder
	for _, mode := range []tidegate.Mode{tidegate.Barrier, tidegate.Changelog} {
		for _, topic := range top.InternalTopics("app", mode) {
			topic.Site = ""
			fmt.Fprintf(&out, "%+v\n", topic)
		}
	}
	for _, s := range top.Stores() {
		s.Site = ""
		fmt.Fprintf(&out, "%+v\n", s)
	}
	r, err := top.Graph().Resolve("app", counts)
	require.NoError(t, err)
	return out.String() + r.Fingerprint()
}

// namedTopology has every kind of step that makes a topic or a store; between is
// called on the streams in front of them.
func namedTopology(between func(*tidegate.Stream[string, string]) *tidegate.Stream[string, string]) *tidegate.Builder {
	b := tidegate.NewBuilder()
	in, other := between(b.Stream("in", str, str)), between(b.Stream("other", str, str))
	names := b.Table("names", "names", str, str)
	key := func(_, v string) string { return v }
	between(in.SelectKey(key, str)).GroupByKey("by").Count("counts")
	in.GroupBy("grouped", key, str).Reduce("reduced", func(_, v string) string { return v })
	between(in.SelectKey(key, str)).ToTable("latest")
	between(in.SelectKey(key, str)).JoinTable("named", names, func(a, b string) string { return a + b }, str)
	between(between(in).SelectKey(key, str)).JoinStream("both", other, tidegate.JoinWithin(time.Second), func(a, b string) string { return a + b }, str)
	between(in.Repartition("spread", tidegate.Partitions(4))).GroupByKey("spread-by").
		WindowedBy(tidegate.Tumbling(time.Second), tidegate.ByWindow).Count("windowed")
	return b
}

// A stateless step upstream changes no name of a topic, no store, and not the
// fingerprint that a checkpoint is compared by.
func TestStatelessStepsRenameNothing(t *testing.T) {
	counts := map[string]int32{"in": 3, "other": 3, "names": 3}
	type stream = *tidegate.Stream[string, string]
	want := listing(t, namedTopology(func(s stream) stream { return s }), counts)
	for name, between := range map[string]func(stream) stream{
		"filter": func(s stream) stream { return s.Filter(func(string, string) bool { return true }) },
		"map values": func(s stream) stream {
			return s.MapValues(func(v string) int { return len(v) }).MapValues(func(n int) string { return fmt.Sprint(n) }, str)
		},
		"peek, twice": func(s stream) stream { return s.Peek(func(string, string) {}).Peek(func(string, string) {}) },
		"a side output": func(s stream) stream {
			s.Filter(func(string, string) bool { return true }).ForEach(func(string, string) {})
			return s
		},
		"split and merge": func(s stream) stream {
			sp := s.Split()
			return sp.Branch("a", func(string, string) bool { return true }).Merge(sp.Default())
		},
	} {
		require.Equal(t, want, listing(t, namedTopology(between), counts), name)
	}
	require.Contains(t, want, "{Name:app-control Kind:control Partitions:1 ")
	require.Contains(t, want, "{Name:app-windowed-changelog Kind:changelog ")
	require.Contains(t, want, "SourceTopic:names")
}

func rekeyed(opts ...tidegate.BuilderOption) (*tidegate.Builder, *tidegate.Stream[string, string]) {
	b := tidegate.NewBuilder(opts...)
	return b, b.Stream("in", str, str).SelectKey(func(_, v string) string { return v }, str)
}

// internal gives the repartition topics with the steps that share them.
func internal(t *testing.T, b *tidegate.Builder) []string {
	t.Helper()
	top, err := b.Build()
	require.NoError(t, err)
	var out []string
	for _, topic := range top.InternalTopics("app", tidegate.Changelog) {
		if topic.Kind == tidegate.RepartitionTopic {
			out = append(out, strings.Join(append([]string{topic.Name}, topic.SharedBy...), " "))
		}
	}
	return out
}

func TestRepartitionsAreMergedWhereAsked(t *testing.T) {
	b, s := rekeyed()
	s.GroupByKey("a").Count("ca")
	s.GroupByKey("b").Count("cb")
	require.Equal(t, []string{"app-a-repartition", "app-b-repartition"}, internal(t, b), "off by default")

	b, s = rekeyed(tidegate.MergeRepartitions())
	s.GroupByKey("a").Count("ca")
	require.Equal(t, []string{"app-a-repartition"}, internal(t, b))
	s.GroupByKey("b").Count("cb")
	s.ToTable("t")
	require.Equal(t, []string{"app-a-repartition b t"}, internal(t, b), "what comes later renames nothing")

	// Other streams, serdes or names of its own are not merged.
	s.MapValues(func(v string) string { return v }, str).GroupByKey("other-stream").Count("c1")
	require.Equal(t, []string{"app-a-repartition b t", "app-other-stream-repartition"}, internal(t, b))
}

func TestWhatIsNotMerged(t *testing.T) {
	b, s := rekeyed(tidegate.MergeRepartitions())
	s.As(str, named{str, "other"}).GroupByKey("other-value").Count("c1")
	s.As(named{str, "other"}, str).GroupByKey("other-key").Count("c2")
	s.GroupByKey("plain").Count("c3")
	s.Repartition("one").GroupByKey("x").Count("c4")
	s.Repartition("two").GroupByKey("y").Count("c5")
	require.Equal(t, []string{"app-one-repartition", "app-other-key-repartition", "app-other-value-repartition", "app-plain-repartition", "app-two-repartition"},
		internal(t, b))

	b, s = rekeyed(tidegate.MergeRepartitions())
	s.Repartition("mine", tidegate.PartitionBy(func(string, int32) int32 { return 0 })).GroupByKey("x").Count("c1")
	s.GroupByKey("hashed").Count("c2")
	require.Equal(t, []string{"app-hashed-repartition", "app-mine-repartition"}, internal(t, b), "a partitioner of one's own")

	// A stream whose serde was lost is an error, with or without merging.
	b, s = rekeyed(tidegate.MergeRepartitions(), nil)
	lost := s.MapValues(func(v string) int { return len(v) })
	lost.GroupByKey("p").Count("cp")
	lost.GroupByKey("q").Count("cq")
	_, err := b.Build()
	require.ErrorContains(t, err, "its serde is not known, but repartitioning for p")
	require.ErrorContains(t, err, "its serde is not known, but repartitioning for q")
}

func TestAnExplicitRepartitionIsShared(t *testing.T) {
	b, s := rekeyed(tidegate.MergeRepartitions())
	s.Repartition("pinned", tidegate.Partitions(2)).GroupByKey("x").Count("c1")
	s.GroupByKey("a").Count("c2")
	require.Equal(t, []string{"app-pinned-repartition a"}, internal(t, b))
}

// named is a serde with another fingerprint.
type named struct {
	serde.Serde[string]
	name string
}

func (n named) Fingerprint() string { return n.name }

// Merging changes no result.
func TestMergedGivesTheSame(t *testing.T) {
	results := func(opts ...tidegate.BuilderOption) map[string]string {
		b, s := rekeyed(opts...)
		s.GroupByKey("a").Count("ca").ToStream().MapValues(itoa, str).To("counts")
		s.GroupByKey("b").Reduce("rb", func(a, v string) string { return a + v }).ToStream().To("reduced")
		s.JoinStream("j", s, tidegate.JoinWithin(10*ms), func(a, b string) string { return a + "+" + b }, str).To("joined")
		s.LeftJoinStream("lj", s, tidegate.JoinWithin(10*ms), func(a string, b tidegate.Opt[string]) string { return a + "~" + b.Or("?") }, str).To("left")
		r := start(t, b, map[string]int32{"in": 3})
		for i := range 30 {
			r.in("in", fmt.Sprint(i%7), string("abc"[i%3]), int64(3*i))
			if i == 17 {
				require.NoError(t, r.d.Restart())
			}
		}
		out := map[string]string{}
		for _, topic := range []string{"counts", "reduced", "joined", "left"} {
			out[topic] = r.out(topic)
			require.NotEmpty(t, out[topic], topic)
		}
		return out
	}
	require.Equal(t, results(), results(tidegate.MergeRepartitions()))
}

func TestListing(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).GroupBy("by", func(_, v string) string { return v }, str).
		WindowedBy(tidegate.Tumbling(time.Minute).Grace(time.Second), tidegate.ByWindow).Count("counts")
	b.Table("names", "names", str, serde.Int64())
	top, err := b.Build()
	require.NoError(t, err)
	topics := top.InternalTopics("app", tidegate.Barrier)
	require.Len(t, topics, 2)
	require.Regexp(t, `/naming_test.go:\d+$`, topics[0].Site)
	topics[0].Site = ""
	require.Equal(t, tidegate.InternalTopic{
		Name: "app-by-repartition", Kind: tidegate.RepartitionTopic, Step: "by", Key: "string", Value: "string", WrittenBy: []int32{0}, ReadBy: 1,
	}, topics[0])
	require.Equal(t, tidegate.InternalTopic{Name: "app-control", Kind: tidegate.ControlTopic, Partitions: 1}, topics[1])

	stores := top.Stores()
	require.Len(t, stores, 2)
	require.Equal(t, []string{"counts", "names"}, []string{stores[0].Name, stores[1].Name})
	require.Equal(t, time.Minute, stores[0].WindowSize)
	require.Equal(t, time.Second, stores[0].Grace)
	require.Equal(t, []string{"windowed-count counts"}, stores[0].Steps)
	require.Equal(t, int32(1), stores[0].Subtopology)
	require.Equal(t, "names", stores[1].SourceTopic)
	require.Equal(t, "int64", stores[1].Value)

	var changelogs []string
	for _, topic := range top.InternalTopics("app", tidegate.Changelog) {
		changelogs = append(changelogs, topic.Name)
	}
	require.Equal(t, []string{"app-by-repartition", "app-counts-changelog", "app-names-changelog"}, changelogs)
	require.True(t, strings.HasPrefix(top.DOT(), "digraph topology {"))
	require.True(t, strings.HasPrefix(top.Mermaid(), "flowchart LR\n"))
}
