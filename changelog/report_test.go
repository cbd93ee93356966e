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

// Offsets that were refused for another generation wait for it, but not for ever:
// the coordinator may have been wrong.
func TestNoOtherGeneration(t *testing.T) {
	self := ids.InstanceID{Name: "a"}
	m := NewMachine(Config{Self: self, Interval: 10, IdleInterval: 10, GenerationTimeout: 100, Restart: restart.FixedDelay(-1, time.Second)})
	var runs []TaskRun
	var setback error
	flushed, asked := false, 0
	step := func(now int64, ev Event) {
		t.Helper()
		for _, e := range m.Step(now, ev) {
			switch e := e.(type) {
			case DoStart:
				runs = e.Tasks
			case DoFlush:
				flushed = true
			case DoOffsets:
				asked++
			case DoSetback:
				setback = e.Err
			}
		}
	}
	assigned := EvAssigned{Member: "m", Generation: 1, Tasks: []ids.TaskID{{}}, Instances: []ids.InstanceID{self}}
	step(0, assigned)
	step(1, EvRunning{runs[0]})
	step(20, EvTick{Dirty: true})
	step(21, EvPassed{TaskRun: runs[0], N: 1, Moved: true})
	step(22, EvFlushed{N: 1})
	step(23, EvOffsets{N: 1, Generation: 1, Verdict: NextGeneration})
	step(122, EvTick{})
	if !flushed || asked != 1 || setback != nil {
		t.Fatalf("flushed %v, asked %d times, %v", flushed, asked, setback)
	}
	assigned.Generation = 2
	step(122, assigned)
	step(123, EvOffsets{N: 1, Generation: 2, Verdict: NextGeneration})
	step(222, EvTick{})
	if asked != 2 || setback != nil {
		t.Fatalf("asked %d times, %v", asked, setback)
	}
	step(223, EvTick{})
	if setback == nil {
		t.Fatal("it waits for ever")
	}
}
