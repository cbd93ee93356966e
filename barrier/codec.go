package barrier

import (
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/ids"
)

// MaxRecordSize is the largest encoded control-log record, in bytes. It is
// below Kafka's default max.message.bytes; a Start of 10,000 tasks needs about
// 20 kB.
const MaxRecordSize = 900 << 10

// recordVersion is the first byte of every control-log record.
const recordVersion = 1

// AppendRecord appends the encoded record to dst. It fails when the record
// exceeds MaxRecordSize.
func AppendRecord(dst []byte, r Record) ([]byte, error) {
	e := encoder{b: dst}
	e.byte(recordVersion)
	e.byte(byte(r.Body.Kind()))
	e.instance(r.Instance)
	e.uvarint(r.Seq)
	if err := e.body(r.Body); err != nil {
		return dst, err
	}
	if n := len(e.b) - len(dst); n > MaxRecordSize {
		return dst, fmt.Errorf("encode %T record of %d bytes: the limit is %d; use fewer tasks or instances", r.Body, n, MaxRecordSize)
	}
	return e.b, nil
}

// DecodeRecord is the inverse of AppendRecord. The result does not alias b.
func DecodeRecord(b []byte) (Record, error) {
	d := decoder{b: b}
	if v := d.byte(); d.err == nil && v != recordVersion {
		return Record{}, fmt.Errorf("control-log record has version %d, this program reads %d: run the version of tidegate that wrote it", v, recordVersion)
	}
	kind := Kind(d.byte())
	r := Record{Instance: d.instance(), Seq: d.uvarint()}
	if d.err == nil {
		r.Body = d.body(kind)
	}
	if err := d.end(); err != nil {
		return Record{}, fmt.Errorf("control-log record of kind %d: %w", kind, err)
	}
	return r, nil
}

func (e *encoder) body(body Body) error {
	switch b := body.(type) {
	case Life:
		e.fixed(uint64(b.Life))
	case Lead:
		e.varint(b.Term)
	case Register:
		e.strings(b.TxnIDs)
	case Assigned:
		e.varint(int64(b.Generation))
		e.tasks(b.Tasks)
		e.instances(b.Members)
		e.string(b.Fingerprint)
	case Ready:
		e.tasks(b.Tasks)
	case Running:
		e.varint(int64(b.Incarnation))
		e.tasks(b.Tasks)
	case Leaving:
	case Start:
		e.start(b)
	case Trigger:
		e.varint(b.Term)
		e.trigger(b)
	case Ack:
		e.ack(b)
	case Decline:
		e.varint(int64(b.N))
		e.byte(byte(b.Reason))
		e.string(b.Detail)
	default:
		return e.decision(body)
	}
	return nil
}

// decision is the second half of body: what coordinators and failures write.
func (e *encoder) decision(body Body) error {
	switch b := body.(type) {
	case Complete:
		e.varint(b.Term)
		e.varint(int64(b.N))
		e.string(b.Manifest)
		e.moves(b.Moves)
	case Abort:
		e.varint(b.Term)
		e.varint(int64(b.N))
		e.byte(byte(b.Reason))
		e.string(b.Detail)
	case Committed:
		e.varint(b.Term)
		e.varint(int64(b.N))
		e.instance(b.Owner)
	case Failed:
		e.varint(int64(b.Incarnation))
		e.tasks(b.Tasks)
		e.string(b.Error)
	case Rollback:
		e.varint(b.Term)
		e.varint(int64(b.N))
		e.tasks(b.Tasks)
		e.instances(b.Dead)
		e.string(b.Reason)
	case Restore:
		e.varint(int64(b.N))
		e.string(b.Nonce)
	case Retire:
		e.varint(b.Term)
		e.varint(int64(b.N))
	case Fenced:
		e.varint(b.Term)
		e.instance(b.Instance)
	case Forfeit:
		e.varint(b.Term)
		e.varint(int64(b.N))
		e.instance(b.Owner)
		e.handle(b.Handle)
	case Snapshot:
		e.snapshot(b)
	default:
		return fmt.Errorf("encode control-log record: unknown type %T", body)
	}
	return nil
}

func (e *encoder) start(b Start) {
	e.varint(b.Term)
	e.varint(int64(b.N))
	e.varint(int64(b.Generation))
	e.owners(b.Owners)
	e.string(b.Fingerprint)
}

func (e *encoder) ack(b Ack) {
	e.varint(int64(b.N))
	e.varint(int64(b.Incarnation))
	e.string(b.Part)
	e.varint(int64(b.Oldest))
	e.uvarint(uint64(len(b.Txns)))
	for _, t := range b.Txns {
		e.handle(t.Handle)
		e.varint(t.Age)
		e.strings(t.Topics)
	}
}

func (e *encoder) snapshot(b Snapshot) {
	e.varint(b.Term)
	e.varint(b.UpTo)
	e.uvarint(uint64(b.Part))
	e.uvarint(uint64(b.Of))
	e.string(string(b.State))
}

// maxSnapshotParts bounds a Snapshot: some 500 MB of state.
const maxSnapshotParts = 1000

func (d *decoder) snapshot() Snapshot {
	s := Snapshot{Term: d.varint(), UpTo: d.offset(), Part: int(d.int32()), Of: int(d.int32()), State: []byte(d.string())}
	if d.err == nil && (s.Part >= s.Of || s.Of > maxSnapshotParts || len(s.State) == 0) {
		d.fail(errors.New("part of a snapshot that has no such part"))
	}
	return s
}

func (e *encoder) moves(ms []Move) {
	e.uvarint(uint64(len(ms)))
	for _, m := range ms {
		e.tasks(TaskSet{m.Task})
		e.instance(m.To)
	}
}

func (d *decoder) body(kind Kind) Body {
	switch kind {
	case KindLife:
		return Life{Life: ids.Life(d.fixed())}
	case KindLead:
		return Lead{Term: d.varint()}
	case KindRegister:
		return Register{TxnIDs: d.strings()}
	case KindAssigned:
		return Assigned{Generation: d.generation(), Tasks: d.tasks(), Members: d.instances(), Fingerprint: d.string()}
	case KindReady:
		return Ready{Tasks: d.tasks()}
	case KindRunning:
		return Running{Incarnation: d.incarnation(), Tasks: d.tasks()}
	case KindLeaving:
		return Leaving{}
	case KindStart:
		return d.start()
	case KindTrigger:
		return d.trigger()
	case KindAck:
		return d.ack()
	case KindDecline:
		return Decline{N: d.checkpoint(), Reason: DeclineReason(d.byte()), Detail: d.string()}
	}
	return d.decision(kind)
}

func (d *decoder) decision(kind Kind) Body {
	switch kind {
	case KindComplete:
		return Complete{Term: d.varint(), N: d.checkpoint(), Manifest: d.string(), Moves: d.moves()}
	case KindAbort:
		return Abort{Term: d.varint(), N: d.checkpoint(), Reason: AbortReason(d.byte()), Detail: d.string()}
	case KindCommitted:
		return Committed{Term: d.varint(), N: d.checkpoint(), Owner: d.instance()}
	case KindFailed:
		return Failed{Incarnation: d.incarnation(), Tasks: d.tasks(), Error: d.string()}
	case KindRollback:
		return Rollback{Term: d.varint(), N: d.checkpoint(), Tasks: d.tasks(), Dead: d.instances(), Reason: d.string()}
	case KindRestore:
		return Restore{N: d.checkpoint(), Nonce: d.string()}
	case KindRetire:
		return Retire{Term: d.varint(), N: d.checkpoint()}
	case KindFenced:
		return Fenced{Term: d.varint(), Instance: d.instance()}
	case KindForfeit:
		return Forfeit{Term: d.varint(), N: d.checkpoint(), Owner: d.instance(), Handle: d.handle()}
	case KindSnapshot:
		return d.snapshot()
	default:
		d.fail(errors.New("unknown kind: run the version of tidegate that wrote it"))
	}
	return nil
}

func (d *decoder) checkpoint() ids.CheckpointID { return ids.CheckpointID(d.offset()) }
func (d *decoder) incarnation() ids.Incarnation { return ids.Incarnation(d.offset()) }

func (d *decoder) generation() int32 {
	v := d.varint()
	if int64(int32(v)) != v {
		d.fail(fmt.Errorf("generation %d is out of range", v))
	}
	return int32(v)
}

func (d *decoder) start() Start {
	s := Start{Term: d.varint(), N: d.checkpoint(), Generation: d.generation()}
	s.Owners = d.owners()
	s.Fingerprint = d.string()
	return s
}

func (d *decoder) ack() Ack {
	a := Ack{N: d.checkpoint(), Incarnation: d.incarnation(), Part: d.string(), Oldest: d.incarnation()}
	if n := d.count(5); n > 0 {
		a.Txns = make([]Txn, n)
		for i := range a.Txns {
			a.Txns[i] = Txn{Handle: d.handle(), Age: d.varint(), Topics: d.strings()}
		}
	}
	return a
}

// What a Trigger does with tasks.
const (
	triggerAll = iota
	triggerStop
	triggerCarried // those that are carried follow
)

func (e *encoder) trigger(b Trigger) {
	switch {
	case len(b.Carried) > 0:
		e.byte(triggerCarried)
		e.tasks(b.Carried)
	case b.Stop:
		e.byte(triggerStop)
	default:
		e.byte(triggerAll)
	}
	e.moves(b.Moves)
}

func (d *decoder) trigger() Trigger {
	t := Trigger{Term: d.varint()}
	switch what := d.byte(); {
	case what == triggerCarried:
		if t.Carried = d.tasks(); len(t.Carried) == 0 {
			d.fail(errors.New("a Trigger carries no tasks over, and says so"))
		}
	case what > triggerCarried:
		d.fail(fmt.Errorf("a Trigger of an unknown kind %d: run the version of tidegate that wrote it", what))
	default:
		t.Stop = what == triggerStop
	}
	t.Moves = d.moves()
	return t
}

func (d *decoder) moves() []Move {
	n := d.count(10)
	if n == 0 {
		return nil
	}
	out := make([]Move, n)
	for i := range out {
		t := d.tasks()
		if len(t) != 1 {
			d.fail(errors.New("a move names not exactly one task"))
			return nil
		}
		out[i] = Move{Task: t[0], To: d.instance()}
	}
	return out
}
