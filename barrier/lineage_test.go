package barrier

import (
	"reflect"
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
)

// R6: a Start from n takes the lineage at n, closes its last pair at n and opens
// its own; incarnations unknown at n stay unknown.
func TestLineageRestart(t *testing.T) {
	all, some := NewTaskSet(tid(0, 0), tid(0, 1), tid(1, 0)), NewTaskSet(tid(0, 1))
	atZero := Lineages{}
	first := atZero.Restart(all, 0, 7)
	if got := first.Of(tid(1, 0)); !reflect.DeepEqual(got, Lineage{{7, ids.NoCheckpoint}}) {
		t.Errorf("first start: %v", got)
	}
	at10 := first
	second := at10.Restart(all, 10, 20)
	third := at10.Restart(all, 10, 30) // 20 never completed anything
	if got := third.Of(tid(0, 0)); !reflect.DeepEqual(got, Lineage{{7, 10}, {30, ids.NoCheckpoint}}) {
		t.Errorf("third start: %v", got)
	}
	part := second.Restart(some, 25, 40)
	if len(part.Groups) != 2 {
		t.Fatalf("groups %v", part.Groups)
	}
	if got := part.Of(tid(0, 1)); !reflect.DeepEqual(got, Lineage{{7, 10}, {20, 25}, {40, ids.NoCheckpoint}}) {
		t.Errorf("restarted task: %v", got)
	}
	if got := part.Of(tid(0, 0)); !reflect.DeepEqual(got, Lineage{{7, 10}, {20, ids.NoCheckpoint}}) {
		t.Errorf("other task: %v", got)
	}
	if got := part.Prune(20).Of(tid(0, 1)); !reflect.DeepEqual(got, Lineage{{20, 25}, {40, ids.NoCheckpoint}}) {
		t.Errorf("pruned: %v", got)
	}
	if got := first.Of(tid(0, 0)); len(got) != 1 || got[0].End != ids.NoCheckpoint {
		t.Errorf("the older lineage changed: %v", got)
	}
	if part.Of(tid(9, 9)) != nil {
		t.Error("an unknown task has a lineage")
	}
}

func TestTaskSet(t *testing.T) {
	s := NewTaskSet(tid(1, 0), tid(0, 1), tid(0, 1), tid(0, 0))
	if len(s) != 3 || !s.Contains(tid(0, 1)) || s.Contains(tid(0, 2)) {
		t.Errorf("set %v", s)
	}
	if !s.ContainsAll(NewTaskSet(tid(0, 0), tid(1, 0))) || s.ContainsAll(NewTaskSet(tid(0, 0), tid(2, 0))) || !s.ContainsAll(nil) {
		t.Error("ContainsAll")
	}
	if got := s.Minus(NewTaskSet(tid(0, 0))); !got.Equal(NewTaskSet(tid(0, 1), tid(1, 0))) {
		t.Errorf("Minus %v", got)
	}
	if got := s.Union(NewTaskSet(tid(5, 5))); len(got) != 4 || !s.Intersects(got) || s.Intersects(NewTaskSet(tid(9, 9))) {
		t.Error("Union, Intersects")
	}
}

func TestOldestAndInFlight(t *testing.T) {
	ps := []PartitionPosition{
		FirstPosition(partitionOf(0), 7),
		{Partition: partitionOf(1), Inc: 20, Passed: 30, Channels: []ChannelPosition{{Task: tid(1, 0), Inc: 10, Passed: 15}}},
	}
	if got := Oldest(ps[1:], 25); got != 10 {
		t.Errorf("oldest %d", got)
	}
	if got := Oldest(nil, 25); got != 25 {
		t.Errorf("oldest of nothing %d", got)
	}
	// Of a cycle channel nothing may have been read in several incarnations:
	// what all of them wrote is in flight. (Seed 174 of the simulation.)
	if got := Oldest(ps, 25); got != 1 {
		t.Errorf("oldest with an unread channel %d", got)
	}
	if !ps[0].InFlight(30) || ps[0].InFlight(0) {
		t.Error("in flight: an unread channel, but not in checkpoint 0")
	}
	if !ps[1].InFlight(30) || ps[1].InFlight(15) {
		t.Error("in flight: only the cycle channel")
	}
}
