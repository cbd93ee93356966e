package barrier

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// Machine is the protocol of one instance: the fold of the control log, the
// participant, and, while it leads, the coordinator. It is pure: Step is its
// only input, the returned effects its only output.
//
//	events ──▶ Step ──▶ observe: fold the record, note the answer
//	                    act:     participant, then coordinator: what is due?
//	                    append:  nothing of ours in flight? the next wanted record
//	                 ──▶ effects
//
// Records and effects are derived from the state (what does the log say, what
// is still missing?) rather than queued when something happens. So a record
// that the log voided is not repeated unless it is still wanted, and a new
// coordinator goes on from whatever it finds (R2).
//
// Invariants:
//
//	M1  At most one own record is in flight; it is repeated, with its number,
//	    until it is read back (R1).
//	M2  Nothing is done because of an own record before it is read back (R1).
//	M3  Tasks run only as the incarnation of the latest valid Start or handover
//	    for them (R4).
//	M4  After DoFatal, DoBecomeNew or DoExit there is no further effect.
type Machine struct {
	cfg Config
	log *Log
	now int64
	out []Effect

	ended bool
	err   error
	state State

	// The log.
	opened   bool
	openEnd  int64 // end of the log when it was opened
	caughtUp bool
	lastRead int64          // when the log was last known to be readable
	readUp   bool           // read to an end since the group was left for not reading
	seek     *seeker        // while a trimmed log is read up to its Snapshot
	bytes    int64          // of the log since the last Snapshot
	snaps    []readSnapshot // complete ones, by when they were read

	// The record in flight (M1).
	seq      uint64
	inflight *Record
	firstAt  int64
	retryAt  int64
	void     [32]int64 // per kind: not again before this time, after a void one

	// The group.
	joined        bool
	joinedLeaving bool
	gen           *EvGeneration
	provenAt      int64 // send time of the last request that proves membership
	foreignLead   bool
	foreignLeadAt int64 // when a Lead of another was read last (R2)

	part  participant
	coord coordinator
}

// voidBackOff is how long a record kind rests after a void one, in
// milliseconds. It only bounds the damage of a disagreement: normally the
// reason is gone with the record that voided it.
const voidBackOff = 100

// NewMachine returns the machine of one instance. It fails when settings
// contradict each other (R22).
func NewMachine(cfg Config) (*Machine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Machine{cfg: cfg, log: NewLog(cfg.Rules)}, nil
}

// Step takes one event at the monotonic time now (milliseconds, never falling)
// and returns what the shell has to do, in order. The slice is valid until the
// next Step.
func (m *Machine) Step(now int64, ev Event) []Effect {
	m.out = m.out[:0]
	if m.ended {
		return nil
	}
	m.now = max(m.now, now)
	m.observe(ev)
	if !m.ended && m.caughtUp {
		m.guard()
	}
	if !m.ended && m.caughtUp {
		m.part.act(m)
	}
	if !m.ended && m.caughtUp {
		m.coord.act(m)
	}
	if !m.ended {
		m.appendNext()
	}
	return m.out
}

func (m *Machine) do(e Effect) { m.out = append(m.out, e) }

// observe takes in an event; it decides nothing but the end of the instance.
func (m *Machine) observe(ev Event) {
	switch e := ev.(type) {
	case EvLogOpened:
		m.open(e)
	case EvRecord:
		m.read(e)
	case EvLogRead:
		m.lastRead, m.readUp = m.now, true
		m.noteCaughtUp()
	case EvLogTrimmed:
		// What it missed may be the decision about what its ack lists: nothing
		// but what no ack lists is aborted.
		m.ended = true
		m.do(DoBecomeNew{Reason: fmt.Sprintf("the control log was trimmed to offset %d before this instance had read that far", e.Start)})
	case EvLogLost:
		m.fatal(fmt.Errorf("the control log lost records (%s): this application's history is damaged: restore the topic from a backup, or see with tidegate repair --application %s from which checkpoint a new one can go on", e.Detail, m.cfg.App))
	case EvGeneration:
		e.Members, e.Tasks, e.Warm = slices.Clone(e.Members), NewTaskSet(e.Tasks...), NewTaskSet(e.Warm...)
		slices.SortFunc(e.Members, ids.InstanceID.Compare)
		m.gen, m.provenAt = &e, max(m.provenAt, e.SentAt)
	case EvHeartbeat:
		if m.gen != nil && m.gen.Generation == e.Generation {
			m.provenAt = max(m.provenAt, e.SentAt)
		}
	case EvAppendFailed:
		if m.inflight != nil && m.inflight.Seq == e.Seq {
			m.retryAt = min(m.retryAt, m.now+voidBackOff)
		}
	case EvRestore:
		m.part.restore = &e
	case EvShutdown:
		m.part.shutdown(m)
	default:
		if !m.part.observe(m, ev) {
			m.coord.observe(m, ev)
		}
	}
}

func (m *Machine) open(e EvLogOpened) {
	m.opened, m.openEnd, m.lastRead, m.readUp = true, e.End, m.now, true
	if e.Start != 0 {
		m.seek = &seeker{rules: m.cfg.Rules, start: e.Start}
		m.judgeSeek()
	}
	m.noteCaughtUp()
}

// judgeSeek ends the instance when a log that was trimmed holds no Snapshot: it
// was appended before the log was trimmed, so it is below the end.
func (m *Machine) judgeSeek() {
	if s := m.seek; s != nil && s.end() >= m.openEnd {
		m.fatal(fmt.Errorf("the control log begins at offset %d, and up to offset %d no snapshot says what was before: somebody deleted records, or its retention is not unlimited; restore the topic from a backup, or start again from a marked checkpoint with tidegate repair", s.start, m.openEnd))
	}
}

// seekOn looks for the Snapshot from which a trimmed log is read.
func (m *Machine) seekOn(e EvRecord) {
	log, rest, err := m.seek.next(e)
	switch {
	case err != nil:
		m.fatal(err)
	case log != nil:
		m.log, m.seek = log, nil
		for _, r := range rest {
			if !m.ended {
				m.read(r)
			}
		}
	default:
		m.judgeSeek()
	}
}

func (m *Machine) noteCaughtUp() {
	if m.opened && m.log.haveLife && m.log.end >= m.openEnd {
		m.caughtUp = true
	}
}

// read folds a record and lets both roles see what it changed.
func (m *Machine) read(e EvRecord) {
	if m.seek != nil {
		m.lastRead = m.now
		m.seekOn(e)
		return
	}
	before := m.log.end
	out, err := m.log.Apply(e.Offset, e.Record)
	if err != nil {
		m.fatal(err)
		return
	}
	m.lastRead = m.now
	if m.log.end == before {
		return // read before
	}
	sent := int64(-1)
	if f := m.inflight; f != nil && e.Record.Instance == m.cfg.Self && e.Record.Seq == f.Seq {
		sent, m.inflight = m.firstAt, nil
		if !out.Valid() {
			m.void[f.Body.Kind()] = m.now + voidBackOff
		}
	}
	m.noteCaughtUp()
	m.bytes += int64(e.Size)
	if !out.Valid() {
		return
	}
	if m.log.trim.at == e.Offset && m.log.trim.upTo > 0 {
		m.bytes = 0
		m.noteSnapshot()
	}
	if _, ok := e.Record.Body.(Lead); ok && e.Record.Instance != m.cfg.Self {
		m.foreignLead, m.foreignLeadAt = true, m.now
	}
	m.part.onRecord(m, e, out)
	if !m.ended {
		m.coord.onRecord(m, e, out, sent)
	}
}

// guard ends the instance, or parts it from the group, where it can not go on.
func (m *Machine) guard() {
	if s := m.log.start; s != nil && s.rec.Fingerprint != m.cfg.Fingerprint {
		m.fatal(m.otherTopology(s.rec.Fingerprint))
		return
	}
	if lead := m.log.find(m.log.leader); lead != nil && lead.id != m.cfg.Self && m.gen != nil &&
		m.log.assignedIn(lead, m.gen.Generation) && lead.assigned.Fingerprint != m.cfg.Fingerprint {
		m.fatal(m.otherTopology(lead.assigned.Fingerprint))
		return
	}
	stalled := m.now-m.lastRead > m.cfg.SessionTimeout
	switch {
	case m.joined && stalled: // R26
		m.joined, m.gen, m.readUp = false, nil, false
		m.do(DoLeaveGroup{})
	case !m.joined && !stalled && m.readUp && m.registered() && !m.part.gone:
		m.joined = true
		m.do(DoJoinGroup{Leaving: m.joinedLeaving})
	}
}

func (m *Machine) otherTopology(other string) error {
	e := &TopologyError{App: m.cfg.App, Theirs: other, Ours: m.cfg.Fingerprint}
	if n := len(m.log.completed); n > 0 {
		e.Last = m.log.completed[n-1].ref
	}
	return e
}

// TopologyError says that the application's history, or its running instances,
// belong to another topology.
type TopologyError struct {
	App, Theirs, Ours string // fingerprints
	// Last is the last completed checkpoint, whose manifest names the operators;
	// the zero value when there is none.
	Last CheckpointRef
}

// Error says what to do.
func (e *TopologyError) Error() string {
	return fmt.Sprintf("application %q runs with another topology (fingerprint %s, this program's is %s): stop all its instances first; to go on from its last checkpoint with a changed topology, then run tidegate upgrade --application %s, which says how; or start it under another application id", e.App, e.Theirs, e.Ours, e.App)
}

// self returns what the fold knows of this instance, or nil.
func (m *Machine) self() *instance { return m.log.find(m.cfg.Self) }

func (m *Machine) registered() bool { return m.self() != nil }

// appendNext repeats the record in flight when it is due, or appends the next
// wanted one (M1).
func (m *Machine) appendNext() {
	if m.inflight != nil {
		if m.now < m.retryAt {
			return
		}
		if _, decision := m.inflight.Body.(Complete); !decision || !m.coord.tooOld(m) {
			m.send()
			return
		}
		// R22 was checked when it was made, and this machine slept since: it is
		// not repeated. A copy on its way counts if it comes before the Rollback
		// that is wanted now, and is void behind it, by its number as well.
		m.inflight = nil
	}
	body := m.next()
	if body == nil {
		return
	}
	m.seq++
	m.inflight = &Record{Instance: m.cfg.Self, Seq: m.seq, Body: body}
	m.firstAt = m.now
	m.send()
}

func (m *Machine) send() {
	m.retryAt = m.now + m.cfg.AppendRetry
	m.do(DoAppend{Record: *m.inflight})
}

// next returns the record that is wanted most, or nil.
func (m *Machine) next() Body {
	if !m.opened {
		return nil
	}
	if !m.log.haveLife {
		if m.openEnd == 0 {
			return Life{Life: m.cfg.NewLife}
		}
		return nil
	}
	if !m.caughtUp || m.part.gone {
		return nil
	}
	if !m.registered() {
		if m.now < m.void[KindRegister] {
			return nil
		}
		return Register{TxnIDs: m.part.ids(m)}
	}
	for _, want := range []func(*Machine) Body{m.part.want, m.coord.want} {
		if body := want(m); body != nil && m.now >= m.void[body.Kind()] {
			return body
		}
	}
	return nil
}

// fatal ends the instance with an error.
func (m *Machine) fatal(err error) {
	if m.ended {
		return
	}
	m.ended, m.err = true, err
	m.setState(StateFailed)
	m.do(DoFatal{Err: err})
}

func (m *Machine) setState(s State) {
	if m.state != s {
		m.state = s
		m.do(DoState{State: s})
	}
}

// LogEnd is the position in the control log: the offset behind the last record
// that was read. After each Step the shell hands it to the tasks' aligners
// (Aligner.SetLog), after the effects of that Step.
func (m *Machine) LogEnd() int64 { return m.log.end }

// Log returns the fold, for reports; the caller must not keep it across a Step.
func (m *Machine) Log() *Log { return m.log }

// Life returns the life, and false while it is unknown.
func (m *Machine) Life() (ids.Life, bool) { return m.log.life, m.log.haveLife }

// State returns the instance's state.
func (m *Machine) State() State { return m.state }

// Restoring returns the tasks of this instance that do not run yet, or not again.
func (m *Machine) Restoring() TaskSet { return m.part.tasks.Minus(m.part.running) }

// Leading reports whether this instance is the coordinator.
func (m *Machine) Leading() bool { return m.coord.leading(m) }

// Ended reports whether the machine ended, and the error if it failed.
func (m *Machine) Ended() (bool, error) { return m.ended, m.err }

// errNoTasks says that Config.Tasks is empty.
var errNoTasks = errors.New("the topology has no task")
