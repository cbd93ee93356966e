package pebblestore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidegate/tidegate/state/pebblestore"
)

// copyAsKilled copies a folder that is in use, as a kill of its process would
// leave it. Files that go while it copies are left out.
func copyAsKilled(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if b, err := os.ReadFile(filepath.Join(from, e.Name())); err == nil {
			if err := os.WriteFile(filepath.Join(to, e.Name()), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return to
}

// A kept folder holds a prefix of what was written: with entry n everything
// before n, and after Flush all of it.
func TestKept(t *testing.T) {
	shared := pebblestore.NewShared(pebblestore.SharedOptions{})
	defer shared.Close()
	dir := t.TempDir()
	e, err := pebblestore.Open(shared, dir, pebblestore.Options{Memtable: 1 << 20, Kept: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	kv, err := e.Store("s")
	if err != nil {
		t.Fatal(err)
	}
	const n = 40000
	value := make([]byte, 100)
	for i := range n {
		if err := kv.Set(fmt.Appendf(nil, "%08d", i), value); err != nil {
			t.Fatal(err)
		}
	}
	check := func(dir string, whole bool) {
		t.Helper()
		e, err := pebblestore.Open(shared, dir, pebblestore.Options{Kept: true})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		kv, err := e.Store("s")
		if err != nil {
			t.Fatal(err)
		}
		it := kv.Scan(nil, nil, false)
		defer it.Close()
		have := 0
		for ; it.Next(); have++ {
			if want := fmt.Sprintf("%08d", have); string(it.Key()) != want {
				t.Fatalf("entry %s where %s was expected: not a prefix", it.Key(), want)
			}
		}
		if whole && have != n || !whole && have == 0 {
			t.Fatalf("%d entries of %d", have, n)
		}
	}
	check(copyAsKilled(t, dir), false)
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	check(copyAsKilled(t, dir), true)
	if _, err := pebblestore.Open(shared, copyAsKilled(t, dir), pebblestore.Options{}); err == nil {
		t.Fatal("opened without a seal")
	}
}
