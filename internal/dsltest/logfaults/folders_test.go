package logfaults

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
)

// spoil changes files of a task's folder.
type spoil struct {
	name string
	f    func(t *testing.T, folder string)
}

func each(pattern string, f func(t *testing.T, path string)) func(t *testing.T, folder string) {
	return func(t *testing.T, folder string) {
		list, err := filepath.Glob(filepath.Join(folder, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, list, pattern)
		for _, path := range list {
			f(t, path)
		}
	}
}

func overwrite(from, to float64) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		for i := int(from * float64(len(b))); i < int(to*float64(len(b))); i++ {
			b[i] ^= 0x5a
		}
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
}

func truncate(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 10)) }
func empty(t *testing.T, path string)    { require.NoError(t, os.Truncate(path, 0)) }
func remove(t *testing.T, path string)   { require.NoError(t, os.RemoveAll(path)) }

func file(t *testing.T, path string) {
	remove(t, path)
	require.NoError(t, os.WriteFile(path, []byte("no folder"), 0o600))
}

// A local store that is damaged in whatever way is given up, and the task restored
// from its changelogs.
func TestDamagedFolders(t *testing.T) {
	for _, s := range []spoil{
		{"positions", each("data/*.sst", overwrite(0, 0.1))},
		{"data", each("data/*.sst", overwrite(0.4, 0.6))},
		{"everything", each("data/*.sst", overwrite(0, 1))},
		{"cut tables", each("data/*.sst", truncate)},
		{"no tables", each("data/*.sst", remove)},
		{"empty tables", each("data/*.sst", empty)},
		{"manifest", each("data/MANIFEST*", overwrite(0.2, 1))},
		{"cut manifest", each("data/MANIFEST*", truncate)},
		{"empty manifest", each("data/MANIFEST*", empty)},
		{"no manifest", each("data/MANIFEST*", remove)},
		{"no marker", each("data/marker*", remove)},
		{"options", each("data/OPTIONS*", overwrite(0, 1))},
		{"no options", each("data/OPTIONS*", remove)},
		{"boot", each("BOOT", overwrite(0, 1))},
		{"no boot", each("BOOT", remove)},
		{"a file", each("data", file)},
		{"a file for all", each("", file)},
		{"no data", each("data", remove)},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := newCounted(t, false)
			c.keys = 20000 // many blocks of a table
			a := c.start(c.topo, "a")
			c.round(20000, a)
			a.end()
			for p := range parts {
				s.f(t, filepath.Join(c.dir, "a", "changelog", fmt.Sprint("0_", p)))
			}
			a = c.start(c.topo, "a")
			c.round(20000, a)
			a.end()
			c.check()
		})
	}
}

// What a store held while it had no changelog is not there once it has one again.
func TestChangelogOffAndOn(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 1, "out": 1})
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).GroupByKey("by-key").Count("counts").ToStream().To("out")
	topo, err := b.Build()
	require.NoError(t, err)
	out := c.read("out", 1)
	n := 0
	run := func(keys string, opts ...tidegate.Option) (last map[string]uint64) {
		t.Helper()
		for _, k := range keys {
			c.produce("in", message(0, string(k), "v", 1))
		}
		n += len(keys)
		a := c.start(topo, "a", opts...)
		c.await(func() bool { return out.Count() >= n }, a)
		a.end()
		last = map[string]uint64{}
		for _, m := range out.All()[0] {
			last[string(m.Key)] = binary.BigEndian.Uint64(m.Value)
		}
		return last
	}
	require.Equal(t, map[string]uint64{"x": 3, "y": 1}, run("xxxy"))
	require.Equal(t, map[string]uint64{"x": 1, "y": 2, "z": 2}, run("yyzxz", tidegate.WithoutChangelog("counts")))
	require.Equal(t, map[string]uint64{"x": 4, "y": 2, "z": 1}, run("xyz"), "x and y go on where the changelog ends")
}
