package barrier

import (
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// Snapshot is part Part of Of of the fold of all valid records below UpTo, as
// Log.AppendState encodes it. When the last part was read as valid, what is
// below UpTo may be deleted at any later time: whoever begins to read then
// begins with this state (R2, trimming).
type Snapshot struct {
	Term     int64
	UpTo     int64
	Part, Of int // from 0
	State    []byte
}

// Kind implements Body.
func (Snapshot) Kind() Kind { return KindSnapshot }

// trimmable is what the fold knows of Snapshots.
type trimmable struct {
	upTo   int64 // of the last complete one; 0: none
	at     int64 // offset of its last part
	making makingSnapshot
}

// makingSnapshot is a Snapshot of which parts are missing; of 0: none.
type makingSnapshot struct {
	writer     ids.InstanceID
	term, upTo int64
	next, of   int
}

// applySnapshot takes in one part. All parts of one are of one writer and term,
// in order; another one that begins, or a new term, ends what is unfinished.
func (l *Log) applySnapshot(offset int64, in *instance, b Snapshot) string {
	t := &l.trim
	switch {
	case b.UpTo > offset || b.UpTo <= t.upTo:
		return "it is not of a part of the log behind the last snapshot"
	case b.Part == 0:
		t.making = makingSnapshot{writer: in.id, term: b.Term, upTo: b.UpTo, of: b.Of}
	case l.rules.SkipTrimTerm && t.making.next == b.Part:
	case t.making.writer != in.id || t.making.term != b.Term || t.making.upTo != b.UpTo || t.making.of != b.Of || t.making.next != b.Part:
		return "it does not follow the part before"
	}
	if t.making.next++; t.making.next == b.Of {
		*t = trimmable{upTo: b.UpTo, at: offset}
	}
	return ""
}

// splitState cuts an encoded state into the parts of a Snapshot.
func splitState(b []byte, part int) [][]byte {
	if len(b) == 0 {
		return nil
	}
	return slices.Collect(slices.Chunk(b, part))
}

// seeker finds where to begin in a log that was trimmed: it keeps what was read
// until a valid Snapshot whose upTo is not below the start is complete. Its
// state and the records from upTo to it give the same fold as the records from
// offset 0 would have.
type seeker struct {
	rules Rules
	start int64
	read  []EvRecord
}

// end is the offset behind the last record that was read.
func (s *seeker) end() int64 { return s.start + int64(len(s.read)) }

// next takes in a record. When it completes a valid Snapshot, next returns the
// fold of everything below its upTo, and the records from there on.
func (s *seeker) next(e EvRecord) (*Log, []EvRecord, error) {
	switch {
	case e.Offset < s.end():
		return nil, nil, nil // read before
	case e.Offset > s.end():
		return nil, nil, fmt.Errorf("read offset %d where %d was next: %w", e.Offset, s.end(), ErrLogGap)
	}
	s.read = append(s.read, e)
	b, ok := e.Record.Body.(Snapshot)
	if !ok || b.Part != b.Of-1 || b.UpTo < s.start && !s.rules.SkipTrimStart || b.UpTo > e.Offset {
		return nil, nil, nil
	}
	state := s.assemble(e.Record.Instance, b)
	if state == nil {
		return nil, nil, nil
	}
	rest := s.read[max(0, b.UpTo-s.start):]
	if ok, err := s.judge(state, rest, b); err != nil || !ok {
		return nil, nil, err
	}
	l, err := DecodeState(s.rules, state)
	return l, rest, err
}

// judge reports whether the Snapshot at the end of rest is valid, by the fold
// that it makes itself.
func (s *seeker) judge(state []byte, rest []EvRecord, b Snapshot) (bool, error) {
	l, err := DecodeState(s.rules, state)
	if err != nil {
		return false, fmt.Errorf("snapshot of the control log up to offset %d: %w", b.UpTo, err)
	}
	var out Outcome
	for _, e := range rest {
		if out, err = l.Apply(e.Offset, e.Record); err != nil {
			return false, err
		}
	}
	return out.Valid() && l.trim.upTo == b.UpTo, nil
}

// assemble joins the parts of the Snapshot whose last part is b; nil when one is
// missing. Copies of a part are alike.
func (s *seeker) assemble(writer ids.InstanceID, last Snapshot) []byte {
	if s.rules.SkipTrimTerm {
		return s.mix()
	}
	parts := make([][]byte, last.Of)
	for _, e := range s.read {
		b, ok := e.Record.Body.(Snapshot)
		switch {
		case !ok || b.Part >= len(parts):
		case e.Record.Instance == writer && b.Term == last.Term && b.UpTo == last.UpTo && b.Of == last.Of:
			parts[b.Part] = b.State
		}
	}
	if slices.ContainsFunc(parts, func(p []byte) bool { return p == nil }) {
		return nil
	}
	return slices.Concat(parts...)
}

// mix joins parts in their order, whoever wrote them. TEST ONLY: SkipTrimTerm.
func (s *seeker) mix() []byte {
	var parts [][]byte
	for _, e := range s.read {
		switch b, ok := e.Record.Body.(Snapshot); {
		case !ok:
		case b.Part == 0:
			parts = [][]byte{b.State}
		case b.Part == len(parts):
			parts = append(parts, b.State)
		}
	}
	return slices.Concat(parts...)
}
