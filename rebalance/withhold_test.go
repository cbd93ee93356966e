package rebalance

import (
	"reflect"
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
)

func TestWithhold(t *testing.T) {
	a, b := ids.InstanceID{Name: "a"}, ids.InstanceID{Name: "b"}
	t0, t1, t2 := ids.TaskID{}, ids.TaskID{Partition: 1}, ids.TaskID{Partition: 2}
	members := []Member{{Instance: a, Owned: []ids.TaskID{t0, t1}, Generation: 3}, {Instance: b, Owned: []ids.TaskID{t1}, Generation: 4}}
	plan := []Placement{{Instance: a, Tasks: []ids.TaskID{t0, t2}}, {Instance: b, Tasks: []ids.TaskID{t1}}}
	// t1 stays with nobody while two say that they have it; nobody has t2.
	want := []Placement{{Instance: a, Tasks: []ids.TaskID{t0, t2}}, {Instance: b}}
	if got := Withhold(members, plan); !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
}
