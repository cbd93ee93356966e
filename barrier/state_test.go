package barrier

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
)

var writeState = flag.Bool("write-state", false, "write testdata/state anew")

// chaosLog returns a log of a random story.
func chaosLog(seed uint64) (Rules, []Record) {
	w := chaosWorld(seed, Rules{})
	return w.cfg.Rules, w.log
}

func foldOf(t *testing.T, rules Rules, records []Record) *Log {
	t.Helper()
	l := NewLog(rules)
	for i, r := range records {
		if _, err := l.Apply(int64(i), r); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// The fold of a state and what follows is the fold of everything: the same
// verdicts, and the same state again.
func TestStateIsTheFold(t *testing.T) {
	for seed := range uint64(20) {
		rules, records := chaosLog(seed)
		whole := NewLog(rules)
		var others []*Log
		for i, r := range records {
			want, err := whole.Apply(int64(i), r)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range others {
				if got, err := l.Apply(int64(i), r); err != nil || !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d, record %d %T: %+v, %v; from the start %+v", seed, i, r.Body, got, err, want)
				}
			}
			enc := whole.AppendState(nil)
			l, err := DecodeState(rules, enc)
			if err != nil {
				t.Fatalf("seed %d, record %d: %v", seed, i, err)
			}
			if again := l.AppendState(nil); !bytes.Equal(enc, again) {
				t.Fatalf("seed %d, record %d: another state\n%x\n%x", seed, i, enc, again)
			}
			if i%17 == 5 {
				others = append(others, l)
			}
		}
		for _, l := range others {
			if !bytes.Equal(l.AppendState(nil), whole.AppendState(nil)) {
				t.Fatalf("seed %d: folds differ in the end:\n%+v\n%+v", seed, l.View(), whole.View())
			}
		}
	}
}

// Bytes written once stay readable: testdata/state holds states as this format
// had them, with what they say. chaos3 and chaos8 are of version 1.
func TestStateGolden(t *testing.T) {
	for name, seed := range map[string]uint64{"chaos3": 3, "chaos8": 8, "chaos3-2": 3, "chaos8-2": 8} {
		rules, records := chaosLog(seed)
		file := filepath.Join("testdata", "state", name)
		present := strings.HasSuffix(name, "-2")
		if *writeState && present {
			l := foldOf(t, rules, records[:len(records)*2/3])
			if err := os.WriteFile(file, []byte(hex.EncodeToString(l.AppendState(nil))+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		l, err := DecodeState(rules, b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := l.AppendState(nil)
		if bytes.Equal(got, b) != present {
			t.Errorf("%s: another encoding", name)
		}
		again, err := DecodeState(rules, got)
		if err != nil || !bytes.Equal(again.AppendState(nil), got) || !reflect.DeepEqual(again.View(), l.View()) {
			t.Errorf("%s: another state when written again: %v", name, err)
		}
		if v := l.View(); v.End == 0 || len(v.Kept) == 0 || len(v.Instances) == 0 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// A state of 10,000 tasks on 200 instances is small enough for a record or two.
func TestStateOfManyTasksIsSmall(t *testing.T) {
	l := NewLog(Rules{})
	l.haveLife, l.end = true, 1000
	var members []ids.InstanceID
	for i := range 200 {
		members = append(members, ids.InstanceID{Name: "app-5d8f7c9b4-" + string(rune('a'+i/26)) + string(rune('a'+i%26)), Rand: uint64(i) << 40})
	}
	slices.SortFunc(members, ids.InstanceID.Compare)
	var owners []Owner
	for i, id := range members {
		var tasks TaskSet
		for k := range 50 {
			tasks = append(tasks, tid(int32(k%4), int32(k*200+i)))
		}
		owners = append(owners, Owner{id, NewTaskSet(tasks...)})
		var txns []string
		for range 12 {
			txns = append(txns, "app-0123456789abcdef-"+id.String()+"-"+string(rune('a'+len(txns))))
		}
		l.instances = append(l.instances, &instance{id: id, txnIDs: txns, seq: 9, owned: true, assignedAt: 5,
			assigned: Assigned{Tasks: owners[i].Tasks, Members: members, Fingerprint: "0123456789abcdef"}})
	}
	for i := range 10_000 {
		l.removed = append(l.removed, ids.InstanceID{Name: "app-5d8f7c9b4-aa", Rand: uint64(i)})
	}
	all, _ := ownerTasks(owners)
	l.start = newStarted(10, Start{Owners: owners}, all)
	l.start.running = all
	l.lineages = Lineages{}.Restart(all, 0, 10)
	l.completed = []*completed{{ref: CheckpointRef{N: 0}, lineages: l.lineages}}
	for _, o := range owners {
		l.completed[0].acks = append(l.completed[0].acks, AckRef{Instance: o.Instance, Tasks: o.Tasks, Ack: Ack{Part: strings.Repeat("p", 120)}})
	}
	b := l.AppendState(nil)
	t.Logf("%d bytes", len(b))
	if len(b) > 600<<10 {
		t.Errorf("the state takes %d bytes", len(b))
	}
	if got, err := DecodeState(Rules{}, b); err != nil || !bytes.Equal(got.AppendState(nil), b) {
		t.Errorf("it does not decode: %v", err)
	}
	if parts := splitState(b, 100<<10); !bytes.Equal(slices.Concat(parts...), b) || len(parts) < 2 {
		t.Errorf("%d parts are not the whole", len(parts))
	}
}

// trimmedLog is a log with Snapshots, as a reader from start sees it.
func trimmedLog(t *testing.T, records []Record, upTo int64, of int, by ids.InstanceID, seq uint64) []Record {
	t.Helper()
	l := foldOf(t, Rules{}, records[:upTo])
	out := slices.Clone(records)
	state := l.AppendState(nil)
	for i, part := range splitState(state, (len(state)+of-1)/of) {
		out = append(out, Record{Instance: by, Seq: seq + uint64(i), Body: Snapshot{Term: l.term, UpTo: upTo, Part: i, Of: of, State: part}})
	}
	return out
}

func seekIn(records []Record, start int64) (*Log, []EvRecord, error) {
	s := &seeker{start: start}
	for i := start; i < int64(len(records)); i++ {
		if l, rest, err := s.next(EvRecord{Offset: i, Record: records[i]}); l != nil || err != nil {
			return l, rest, err
		}
	}
	return nil, nil, nil
}

func TestSeek(t *testing.T) {
	_, all := chaosLog(3)
	records := all[:len(all)/2]
	l := foldOf(t, Rules{}, records)
	lead := l.find(l.leader)
	if lead == nil || lead.dead {
		t.Fatal("nobody leads; take another seed")
	}
	n := int64(len(records))
	for _, of := range []int{1, 3} {
		whole := trimmedLog(t, records, n-4, of, l.leader, lead.seq+1)
		for start := n - 20; start <= n-4; start++ {
			got, rest, err := seekIn(whole, start)
			if err != nil || got == nil {
				t.Fatalf("%d parts, from %d: nothing found (%v)", of, start, err)
			}
			for _, e := range rest {
				if _, err := got.Apply(e.Offset, e.Record); err != nil {
					t.Fatal(err)
				}
			}
			if want := foldOf(t, Rules{}, whole); !bytes.Equal(got.AppendState(nil), want.AppendState(nil)) {
				t.Fatalf("%d parts, from %d: another fold", of, start)
			}
		}
		if got, _, err := seekIn(whole, n-3); got != nil || err != nil {
			t.Errorf("%d parts: a reader above upTo takes it (%v)", of, err)
		}
		if got, _, _ := seekIn(whole[:len(whole)-1], n-5); got != nil {
			t.Errorf("%d parts: one is missing, and it is taken", of)
		}
	}
	// Of somebody who does not lead, it does not count; the next one does.
	other := instA
	for _, in := range l.instances {
		if in.id != l.leader && !in.dead {
			other = in.id
		}
	}
	void := trimmedLog(t, records, n-4, 1, other, 1<<40)
	if got, _, err := seekIn(void, n-6); got != nil || err != nil {
		t.Errorf("a void snapshot is taken (%v)", err)
	}
	both := trimmedLog(t, void, n-4, 2, l.leader, lead.seq+1)
	if got, _, err := seekIn(both, n-6); got == nil || err != nil {
		t.Errorf("the valid one behind a void one is not found: %v", err)
	}
}

func FuzzDecodeState(f *testing.F) {
	for seed := range uint64(4) {
		rules, records := chaosLog(seed)
		l := NewLog(rules)
		for i, r := range records {
			if _, err := l.Apply(int64(i), r); err != nil {
				f.Fatal(err)
			}
			if i%50 == 20 {
				f.Add(l.AppendState(nil))
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := DecodeState(Rules{}, b)
		if err != nil {
			return
		}
		enc := l.AppendState(nil)
		again, err := DecodeState(Rules{}, enc)
		if err != nil {
			t.Fatalf("a decoded state does not decode again: %v", err)
		}
		if !bytes.Equal(enc, again.AppendState(nil)) {
			t.Fatal("its encoding is not stable")
		}
		l.View()
	})
}

// Whoever adds a field to the fold must decide what becomes of it in a Snapshot:
// encode it under a new version of the state, or say here why it need not be.
func TestStateKnowsEveryField(t *testing.T) {
	for _, c := range []struct {
		of     any
		fields string
	}{
		// rules are the program's, haveLife is true, terms are of a test's rule.
		{Log{}, "rules end life haveLife term leader leadAt terms instances removed start rollback failures lineages undecided completed aborts lastAbort restored restoring stopped heldUp restores hasZero trim"},
		{instance{}, "id seq registered txnIDs owned leaving ready dead deadAt deadTerm assigned assignedAt"},
		{undecided{}, "n term stop moves carried base reason acks declines"},
		{declineEntry{}, "instance decline"},
		{completed{}, "ref stop acks committed forfeited lineages"},
		{rolledBack{}, "at term tasks named"},
		{failure{}, "instance rec"},
		{started{}, "at rec owners tasks incs running fresh"},
		{trimmable{}, "upTo at making"},
		{makingSnapshot{}, "writer term upTo next of"},
		{Assigned{}, "Generation Tasks Members Fingerprint"},
		{AckRef{}, "Instance Tasks Ack"},
		{CheckpointRef{}, "N Manifest"},
		{Decline{}, "N Reason Detail"},
		{Failed{}, "Incarnation Tasks Error"},
		{Restore{}, "N Nonce"},
		{Pair{}, "Inc End"},
	} {
		var have []string
		typ := reflect.TypeOf(c.of)
		for i := range typ.NumField() {
			have = append(have, typ.Field(i).Name)
		}
		if got := strings.Join(have, " "); got != c.fields {
			t.Errorf("%v has the fields %q, the encoding of the state knows %q", typ, got, c.fields)
		}
	}
}
