package changelog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/state/memory"
)

// A store that rests beside a busy one does not cost the task its local state: its
// position is as good as the last commit. One that could not commit knows nothing.
func TestPositionsOfRestingStoresAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below, err := memory.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewEngine(below, []StoreSpec{
			{Name: "busy", Changelog: ids.TopicPartition{Topic: "busy"}},
			{Name: "resting", Changelog: ids.TopicPartition{Topic: "resting"}},
			{Name: "unlogged", Unlogged: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for _, spec := range e.specs[:2] {
			if err := e.setPosition(spec, 7); err != nil {
				t.Fatal(err)
			}
		}
		pass := func(next map[string]int64) {
			t.Helper()
			time.Sleep(reusableFor * 2 / 3)
			if _, err := e.Snapshot(""); err != nil {
				t.Fatal(err)
			}
			if err := e.Apply(next); err != nil {
				t.Fatal(err)
			}
		}
		usable := func() bool {
			t.Helper()
			p, ok, err := e.Position("resting")
			if err != nil || !ok || p.Next != 7 {
				t.Fatalf("position %+v %v %v", p, ok, err)
			}
			return p.Reusable(p.Topic, 0, 7, time.Now()) == ""
		}
		pass(map[string]int64{"busy": 8})
		pass(map[string]int64{"busy": 9})
		if !usable() {
			t.Fatal("the resting store's position is too old though its task committed")
		}
		pass(nil)
		pass(nil)
		if usable() {
			t.Fatal("the resting store's position is new though its task committed nothing")
		}
		if _, ok, err := e.Position("unlogged"); ok || err != nil {
			t.Fatalf("the unlogged store has a position: %v", err)
		}
	})
}
