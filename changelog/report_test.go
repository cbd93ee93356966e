package changelog

import (
	"errors"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/restart"
)

// While failed tasks wait for their next start, nothing runs, and the report says
// so; what fails beside them is part of the same failure.
func TestReportBetweenStarts(t *testing.T) {
	self := ids.InstanceID{Name: "a"}
	m := NewMachine(Config{Self: self, Interval: 10, IdleInterval: 10, Restart: restart.FixedDelay(1, time.Second)})
	state, setbacks := Joining, 0
	var runs []TaskRun
	step := func(now int64, ev Event) {
		t.Helper()
		for _, e := range m.Step(now, ev) {
			switch e := e.(type) {
			case DoStart:
				runs = e.Tasks
			case DoReport:
				state = e.State
			case DoSetback:
				setbacks++
			}
		}
	}
	expect := func(want Condition) {
		t.Helper()
		if state != want {
			t.Fatalf("condition %d, want %d", state, want)
		}
	}
	step(0, EvAssigned{Member: "m", Generation: 1, Tasks: []ids.TaskID{{Partition: 0}, {Partition: 1}}, Instances: []ids.InstanceID{self}})
	expect(Restoring)
	for _, r := range runs {
		step(1, EvRunning{r})
	}
	expect(Running)
	failed := errors.New("failed")
	step(2, EvFailed{failed})
	step(2, EvFailed{failed}) // the other task
	for _, r := range runs {
		step(3, EvClosed{r})
		expect(Restoring)
		step(3, EvFailed{failed})
	}
	if setbacks != 1 {
		t.Fatalf("%d setbacks, want 1", setbacks)
	}
	step(1500, EvTick{})
	for _, r := range runs {
		expect(Restoring)
		step(1501, EvRunning{r})
	}
	expect(Running)
	step(1502, EvFailed{failed})
	if setbacks != 2 {
		t.Fatalf("%d setbacks, want 2", setbacks)
	}
	expect(Stopping) // one restart is allowed
}
