package changelog_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tidegate/tidegate/changelog"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/state/memory"
)

// An input that serves as changelog is restored up to the task's offset, also in
// the middle of a batch, by the rows that its records make; nothing is written
// to it.
func TestRestoreFromSource(t *testing.T) {
	b := newBench(t)
	b.transaction("t", "a", 10, "commit") // offsets 0 to 9, a marker
	b.transaction("t", "x", 10, "abort")
	b.transaction("t", "b", 10, "commit") // 22 to 31, a marker
	m, err := memory.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	e, err := changelog.NewEngine(m, []changelog.StoreSpec{{Name: "s", Changelog: b.tp, FromSource: func(r *record.Raw) (key, value []byte, ok bool) {
		calls++
		if bytes.Equal(r.Key, []byte("key009")) {
			return nil, nil, false
		}
		if bytes.Equal(r.Key, []byte("key008")) && string(r.Value) == "b" {
			return append([]byte("row-"), r.Key...), nil, true
		}
		return append([]byte("row-"), r.Key...), append([]byte("at "), r.Value...), true
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	kv, err := e.Store("s")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		end, position int64
		called        int
		b             int // keys below have the value of the third transaction
		rows          int
	}{
		{0, 0, 0, 0, 0}, {4, 4, 4, 0, 4}, {4, 4, 0, 0, 4}, {25, 25, 6 + 3, 3, 9}, {33, 33, 7, 10, 8},
	} {
		calls = 0
		if _, err := e.Restore(b.ctx(), b.f, map[string]changelog.Bounds{"s": {End: step.end}}); err != nil {
			t.Fatal(err)
		}
		p, _, err := e.Position("s")
		if err != nil || p.Next != step.position || calls != step.called {
			t.Errorf("to %d: position %d, %d records, want %d and %d: %v", step.end, p.Next, calls, step.position, step.called, err)
		}
		rows := 0
		it := kv.Scan(nil, nil, false)
		for ; it.Next(); rows++ {
			want := "at a"
			if string(it.Key()) < fmt.Sprintf("row-key%03d", step.b) {
				want = "at b"
			}
			if string(it.Value()) != want {
				t.Errorf("to %d: %s is %q, want %q", step.end, it.Key(), it.Value(), want)
			}
		}
		if err := it.Close(); err != nil || rows != step.rows {
			t.Errorf("to %d: %d rows, want %d: %v", step.end, rows, step.rows, err)
		}
	}
	// The engine has no log: a record written to one would panic.
	if err := kv.Set([]byte("k"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := kv.DeleteRange([]byte("row-key000"), []byte("row-key005")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Snapshot(""); err != nil {
		t.Fatal(err)
	}
	if err := e.Apply(map[string]int64{"s": 40}); err != nil {
		t.Fatal(err)
	}
	if p, _, err := e.Position("s"); err != nil || p.Next != 40 {
		t.Errorf("position %d: %v", p.Next, err)
	}
}
