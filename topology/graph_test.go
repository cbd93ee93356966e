package topology_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/topology"
)

var updateGraphs = flag.Bool("update-graphs", false, "write the golden files of the graphs")

func goldenFile(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *updateGraphs {
		require.NoError(t, os.WriteFile(name, []byte(got), 0o600))
	}
	want, err := os.ReadFile(name) //nolint:gosec // a file of this test
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// drawn has every kind of node and of arrow, and labels that need escaping.
func drawn(t *testing.T) *topology.Topology {
	g := newGraph()
	in := g.op(g.source("clicks", "views"))
	g.Add(topology.Node{Op: "branch", Name: "a \"b\" <c> \\ #1 `x`\nnext", Parents: []*topology.Node{in}})
	table := g.state("users", g.source("users"))
	view := g.Add(topology.Node{Op: "table-filter", View: true, Parents: []*topology.Node{table}})
	by := g.repartition("by-user", 0, in)
	counts := g.state("counts", by)
	joined := g.join(counts, table)
	viewed := g.join(joined, view)
	g.Add(topology.Node{Kind: topology.Sink, Op: "sink", SinkTopic: "out", Parents: []*topology.Node{viewed}})
	g.Add(topology.Node{Kind: topology.Sink, Op: "sink-dynamic", Parents: []*topology.Node{viewed}})
	top, err := g.Build()
	require.NoError(t, err)
	return top
}

func TestGraphs(t *testing.T) {
	top := drawn(t)
	goldenFile(t, "graph.dot", top.DOT("<app>"))
	goldenFile(t, "graph.mmd", top.Mermaid("<app>"))
	for range 10 {
		require.Equal(t, top.DOT("<app>"), drawn(t).DOT("<app>"))
		require.Equal(t, top.Mermaid("<app>"), drawn(t).Mermaid("<app>"))
	}
}

func TestSharedSteps(t *testing.T) {
	g := newGraph()
	g.state("s", g.repartition("by", 0, g.source("in")))
	g.ShareStep("by", "other")
	first, err := g.Build()
	require.NoError(t, err)
	require.Contains(t, first.Describe("app"), "app-by-repartition: partitions as upstream or as joined, key , value , written by 0, read by 1, shared by other")
	g.ShareStep("by", "third")
	second, err := g.Build()
	require.NoError(t, err)
	require.Equal(t, []string{"other"}, first.Repartitions()[0].SharedBy, "a topology is immutable")
	require.Equal(t, []string{"other", "third"}, second.Repartitions()[0].SharedBy)
}
