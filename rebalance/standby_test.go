package rebalance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
)

// Followers are spread, do not depend on the order of members, and stay where
// they are when a member goes.
func TestFollowers(t *testing.T) {
	var members []ids.InstanceID
	for i := range 5 {
		members = append(members, ids.InstanceID{Name: fmt.Sprintf("i%d", i), Rand: uint64(i)})
	}
	counts := map[string]int{}
	for p := range int32(200) {
		task := ids.TaskID{Sub: 1, Partition: p}
		got := Followers(members, task, 1)
		if len(got) != 2 || got[0] == got[1] {
			t.Fatalf("followers %v", got)
		}
		turned := slices.Clone(members)
		slices.Reverse(turned)
		if !slices.Equal(got, Followers(turned, task, 1)) {
			t.Fatalf("the order of members changes the followers of %s", task)
		}
		fewer := slices.DeleteFunc(slices.Clone(members), func(m ids.InstanceID) bool { return m.Name == "i3" })
		after := Followers(fewer, task, 1)
		for _, m := range got {
			counts[m.Name]++
			if m.Name != "i3" && !slices.Contains(after, m) {
				t.Fatalf("%s no longer follows %s though it is still there", m, task)
			}
		}
	}
	for name, n := range counts {
		if n < 40 || n > 130 {
			t.Errorf("%s follows %d of 200 tasks twice over", name, n)
		}
	}
	if got := Followers(members[:1], ids.TaskID{}, 3); len(got) != 1 {
		t.Errorf("one member alone: %v", got)
	}
	if got := Followers(members, ids.TaskID{}, 0); got != nil {
		t.Errorf("no standbys: %v", got)
	}
}

// The task of a lost member goes to one that follows it.
func TestPlanPrefersFollowers(t *testing.T) {
	a, b, c := ids.InstanceID{Name: "a"}, ids.InstanceID{Name: "b"}, ids.InstanceID{Name: "c"}
	var work []Task
	for p := range int32(6) {
		work = append(work, Task{ID: ids.TaskID{Partition: p}, Prefer: []ids.InstanceID{a, []ids.InstanceID{b, c}[p%2]}})
	}
	own := func(ps ...int32) (out []ids.TaskID) {
		for _, p := range ps {
			out = append(out, ids.TaskID{Partition: p})
		}
		return out
	}
	plan, err := Plan([]Member{{Instance: b, Owned: own(2, 4)}, {Instance: c, Owned: own(3, 5)}}, work)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plan {
		for _, task := range p.Tasks {
			if want := []ids.InstanceID{b, c}[task.Partition%2]; p.Instance != want {
				t.Errorf("task %s is on %s, its follower is %s", task, p.Instance, want)
			}
		}
	}
}
