package barrier

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// coordinator is the part of a Machine that the instance plays to which the
// newest group generation gives task 0_0, while its Lead is the latest (R2).
//
// What it does next follows from the log alone, so a new one goes on where the
// last one stopped:
//
//	claim ─▶ count the generation ─▶ nothing completed? look for loss, checkpoint 0
//	                                        │
//	   ┌────────────────────────────────────┘
//	   ▼
//	commit what is decided ─▶ must tasks start? ── no ─▶ Trigger, acks, manifest, Complete
//	   ▲                          │ yes                        │ failed, lost (a changed
//	   │                          │                            │ assignment moves tasks
//	   │                          │                            │ with a Complete: moving)
//	   │                          ▼                            ▼
//	   │                       Rollback ─▶ commit ─▶ fence ─▶ offsets ─▶ Start
//	   └──────────────────────────────────────────────────────────────────┘
//
// What it remembers beside the log is what it has asked for in this term.
type coordinator struct {
	term        int64
	since       int64 // when the own Lead was read back
	completedAt int64 // when the last Complete was read
	startedAt   int64 // when the last Start was read

	countedGen int32 // the generation that is counted …
	countedAt  int64 // … since then; -1: not counted

	lookAsked, lookDone bool   // R24 step 3
	evidence            string // of a loss; judged when the log was read to lookEnd
	lookEnd             int64
	zeroAsked           bool   // R24 step 4
	zeroKey             string // of checkpoint 0's manifest

	commits []takeover // transactions committed for others

	attempt  int64            // the Rollback (offset) that the following belongs to
	fenceAsk []ids.InstanceID // R27
	fenced   []ids.InstanceID // answered, in any attempt of this term
	offsets  offsetsState     // R28
	suspects []ids.InstanceID // to be named dead with the next Rollback (R26)
	moving   moving           // R25
	took     int64            // Trigger to Complete of the last checkpoint of this term
	trigger  int64            // when the last Trigger was appended
	manifest manifestState    // of the undecided checkpoint
	marked   ids.CheckpointID // last one marked in this term; -1: none
	markAsk  ids.CheckpointID // last one asked for; -1: none
	cleaned  ids.CheckpointID // last completed one when cleaning was asked for; -1: none
	cleaning bool
	snap     snapshotting
}

// takeover is a DoCommit for another instance.
type takeover struct {
	n     ids.CheckpointID
	owner ids.InstanceID
	done  bool
}

// offsetsState is R28's check before a Start.
type offsetsState struct {
	asked, done bool
	n           ids.CheckpointID
	write       bool
	refusal     string // judged when the log was read to logEnd
	logEnd      int64
}

// manifestState is R17's put of a manifest.
type manifestState struct {
	n      ids.CheckpointID
	asked  bool
	key    string
	failed string
}

// takeLead begins a term of this instance.
func (c *coordinator) takeLead(m *Machine, term int64) {
	*c = coordinator{
		term: term, since: m.now, countedAt: -1, attempt: -1, moving: moving{since: -1}, trigger: m.now,
		marked: ids.NoCheckpoint, markAsk: ids.NoCheckpoint, cleaned: ids.NoCheckpoint,
	}
}

// candidate reports whether the newest generation makes this instance the
// coordinator (R2).
func (c *coordinator) candidate(m *Machine) bool {
	return m.gen != nil && m.gen.Tasks.Contains(ids.TaskID{}) && m.registered()
}

// leading reports whether this instance acts as the coordinator.
func (c *coordinator) leading(m *Machine) bool {
	return c.candidate(m) && c.term > 0 && m.log.leads(m.cfg.Self, c.term)
}

// claiming reports whether this instance should write Lead now. Having read
// another's Lead it waits for proof that it is still in the group: the group
// answered a request that was sent after that (R2).
func (c *coordinator) claiming(m *Machine) bool {
	if !c.candidate(m) || c.leading(m) {
		return false
	}
	return !m.foreignLead || m.provenAt > m.foreignLeadAt || m.cfg.Rules.SkipR2
}

// observe takes in an answer.
func (c *coordinator) observe(m *Machine, ev Event) {
	switch e := ev.(type) {
	case EvLossLooked:
		if c.lookAsked && !c.lookDone {
			c.lookDone, c.evidence, c.lookEnd = e.Evidence == "", e.Evidence, e.LogEnd
		}
	case EvZeroStored:
		if e.Term == c.term {
			c.zeroKey = e.Key
		}
	case EvCommitted:
		for i := range c.commits {
			if t := &c.commits[i]; t.n == e.N && t.owner == e.Owner {
				t.done = true
			}
		}
	case EvFenced:
		if slices.Contains(c.fenceAsk, e.Instance) {
			c.fenced = append(c.fenced, e.Instance)
		}
	case EvOffsetsChecked:
		// Once done, a Start may be on its way: an answer to an earlier asking
		// may then see offsets that came later.
		if o := &c.offsets; o.asked && !o.done && !o.write && o.n == e.N {
			o.done, o.refusal, o.logEnd = e.Refusal == "", e.Refusal, e.LogEnd
		}
	case EvOffsetsWritten:
		if c.offsets.asked && c.offsets.write && c.offsets.n == e.N {
			c.offsets.done = true
		}
	case EvManifestStored:
		if e.Term == c.term && e.N == c.manifest.n {
			c.manifest.key = e.Key
		}
	case EvManifestFailed:
		if e.Term == c.term && e.N == c.manifest.n {
			c.manifest.failed = e.Detail
		}
	case EvMarked:
		c.marked = max(c.marked, e.N)
	case EvCleaned:
		c.cleaning = false
	}
}

// onRecord reacts to a valid record. sent is when the own record was first
// appended, -1 for records of others.
func (c *coordinator) onRecord(m *Machine, e EvRecord, out Outcome, sent int64) {
	switch b := e.Record.Body.(type) {
	case Lead:
		if e.Record.Instance == m.cfg.Self {
			c.takeLead(m, b.Term)
			if len(out.Aborted) > 0 {
				// Output waits for what this Lead aborted: not another interval.
				c.trigger -= m.cfg.Interval
			}
		}
	case Trigger:
		if sent >= 0 {
			c.trigger = sent
		}
	case Complete:
		c.completedAt, c.took = m.now, m.now-c.trigger
	case Start:
		c.moving.since, c.suspects, c.trigger, c.startedAt = -1, nil, m.now, m.now
		if m.log.last().ref.N > 0 {
			c.hurry(m)
		}
	case Running:
		if s := m.log.start; len(s.fresh) > 0 && s.allRun() && m.log.last().ref.N > 0 {
			c.hurry(m)
		}
	case Restore:
		c.marked, c.markAsk = ids.NoCheckpoint, ids.NoCheckpoint
	}
}

// hurry lets the next checkpoint come soon: output has waited since a failure. Not
// another interval, only so long that what starts has something to show.
func (c *coordinator) hurry(m *Machine) {
	c.trigger = min(c.trigger, m.now-(m.cfg.Interval-m.cfg.Interval/5))
}

// count notes whether the newest generation is counted, and since when.
func (c *coordinator) count(m *Machine) {
	members, _, fingerprint, ok := m.log.counted(m.gen.Generation)
	if !ok || fingerprint != m.cfg.Fingerprint || !slices.Equal(members, m.gen.Members) {
		c.countedAt = -1
		return
	}
	if c.countedAt < 0 || c.countedGen != m.gen.Generation {
		c.countedGen, c.countedAt = m.gen.Generation, m.now
	}
}

// counted reports whether the newest generation is counted and settled (R24
// step 2).
func (c *coordinator) counted(m *Machine) bool {
	return c.countedAt >= 0 && m.now-c.countedAt >= m.cfg.Settle
}

// act asks for what has to be done outside the log.
func (c *coordinator) act(m *Machine) {
	if !c.leading(m) {
		if c.offsets.write && !c.offsets.done {
			// The shell gives up a refused write of who does not lead: a
			// generation later the same term may lead again and must ask anew.
			c.offsets = offsetsState{}
		}
		return
	}
	c.count(m)
	c.planMoves(m)
	last := m.log.last()
	if last == nil {
		c.askZero(m)
		return
	}
	if c.judgeOffsets(m, last); m.ended {
		return
	}
	c.askCommits(m, last)
	c.tidy(m, last)
	if c.counted(m) && c.coveredOrFirst(m) && last.fullyCommitted() && !m.allLeaving() {
		c.askFence(m)
		if c.allFenced(m) {
			c.askOffsets(m, last)
		}
	}
	c.askManifest(m)
	c.trim(m)
}

// want returns the record this role wants most.
func (c *coordinator) want(m *Machine) Body {
	if c.claiming(m) {
		return Lead{Term: m.log.term + 1}
	}
	if !c.leading(m) {
		return nil
	}
	last := m.log.last()
	if last == nil {
		if c.zeroKey != "" && c.counted(m) {
			return Complete{Term: c.term, N: 0, Manifest: c.zeroKey}
		}
		return nil
	}
	if body := c.wantCommitted(last); body != nil {
		return body
	}
	if c.counted(m) {
		if reason := c.mustRollBack(m); reason != "" {
			return c.rollback(m, reason)
		}
		if body := c.wantStart(m, last); body != nil {
			return body
		}
	}
	if body := c.wantDecision(m, last); body != nil {
		return body
	}
	if body := c.wantTrigger(m); body != nil {
		return body
	}
	if body := c.wantTidy(m, last); body != nil {
		return body
	}
	return c.wantSnapshot(m)
}
