package barrier

import "github.com/tidegate/tidegate/internal/ids"

// Machine is the protocol of one instance: the fold of the control log, the
// participant, and, while it leads, the coordinator.
type Machine struct {
	cfg Config
}

// NewMachine returns the machine of one instance. It fails when settings
// contradict each other (R22).
func NewMachine(cfg Config) (*Machine, error) { return &Machine{cfg: cfg}, nil }

// Step takes one event at the monotonic time now (milliseconds, never falling)
// and returns what the shell has to do, in order. The slice is valid until the
// next Step.
func (m *Machine) Step(now int64, ev Event) []Effect { return nil }

// LogEnd is the position in the control log: the offset behind the last record
// that was read. After each Step the shell hands it to the tasks' aligners
// (Aligner.SetLog), after the effects of that Step.
func (m *Machine) LogEnd() int64 { return 0 }

// Life returns the life, and false while it is unknown.
func (m *Machine) Life() (ids.Life, bool) { return 0, false }

// State returns the instance's state.
func (m *Machine) State() State { return StateJoining }

// Leading reports whether this instance is the coordinator.
func (m *Machine) Leading() bool { return false }
