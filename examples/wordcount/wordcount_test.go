package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

func TestWordsAreCounted(t *testing.T) {
	topology, err := Topology()
	require.NoError(t, err)
	driver := tidegatetest.New(t, topology)
	lines := driver.Input("lines", serde.String(), serde.String())
	counts := driver.Output("counts", serde.String(), serde.String())

	lines.Pipe("", "To be, or not to be")
	require.Equal(t, []tidegatetest.KeyValue[string, string]{
		tidegatetest.KV("to", "1"),
		tidegatetest.KV("be", "1"),
		tidegatetest.KV("or", "1"),
		tidegatetest.KV("not", "1"),
		tidegatetest.KV("to", "2"),
		tidegatetest.KV("be", "2"),
	}, counts.ReadKeyValues())
}

func TestCountsSurviveARestart(t *testing.T) {
	topology, err := Topology()
	require.NoError(t, err)
	driver := tidegatetest.New(t, topology)
	lines := driver.Input("lines", serde.String(), serde.String())

	lines.Pipe("", "tide")
	driver.Restart()
	lines.Pipe("", "tide")

	counts := driver.Store("word-counts", serde.String(), serde.Int64())
	n, ok := counts.Get("tide")
	require.True(t, ok)
	require.Equal(t, int64(2), n)
}

func TestALineWithoutWordsGivesNothing(t *testing.T) {
	topology, err := Topology()
	require.NoError(t, err)
	driver := tidegatetest.New(t, topology)

	driver.Input("lines", serde.String(), serde.String()).Pipe("", " -- 42!")
	require.Zero(t, driver.Output("counts", serde.String(), serde.String()).Len())
}

func TestChangelogModeNeedsNoFolderForCheckpoints(t *testing.T) {
	_, err := newApp(settings{brokers: "127.0.0.1:9092", state: t.TempDir(), mode: tidegate.Changelog})
	require.NoError(t, err)
	_, err = newApp(settings{brokers: "127.0.0.1:9092", state: t.TempDir(), mode: tidegate.Barrier})
	require.ErrorContains(t, err, `WithCheckpointDir("")`)
}
