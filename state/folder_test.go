package state

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func write(t *testing.T, dir, name, content string) File {
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return File{Name: name, Path: path, Size: int64(len(content))}
}

func TestSealMakesAFolderUsable(t *testing.T) {
	dir := t.TempDir()
	fresh, err := OpenFolder(filepath.Join(dir, "new"))
	require.NoError(t, err)
	require.True(t, fresh)

	a, b := write(t, dir, "a", "one"), write(t, dir, "b", "two")
	a.Immutable = true
	_, err = OpenFolder(dir)
	require.ErrorIs(t, err, ErrUnsealed)
	require.ErrorContains(t, err, dir)

	full := filepath.Join(dir, "full")
	require.NoError(t, FillFolder(full, "checkpoint 7", []File{a, b}))
	seal, err := ReadSeal(full)
	require.NoError(t, err)
	require.Equal(t, "checkpoint 7", seal.Label)
	require.Len(t, seal.Files, 2)
	fresh, err = OpenFolder(full)
	require.NoError(t, err)
	require.False(t, fresh)
	// It is in use now: the next process must not take it.
	_, err = OpenFolder(full)
	require.ErrorIs(t, err, ErrUnsealed)

	damage := map[string]func(dir string) error{
		"missing": func(dir string) error { return os.Remove(filepath.Join(dir, "a")) },
		"shorter": func(dir string) error { return os.Truncate(filepath.Join(dir, "a"), 1) },
		"changed": func(dir string) error { return os.WriteFile(filepath.Join(dir, "b"), []byte("owt"), 0o600) },
		"seal":    func(dir string) error { return os.Truncate(filepath.Join(dir, SealName), 40) },
	}
	for _, name := range []string{"missing", "shorter", "changed", "seal"} {
		to := filepath.Join(dir, name)
		require.NoError(t, FillFolder(to, "", []File{a, b}))
		if name == "shorter" { // not through the link
			require.NoError(t, os.Remove(filepath.Join(to, "a")))
			write(t, to, "a", "one")
		}
		require.NoError(t, damage[name](to))
		_, err = OpenFolder(to)
		require.ErrorIs(t, err, ErrCorrupted, name)
	}

	b.Size++
	require.ErrorIs(t, FillFolder(filepath.Join(dir, "short"), "", []File{b}), ErrCorrupted)
	require.NoFileExists(t, filepath.Join(dir, "short", SealName))
	b.Name = "../b"
	require.ErrorIs(t, FillFolder(filepath.Join(dir, "escape"), "", []File{b}), ErrCorrupted)
}

func TestSealOfAnEarlierBootIsVoid(t *testing.T) {
	dir := t.TempDir()
	b, err := encodeSeal(Seal{Boot: "another", Files: []SealedFile{}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, SealName), b, 0o600))
	_, err = ReadSeal(dir)
	require.ErrorIs(t, err, ErrUnsealed)
}

func TestLockDir(t *testing.T) {
	if path := os.Getenv("STATE_LOCK"); path != "" {
		_, err := LockDir(path, "app")
		fmt.Println(err)
		return
	}
	dir := filepath.Join(t.TempDir(), "state")
	l, err := LockDir(dir, "app")
	require.NoError(t, err)
	require.Equal(t, dir, l.Dir())

	_, err = LockDir(dir, "app") // not twice in one process either
	require.ErrorIs(t, err, ErrLocked)
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockDir$")
	cmd.Env = append(os.Environ(), "STATE_LOCK="+dir)
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), ErrLocked.Error())
	require.Contains(t, string(out), dir)
	require.Contains(t, string(out), fmt.Sprintf("process %d holds", os.Getpid()))

	require.NoError(t, l.Close())
	l, err = LockDir(dir, "app")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = LockDir(dir, "other")
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorContains(t, err, `"app"`)

	home := t.TempDir()
	write(t, home, "letter", "")
	_, err = LockDir(home, "app")
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorContains(t, err, "letter")
	require.NoError(t, os.WriteFile(filepath.Join(dir, ownerName), []byte("{"), 0o600))
	_, err = LockDir(dir, "app")
	require.ErrorIs(t, err, ErrCorrupted)
}

func TestWrapKnowsAFullDisk(t *testing.T) {
	err := Wrap("/some/dir", fmt.Errorf("write: %w", &os.PathError{Op: "write", Err: syscall.ENOSPC}))
	require.ErrorIs(t, err, ErrDiskFull)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.True(t, strings.Contains(err.Error(), "/some/dir"))
	require.Equal(t, err, Wrap("/other", err))
	other := errors.New("other")
	require.Equal(t, other, Wrap("/some/dir", other))
	require.NoError(t, Wrap("/some/dir", nil))
}

func FuzzDecodeSeal(f *testing.F) {
	b, _ := encodeSeal(Seal{Label: "l", Boot: "b", Files: []SealedFile{{Name: "a", Size: 3, Sum: "00000000"}}})
	f.Add(b)
	f.Add([]byte("tidegate-seal 2 00000000\n{}"))
	f.Add([]byte("tidegate-seal 1 zz"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeSeal(b)
		if err != nil {
			return
		}
		again, err := encodeSeal(s)
		require.NoError(t, err)
		s2, err := decodeSeal(again)
		require.NoError(t, err)
		require.Equal(t, s, s2)
	})
}

func FuzzDecodeOwner(f *testing.F) {
	f.Add([]byte(`{"version":1,"application":"a"}`))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = decodeOwner(b) })
}

func FuzzSplitStart(f *testing.F) {
	f.Add(appendStart(nil, -1))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		start, key, err := splitStart(b)
		if err == nil {
			require.Equal(t, b, append(appendStart(nil, start), key...))
		}
	})
}
