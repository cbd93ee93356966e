package topology_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/topology"
)

// graph describes topologies tersely.
type graph struct {
	*topology.Builder
	line int
}

func newGraph() *graph { return &graph{Builder: topology.NewBuilder()} }

func (g *graph) site() topology.Site {
	g.line++
	return topology.Site{File: "user/main.go", Line: g.line}
}

func (g *graph) source(topics ...string) *topology.Node {
	return g.Add(topology.Node{Kind: topology.Source, Op: "source", Site: g.site(), Topics: topics})
}

func (g *graph) op(parents ...*topology.Node) *topology.Node {
	return g.Add(topology.Node{Op: "op", Site: g.site(), Parents: parents})
}

func (g *graph) state(name string, parents ...*topology.Node) *topology.Node {
	site := g.site()
	g.AddStore(topology.Store{Name: name, Format: "f", Site: site, Key: topology.Serde{Fingerprint: "k"}, Value: topology.Serde{Fingerprint: "v"}})
	return g.Add(topology.Node{Kind: topology.Stateful, Op: "state", Name: name, Site: site, Parents: parents, Stores: []string{name}, KeyedState: true})
}

func (g *graph) join(parent, table *topology.Node) *topology.Node {
	return g.Add(topology.Node{Kind: topology.Join, Op: "join", Site: g.site(), Parents: []*topology.Node{parent}, Uses: []*topology.Node{table}, KeyedState: true})
}

func (g *graph) repartition(name string, n int32, parent *topology.Node) *topology.Node {
	site := g.site()
	g.ClaimStep(name, site)
	return g.AddRepartition(parent, topology.Repartition{Name: name, Partitions: n, Site: site}, nil, nil)
}

func (g *graph) resolve(t *testing.T, partitions map[string]int32) *topology.Resolved {
	t.Helper()
	top, err := g.Build()
	require.NoError(t, err)
	r, err := top.Resolve("app", partitions)
	require.NoError(t, err)
	return r
}

func TestSubtopologies(t *testing.T) {
	g := newGraph()
	a := g.op(g.source("a"))
	b := g.source("b")
	g.state("counts", g.repartition("by", 0, a))
	g.state("again", g.source("b"))
	g.op(b)
	r := g.resolve(t, map[string]int32{"a": 3, "b": 2})
	subs := r.Subtopologies()
	require.Len(t, subs, 3)
	require.Equal(t, []string{"a"}, subs[0].Topics)
	require.Equal(t, []string{"by"}, subs[0].Writes)
	require.Equal(t, []string{"b"}, subs[1].Topics, "two sources of one topic are one subtopology (R18)")
	require.Len(t, subs[1].Nodes, 4)
	require.Equal(t, []string{"by"}, subs[2].Steps)
	require.Equal(t, int32(3), r.TaskCount(2))
	require.Equal(t, "counts", subs[2].Stores[0].Name)

	sub, ok := r.Reader("app-by-repartition")
	require.True(t, ok)
	require.Equal(t, int32(2), sub)
	_, ok = r.Reader("nobody")
	require.False(t, ok)
	require.Equal(t, []string{"app-by-repartition"}, r.TaskOutputs(0))
	require.Equal(t, []topology.Channel{{Task: ids.TaskID{Partition: 0}}, {Task: ids.TaskID{Partition: 1}}, {Task: ids.TaskID{Partition: 2}}},
		r.Channels("app-by-repartition"))
	ext, in := r.TaskInputs(ids.TaskID{Sub: 2, Partition: 1})
	require.Empty(t, ext)
	require.Equal(t, []ids.TopicPartition{{Topic: "app-by-repartition", Partition: 1}}, in)
	require.Len(t, r.Tasks(), 3+2+3)
	require.NotNil(t, subs[0].Resolved())
}

func TestTasksOfUnequalTopics(t *testing.T) {
	g := newGraph()
	g.op(g.source("a"), g.source("b"))
	r := g.resolve(t, map[string]int32{"a": 1, "b": 3})
	ext, _ := r.TaskInputs(ids.TaskID{Partition: 2})
	require.Equal(t, []ids.TopicPartition{{Topic: "b", Partition: 2}}, ext)
}

func TestCycleChannels(t *testing.T) {
	// 0 -> 1 -> 2 -> 1 and 2 -> 2: the edges from 2 are back edges.
	g := newGraph()
	one := g.repartition("to-1", 0, g.source("in"))
	two := g.repartition("to-2", 0, g.state("s1", one))
	s2 := g.state("s2", two)
	back := g.repartition("back", 0, s2)
	g.join(back, g.built(t, 3)) // the reader of "back" is subtopology 1
	self := g.repartition("self", 0, s2)
	g.join(self, s2)
	r := g.resolve(t, map[string]int32{"in": 2})
	cycle := map[string][]int32{}
	for _, s := range r.Repartitions() {
		cycle[s.Name] = s.Cycle
	}
	require.Equal(t, map[string][]int32{"to-1": nil, "to-2": nil, "back": {2}, "self": {2}}, cycle)
	require.True(t, r.Channels("app-self-repartition")[0].Cycle)
	require.Equal(t, int32(2), r.Partitions("app-self-repartition"))
	require.Contains(t, r.Describe(), "cycle from 2")
	require.Empty(t, r.Upstream(0))
	require.Equal(t, []int32{0}, r.Upstream(1))
	require.Equal(t, []int32{1, 0}, r.Upstream(2))
}

// built returns the node of that id.
func (g *graph) built(t *testing.T, id int) *topology.Node {
	top, err := g.Build()
	require.NoError(t, err)
	return top.Node(id)
}

func TestPartitionCountsThroughCycles(t *testing.T) {
	g := newGraph()
	a := g.repartition("a", 0, g.source("in"))
	n := g.state("s", a)
	b := g.repartition("b", 0, n)
	g.join(b, n)
	r := g.resolve(t, map[string]int32{"in": 5})
	require.Equal(t, int32(5), r.Partitions("app-a-repartition"))
	require.Equal(t, int32(5), r.Partitions("app-b-repartition"))
}

func TestJoinedStepsTakeTheLargestCountUpstream(t *testing.T) {
	g := newGraph()
	a := g.state("sa", g.repartition("a", 0, g.source("in1")))
	b := g.repartition("b", 0, g.source("in2"))
	g.join(b, a)
	r := g.resolve(t, map[string]int32{"in1": 2, "in2": 7})
	require.Equal(t, int32(7), r.Partitions("app-a-repartition"))
	require.Equal(t, int32(7), r.Partitions("app-b-repartition"))
}

func TestJoinedStepTakesTheUsersNumber(t *testing.T) {
	g := newGraph()
	a := g.state("sa", g.repartition("a", 3, g.source("in1")))
	b := g.repartition("b", 0, g.source("in2"))
	g.join(b, a)
	r := g.resolve(t, map[string]int32{"in1": 2, "in2": 7})
	require.Equal(t, int32(3), r.Partitions("app-b-repartition"))
}

func TestFingerprint(t *testing.T) {
	build := func(partitions int32, stateless bool, name, app string) string {
		g := newGraph()
		n := g.source("in")
		if stateless {
			n = g.op(n)
		}
		g.state(name, g.repartition("by", 0, n))
		top, err := g.Build()
		require.NoError(t, err)
		r, err := top.Resolve(app, map[string]int32{"in": partitions})
		require.NoError(t, err)
		return r.Fingerprint()
	}
	base := build(2, false, "s", "app")
	require.Len(t, base, 32)
	require.Equal(t, base, build(2, true, "s", "other"))
	require.NotEqual(t, base, build(3, false, "s", "app"))
	require.NotEqual(t, base, build(2, false, "t", "app"))
	// The fingerprint is stored in checkpoints: it must not change by accident.
	require.Equal(t, golden, base)
}

func TestErrors(t *testing.T) {
	_, err := topology.NewBuilder().Build()
	require.ErrorContains(t, err, "the topology is empty")

	g := newGraph()
	g.Add(topology.Node{Kind: topology.Source, Site: g.site(), Topics: []string{"in"}, Reset: topology.ResetLatest})
	g.Add(topology.Node{Kind: topology.Source, Site: g.site(), Topics: []string{"in"}, Reset: topology.ResetEarliest})
	_, err = g.Build()
	require.ErrorContains(t, err, `user/main.go:2: topic "in" is read from earliest here and from latest at user/main.go:1`)

	g = newGraph()
	g.source("..")
	g.source(strings.Repeat("x", 250))
	g.source()
	g.state("s", g.source("a"))
	g.state("s", g.source("b"))
	_, err = g.Build()
	for _, want := range []string{
		`topic name "..": is not allowed by Kafka`, "is 250 characters long", "a stream without topics",
		`store name "s" is already used at user/main.go:`,
	} {
		require.ErrorContains(t, err, want)
	}

	g = newGraph()
	g.state("s", g.repartition(strings.Repeat("n", 240), 0, g.source("a")))
	top, err := g.Build()
	require.NoError(t, err)
	_, err = top.Resolve("an application", nil)
	require.ErrorContains(t, err, `application id "an application": contains ' '`)
	require.ErrorContains(t, err, "Kafka allows 249")
	require.ErrorContains(t, err, `topic "a", which is read here, does not exist`)
}

func TestOldValuesAreAskedForThroughViews(t *testing.T) {
	g := newGraph()
	s := g.state("s", g.source("in"))
	other := g.state("o", g.source("in"))
	view := g.Add(topology.Node{Op: "view", View: true, Parents: []*topology.Node{s}})
	g.Add(topology.Node{Op: "group", WantsOld: true, Parents: []*topology.Node{view}})
	_, err := g.Build()
	require.NoError(t, err)
	require.True(t, s.SendOld)
	require.True(t, view.SendOld)
	require.False(t, other.SendOld)
}

const golden = "335d330a4da87f42756f717a717493fa"
