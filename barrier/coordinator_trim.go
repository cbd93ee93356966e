package barrier

import "slices"

// snapshotting is a Snapshot that this coordinator writes, and how far it had
// the log trimmed in this term.
type snapshotting struct {
	upTo    int64
	parts   [][]byte // nil: none in the making
	trimmed int64
}

// wantSnapshot writes the fold once the log has grown enough since the last
// Snapshot. Nothing is more urgent than that, and nothing waits for it.
func (c *coordinator) wantSnapshot(m *Machine) Body {
	l, s := m.log, &c.snap
	if m.cfg.SnapshotRecords < 0 {
		return nil
	}
	if s.parts != nil && s.upTo <= l.trim.upTo {
		s.parts = nil // read back, or somebody was quicker
	}
	if s.parts == nil {
		if l.end-l.trim.upTo < m.cfg.SnapshotRecords && m.bytes < m.cfg.SnapshotBytes {
			return nil
		}
		s.upTo, s.parts = l.end, splitState(l.AppendState(nil), m.cfg.SnapshotPart)
	}
	next := 0
	if k := l.trim.making; k.writer == m.cfg.Self && k.term == c.term && k.upTo == s.upTo {
		next = k.next
	}
	if m.cfg.Rules.TrimUnread && next == len(s.parts)-1 {
		m.do(DoTrim{Below: s.upTo})
	}
	return Snapshot{Term: c.term, UpTo: s.upTo, Part: next, Of: len(s.parts), State: s.parts[next]}
}

// readSnapshot is a complete Snapshot and when this machine read it.
type readSnapshot struct {
	trimmable
	readAt int64
}

// noteSnapshot remembers the Snapshot that was read. Of those that are old enough
// to be trimmed to only the newest counts; others follow when their time comes, or
// a log with Snapshots in quick succession would never be trimmed.
func (m *Machine) noteSnapshot() {
	if i := m.ripe(); i > 0 {
		m.snaps = slices.Delete(m.snaps, 0, i)
	}
	m.snaps = append(m.snaps, readSnapshot{m.log.trim, m.now})
}

// ripe returns the index of the newest Snapshot that was read a session timeout
// ago; -1: none.
func (m *Machine) ripe() int {
	i := len(m.snaps) - 1
	for i >= 0 && m.now-m.snaps[i].readAt < m.cfg.SessionTimeout {
		i--
	}
	return i
}

// trim has the log trimmed to a Snapshot a session timeout after it was read: who
// has not read that far by then has not read for a session timeout and is out of
// the group by itself (R26), so that trimming drives out nobody who could go on.
func (c *coordinator) trim(m *Machine) {
	i := m.ripe()
	if i < 0 || m.snaps[i].upTo <= c.snap.trimmed {
		return
	}
	below := m.snaps[i].upTo
	c.snap.trimmed = below
	if m.cfg.Rules.TrimThere {
		below = m.snaps[i].at
	}
	m.do(DoTrim{Below: below})
}
