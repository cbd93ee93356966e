package dir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/storetest"
)

func open(t *testing.T, opts ...Option) *Store {
	t.Helper()
	s, err := New(t.TempDir(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, WithoutSync()) }, storetest.Options{})
}

func TestSynced(t *testing.T) {
	s := open(t)
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "a/b/c", checkpoint.BytesSource([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	if b, err := checkpoint.Get(t.Context(), s, "a/b/c"); err != nil || string(b) != "x" {
		t.Fatal(b, err)
	}
}

func TestCheckSaysWhatToDo(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(root, "missing", "x"): "mount the file system",
		file:                                "name a directory",
	} {
		s, err := New(path)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Check(t.Context())
		if !errors.Is(err, checkpoint.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := New(""); !errors.Is(err, checkpoint.ErrInvalid) {
		t.Error(err)
	}
	s, _ := New(filepath.Join(root, "fresh"))
	if err := s.Check(t.Context()); err != nil {
		t.Error("a directory whose parent exists is made:", err)
	}
}

func TestReadOnlyIsDenied(t *testing.T) {
	s := open(t)
	for _, cause := range []error{syscall.EACCES, syscall.EROFS} {
		err := s.failed(t.Context(), "put", "a", &fs.PathError{Op: "open", Path: "a", Err: cause})
		if !errors.Is(err, checkpoint.ErrDenied) || !strings.Contains(err.Error(), "right to read and write") {
			t.Error(err)
		}
	}
	if os.Geteuid() == 0 {
		return // permissions do not bind root; the mapping is tested above
	}
	if err := os.Chmod(s.root, 0o555); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, checkpoint.ErrDenied) {
		t.Error(err)
	}
}

// A directory that disappears (an unmounted file system) is an error, not an
// empty store.
func TestRootGone(t *testing.T) {
	s := open(t)
	if err := os.Remove(s.root); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "a", checkpoint.BytesSource(nil)); err == nil {
		t.Error("put succeeded")
	}
	if err := s.Put(t.Context(), "a/b", checkpoint.BytesSource(nil)); !errors.Is(err, checkpoint.ErrInvalid) {
		t.Error(err)
	}
	if _, err := checkpoint.Get(t.Context(), s, "a"); !errors.Is(err, checkpoint.ErrInvalid) {
		t.Error(err)
	}
	for _, err := range s.List(t.Context(), "") {
		if !errors.Is(err, checkpoint.ErrInvalid) {
			t.Error(err)
		}
	}
}

func TestTemporaryFiles(t *testing.T) {
	s := open(t, WithoutSync())
	ctx := t.Context()
	if err := s.Put(ctx, "a/b/x", checkpoint.BytesSource(nil)); err != nil {
		t.Fatal(err)
	}
	// What a killed process leaves behind.
	tmp := filepath.Join(s.root, "a", "b", ".tmp-ABC-name-1")
	if err := os.WriteFile(tmp, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := uploads(t, ctx, s, "a/"); len(got) != 1 || got[0].Key != "a/b/name-1" {
		t.Fatal(got)
	}
	if got := uploads(t, ctx, s, "b/"); len(got) != 0 {
		t.Fatal(got)
	}
	for o, err := range s.List(ctx, "") {
		if err != nil || o.Key != "a/b/x" {
			t.Error(o.Key, err)
		}
	}
	if err := s.AbortIncomplete(ctx, checkpoint.Upload{Key: "a/b/x", ID: "x"}); !errors.Is(err, checkpoint.ErrInvalid) {
		t.Error("an object was taken for a temporary file:", err)
	}
	for range 2 {
		if err := s.AbortIncomplete(ctx, checkpoint.Upload{Key: "a/b/name-1", ID: ".tmp-ABC-name-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := uploads(t, ctx, s, ""); len(got) != 0 {
		t.Fatal(got)
	}
}

func uploads(t *testing.T, ctx context.Context, s *Store, prefix string) (out []checkpoint.Upload) {
	t.Helper()
	for u, err := range s.ListIncomplete(ctx, prefix) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}

func TestExclusiveCreate(t *testing.T) {
	s := open(t)
	path := filepath.Join(s.root, "x")
	if err := s.createExclusive(path, []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := s.createExclusive(path, []byte("2")); !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
}

func TestDeleteRemovesEmptyFolders(t *testing.T) {
	s := open(t, WithoutSync())
	if err := s.Put(t.Context(), "a/b/c", checkpoint.BytesSource(nil)); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), []string{"a/b/c"}); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(s.root); err != nil || len(entries) != 0 {
		t.Fatal(entries, err)
	}
}
