package memory

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/state"
)

func TestSnapshotWritesChangedStoresOnly(t *testing.T) {
	root := t.TempDir()
	e, err := Open(filepath.Join(root, "live"))
	require.NoError(t, err)
	a, err := e.Store("a")
	require.NoError(t, err)
	b, err := e.Store("b/with any name")
	require.NoError(t, err)
	require.NoError(t, a.Set([]byte("k"), []byte("1")))
	require.NoError(t, b.Set([]byte("k"), nil))

	one, err := e.Snapshot(filepath.Join(root, "1"))
	require.NoError(t, err)
	require.Len(t, one.Files, 2)
	require.False(t, one.Unchanged)
	require.NoError(t, os.RemoveAll(one.Dir)) // the engine does not need it

	two, err := e.Snapshot(filepath.Join(root, "2"))
	require.NoError(t, err)
	require.True(t, two.Unchanged)
	require.Equal(t, one.Version, two.Version)

	require.NoError(t, a.Set([]byte("k"), []byte("2")))
	three, err := e.Snapshot(filepath.Join(root, "3"))
	require.NoError(t, err)
	require.Equal(t, two.Version+1, three.Version)
	require.NotEqual(t, two.Files[0].Name, three.Files[0].Name)
	require.Equal(t, two.Files[1].Name, three.Files[1].Name)
	require.Positive(t, e.Metrics().MemoryBytes)

	dir := filepath.Join(root, "restored")
	require.NoError(t, state.FillFolder(dir, "", three.Files))
	r, err := Open(dir)
	require.NoError(t, err)
	ra, err := r.Store("a")
	require.NoError(t, err)
	v, ok, err := ra.Get([]byte("k"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "2", string(v))
	four, err := r.Snapshot(filepath.Join(root, "4"))
	require.NoError(t, err)
	for i, f := range four.Files {
		require.Equal(t, three.Files[i].Name, f.Name)
		require.Equal(t, three.Files[i].Size, f.Size)
	}
	_, err = r.Snapshot(filepath.Join(root, "4"))
	require.Error(t, err)
}

func TestDamagedFile(t *testing.T) {
	root := t.TempDir()
	e, err := Open(filepath.Join(root, "live"))
	require.NoError(t, err)
	kv, err := e.Store("s")
	require.NoError(t, err)
	for i := range 1000 {
		require.NoError(t, kv.Set(fmt.Append(nil, i), []byte("value")))
	}
	snap, err := e.Snapshot(filepath.Join(root, "1"))
	require.NoError(t, err)
	b, err := os.ReadFile(snap.Files[0].Path)
	require.NoError(t, err)
	for _, at := range []int{0, 4, 10, len(b) / 2, len(b) - 1} {
		dir := filepath.Join(root, fmt.Sprint("damaged", at))
		require.NoError(t, os.Mkdir(dir, 0o700))
		c := bytes.Clone(b)
		c[at] ^= 1
		require.NoError(t, os.WriteFile(filepath.Join(dir, snap.Files[0].Name), c, 0o600))
		require.NoError(t, state.WriteSeal(dir, ""))
		_, err := Open(dir)
		require.ErrorIs(t, err, state.ErrCorrupted)
		require.ErrorContains(t, err, dir)
	}
	dir := filepath.Join(root, "foreign")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "000001.sst"), b, 0o600))
	require.NoError(t, state.WriteSeal(dir, ""))
	_, err = Open(dir)
	require.ErrorIs(t, err, state.ErrOtherEngine)
}

func TestIteratorSeesThePast(t *testing.T) {
	s := newStore("s")
	for i := range 500 {
		require.NoError(t, s.Set(fmt.Appendf(nil, "%04d", i), []byte("old")))
	}
	it := s.Scan([]byte("0100"), []byte("0400"), true)
	require.NoError(t, s.DeleteRange(nil, []byte("0300")))
	require.NoError(t, s.Set([]byte("0350"), []byte("new")))
	n := 0
	for it.Next() {
		require.Equal(t, fmt.Sprintf("%04d", 399-n), string(it.Key()))
		require.Equal(t, "old", string(it.Value()))
		n++
	}
	require.Equal(t, 300, n)
	require.NoError(t, it.Close())
	require.False(t, s.Scan([]byte("b"), []byte("a"), false).Next())
}

func FuzzDecodeStore(f *testing.F) {
	s := newStore("s")
	_ = s.Set([]byte("a"), []byte("1"))
	_ = s.Set([]byte("b"), nil)
	path := filepath.Join(f.TempDir(), "x")
	_, err := writeStore(path, s)
	require.NoError(f, err)
	b, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte("tgms"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeStore(b)
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "x")
		_, err = writeStore(path, s)
		require.NoError(t, err)
		again, err := readStore(path)
		require.NoError(t, err)
		require.Equal(t, s.name, again.name)
		require.Equal(t, s.tree.Len(), again.tree.Len())
	})
}

func FuzzParseName(f *testing.F) {
	f.Add(fileName(3, 17))
	f.Add("000001-x.mem")
	f.Fuzz(func(t *testing.T, name string) {
		if store, generation, ok := parseName(name); ok {
			require.Equal(t, name, fileName(store, generation))
		}
	})
}
