package pebblestore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/pebblestore"
)

func newShared(t *testing.T) *pebblestore.Shared {
	s := pebblestore.NewShared(pebblestore.SharedOptions{BlockCache: 4 << 20})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func open(t *testing.T, s *pebblestore.Shared, dir string) *pebblestore.Engine {
	e, err := pebblestore.Open(s, dir, pebblestore.Options{Memtable: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func fill(t *testing.T, e *pebblestore.Engine, from, to int, value string) {
	kv, err := e.Store("s")
	require.NoError(t, err)
	for i := from; i < to; i++ {
		require.NoError(t, kv.Set(fmt.Appendf(nil, "%06d", i), []byte(value)))
	}
}

func tables(s state.Snapshot) map[string]int64 {
	m := map[string]int64{}
	for _, f := range s.Files {
		if f.Immutable {
			m[f.Name] = f.Size
		}
	}
	return m
}

func content(t *testing.T, e *pebblestore.Engine) map[string]string {
	kv, err := e.Store("s")
	require.NoError(t, err)
	it := kv.Scan(nil, nil, false)
	m := map[string]string{}
	for it.Next() {
		m[string(it.Key())] = string(it.Value())
	}
	require.NoError(t, it.Err())
	require.NoError(t, it.Close())
	return m
}

// A checkpoint with nothing changed uploads no SST, and one with little changed
// refers to the tables it has.
func TestSnapshotIsIncremental(t *testing.T) {
	root := t.TempDir()
	e := open(t, newShared(t), filepath.Join(root, "db"))
	fill(t, e, 0, 5000, "v")
	one, err := e.Snapshot(filepath.Join(root, "1"))
	require.NoError(t, err)
	require.False(t, one.Unchanged)
	require.Len(t, tables(one), 1)

	two, err := e.Snapshot(filepath.Join(root, "2"))
	require.NoError(t, err)
	require.True(t, two.Unchanged)
	require.Equal(t, one.Version, two.Version)
	require.Equal(t, tables(one), tables(two))
	for i, f := range two.Files {
		require.Equal(t, one.Files[i].Name, f.Name)
		require.Equal(t, one.Files[i].Size, f.Size)
	}

	// The same without the earlier folder to link from.
	require.NoError(t, os.RemoveAll(one.Dir))
	require.NoError(t, os.RemoveAll(two.Dir))
	three, err := e.Snapshot(filepath.Join(root, "3"))
	require.NoError(t, err)
	require.True(t, three.Unchanged)
	require.Equal(t, tables(one), tables(three))

	fill(t, e, 10_000, 10_001, "v")
	four, err := e.Snapshot(filepath.Join(root, "4"))
	require.NoError(t, err)
	require.False(t, four.Unchanged)
	require.Equal(t, one.Version+1, four.Version)
	require.Len(t, tables(four), 2)
	for name, size := range tables(one) {
		require.Equal(t, size, tables(four)[name])
	}
	var small int64
	for _, f := range four.Files {
		require.False(t, strings.HasSuffix(f.Name, ".log"), "no write-ahead log")
		if !f.Immutable {
			small += f.Size
		}
	}
	require.Less(t, small, int64(16<<10))
	m := e.Metrics()
	require.EqualValues(t, 4, m.Snapshots)
	require.Positive(t, m.FlushedBytes)
}

// Checkpoint 1 {1.sst}; checkpoint 2 writes 2.sst, crash; restored from 1,
// checkpoint 3 writes another 2.sst under the same name.
func TestTableNamesComeAgain(t *testing.T) {
	root := t.TempDir()
	s := newShared(t)
	first := open(t, s, filepath.Join(root, "first"))
	fill(t, first, 0, 10, "one")
	one, err := first.Snapshot(filepath.Join(root, "1"))
	require.NoError(t, err)
	fill(t, first, 10, 20, "two")
	two, err := first.Snapshot(filepath.Join(root, "2"))
	require.NoError(t, err)
	want2 := content(t, first)

	require.NoError(t, state.FillFolder(filepath.Join(root, "second"), "", one.Files))
	second := open(t, s, filepath.Join(root, "second"))
	fill(t, second, 20, 40, "three")
	three, err := second.Snapshot(filepath.Join(root, "3"))
	require.NoError(t, err)
	want3 := content(t, second)
	require.NotEqual(t, want2, want3)

	for i, snap := range []state.Snapshot{two, three} {
		dir := filepath.Join(root, fmt.Sprint("again", i))
		require.NoError(t, state.FillFolder(dir, "", snap.Files))
		require.Equal(t, []map[string]string{want2, want3}[i], content(t, open(t, s, dir)))
	}
}

func TestStoresAreApart(t *testing.T) {
	root := t.TempDir()
	s := newShared(t)
	e := open(t, s, filepath.Join(root, "db"))
	for i := range 300 {
		kv, err := e.Store(fmt.Sprint("store", i))
		require.NoError(t, err)
		require.NoError(t, kv.Set([]byte("k"), fmt.Append(nil, i)))
		require.NoError(t, kv.Set([]byte{0xff, 0xff, 0xff}, nil))
	}
	kv, err := e.Store("store7")
	require.NoError(t, err)
	require.NoError(t, kv.DeleteRange(nil, nil))
	_, err = e.Store("")
	require.Error(t, err)
	snap, err := e.Snapshot(filepath.Join(root, "1"))
	require.NoError(t, err)
	require.NoError(t, state.FillFolder(filepath.Join(root, "2"), "", snap.Files))
	again := open(t, s, filepath.Join(root, "2"))
	for i := 299; i >= 0; i-- {
		kv, err := again.Store(fmt.Sprint("store", i))
		require.NoError(t, err)
		v, ok, err := kv.Get([]byte("k"))
		require.NoError(t, err)
		require.Equal(t, i != 7, ok)
		if ok {
			require.Equal(t, fmt.Sprint(i), string(v))
		}
	}
}

// A full disk is an error that names the folder, and nothing hangs.
func TestDiskFull(t *testing.T) {
	root := t.TempDir()
	s := newShared(t)
	var full atomic.Bool
	s.SetFS(func(fs vfs.FS) vfs.FS {
		return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".sst") {
				return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
			}
			return nil
		}))
	})
	dir := filepath.Join(root, "db")
	e := open(t, s, dir)
	fill(t, e, 0, 10, "v")
	full.Store(true)
	_, err := e.Snapshot(filepath.Join(root, "1"))
	require.ErrorIs(t, err, state.ErrDiskFull)
	require.ErrorContains(t, err, dir)
	kv, err := e.Store("s")
	require.NoError(t, err)
	require.ErrorIs(t, kv.Set([]byte("k"), nil), state.ErrDiskFull)
	require.NoError(t, e.Close())

	// The same while the writer runs into it.
	full.Store(false)
	e = open(t, s, filepath.Join(root, "db2"))
	kv, err = e.Store("s")
	require.NoError(t, err)
	full.Store(true)
	value := make([]byte, 10_000)
	for i := 0; err == nil && i < 100_000; i++ {
		err = kv.Set(fmt.Append(nil, i), value)
	}
	require.ErrorIs(t, err, state.ErrDiskFull)
}

func TestCorruptedFolders(t *testing.T) {
	root := t.TempDir()
	s := newShared(t)
	e := open(t, s, filepath.Join(root, "db"))
	fill(t, e, 0, 20_000, "some value")
	snap, err := e.Snapshot(filepath.Join(root, "snap"))
	require.NoError(t, err)
	n := 0
	restored := func(damage func(f state.File, path string)) string {
		n++
		dir := filepath.Join(root, fmt.Sprint("restored", n))
		copies := make([]state.File, len(snap.Files))
		for i, f := range snap.Files {
			f.Immutable = false // copy, the original is to stay whole
			copies[i] = f
		}
		require.NoError(t, state.FillFolder(dir, "", copies))
		for _, f := range snap.Files {
			damage(f, filepath.Join(dir, f.Name))
		}
		return dir
	}
	flip := func(path string, at int64) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		b := make([]byte, 1)
		_, err = f.ReadAt(b, at)
		require.NoError(t, err)
		b[0] ^= 0xff
		_, err = f.WriteAt(b, at)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}

	dir := restored(func(f state.File, path string) {
		if f.Immutable {
			flip(path, f.Size/4)
		}
	})
	damaged, err := pebblestore.Open(s, dir, pebblestore.Options{})
	if err == nil {
		kv, e := damaged.Store("s")
		for i := 0; e == nil && i < 20_000; i += 50 {
			_, _, e = kv.Get(fmt.Appendf(nil, "%06d", i))
		}
		err = e
		_ = damaged.Close()
	}
	require.ErrorIs(t, err, state.ErrCorrupted)
	require.ErrorContains(t, err, dir)

	dir = restored(func(f state.File, path string) {
		if strings.HasPrefix(f.Name, "MANIFEST") {
			flip(path, f.Size/2)
		}
	})
	_, err = pebblestore.Open(s, dir, pebblestore.Options{})
	require.ErrorIs(t, err, state.ErrCorrupted)

	dir = restored(func(f state.File, path string) {
		if f.Immutable {
			require.NoError(t, os.Remove(path))
		}
	})
	_, err = pebblestore.Open(s, dir, pebblestore.Options{})
	require.ErrorIs(t, err, state.ErrCorrupted)

	// What a killed process leaves is not sealed.
	require.NoError(t, e.Close())
	_, err = pebblestore.Open(s, filepath.Join(root, "db"), pebblestore.Options{})
	require.ErrorIs(t, err, state.ErrUnsealed)
	require.False(t, errors.Is(err, state.ErrCorrupted))
}

func TestFolderInUse(t *testing.T) {
	root := t.TempDir()
	s := newShared(t)
	dir := filepath.Join(root, "db")
	open(t, s, dir)
	require.NoError(t, state.WriteSeal(dir, "")) // somebody mistook it
	_, err := pebblestore.Open(s, dir, pebblestore.Options{})
	require.ErrorIs(t, err, state.ErrLocked)
	require.ErrorContains(t, err, dir)
}

// Memtables that fill up between snapshots, while Pebble holds back flushes of
// small ones, do not stop the writer.
func TestManyWrites(t *testing.T) {
	root := t.TempDir()
	e := open(t, newShared(t), filepath.Join(root, "db"))
	fill(t, e, 0, 200_000, "a value of some length so that several memtables fill up")
	_, err := e.Snapshot(filepath.Join(root, "1"))
	require.NoError(t, err)
	kv, err := e.Store("s")
	require.NoError(t, err)
	_, ok, err := kv.Get([]byte("199999"))
	require.NoError(t, err)
	require.True(t, ok)
}
