package barrier

import (
	"reflect"
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
)

func tid(sub, partition int32) ids.TaskID { return ids.TaskID{Sub: sub, Partition: partition} }

var (
	instA = ids.InstanceID{Name: "a", Rand: 1}
	instB = ids.InstanceID{Name: "b", Rand: 1 << 63}
)

func sampleBodies() []Body {
	tasks := NewTaskSet(tid(0, 0), tid(0, 1), tid(0, 3), tid(2, 7))
	h := ids.TxnHandle{TransactionalID: "app-x-0", ProducerID: 77, ProducerEpoch: 3}
	return []Body{
		Life{Life: 0xfedcba9876543210},
		Lead{Term: 9},
		Register{TxnIDs: []string{"x", "y"}},
		Register{},
		Assigned{Generation: -1, Tasks: tasks, Members: []ids.InstanceID{instA, instB}, Fingerprint: "f"},
		Ready{Tasks: tasks},
		Running{Incarnation: 12, Tasks: tasks},
		Leaving{},
		Start{Term: 1, N: 0, Generation: 4, Owners: []Owner{{instA, tasks}, {instB, NewTaskSet(tid(1, 0))}}, Fingerprint: "g"},
		Trigger{Term: 2, Stop: true},
		Trigger{Term: 2, Moves: []Move{{Task: tid(1, 1), To: instB}}},
		Trigger{Term: 2, Carried: TaskSet{tid(0, 1), tid(1, 0)}},
		Ack{N: 5, Incarnation: 4, Part: "p", Oldest: 2, Txns: []Txn{{Handle: h, Age: 100, Topics: []string{"out"}}, {Handle: h}}},
		Decline{N: 5, Reason: DeclineWaiting, Detail: "why"},
		Complete{Term: 3, N: 5, Manifest: "m"},
		Abort{Term: 3, N: 5, Reason: AbortTimeout, Detail: "late"},
		Committed{Term: 0, N: 5, Owner: instB},
		Failed{Incarnation: 4, Tasks: tasks, Error: "e"},
		Rollback{Term: 3, N: 5, Tasks: tasks, Dead: []ids.InstanceID{instA}, Reason: "r"},
		Restore{N: 5, Nonce: "n"},
		Retire{Term: 3, N: 1},
		Fenced{Term: 3, Instance: instA},
		Forfeit{Term: 3, N: 5, Owner: instA, Handle: h},
		Snapshot{Term: 3, UpTo: 99, Part: 1, Of: 2, State: []byte{1, 2, 3}},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	seen := map[Kind]bool{}
	for _, b := range sampleBodies() {
		seen[b.Kind()] = true
		want := Record{Instance: instB, Seq: 1 << 40, Body: b}
		enc, err := AppendRecord([]byte("prefix"), want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeRecord(enc[len("prefix"):])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%T: got %+v, %v\nwant %+v", b, got, err, want)
		}
		for cut := len("prefix"); cut < len(enc); cut++ {
			if _, err := DecodeRecord(enc[len("prefix"):cut]); err == nil {
				t.Errorf("%T: cut at %d decodes", b, cut)
			}
		}
	}
	for k := KindLife; k <= KindSnapshot; k++ {
		if !seen[k] {
			t.Errorf("kind %d has no sample", k)
		}
	}
}

func TestLargeRecordsFit(t *testing.T) {
	var owners []Owner
	for i := range 100 {
		var tasks TaskSet
		for p := range 100 {
			tasks = append(tasks, tid(int32(p%4), int32(p*100+i)))
		}
		owners = append(owners, Owner{Instance: ids.InstanceID{Name: "instance", Rand: uint64(i)}, Tasks: NewTaskSet(tasks...)})
	}
	b, err := AppendRecord(nil, Record{Instance: instA, Seq: 1, Body: Start{Term: 1, Owners: owners}})
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 40<<10 {
		t.Errorf("a Start of 10,000 scattered tasks takes %d bytes", len(b))
	}
	if got, err := DecodeRecord(b); err != nil || !reflect.DeepEqual(got.Body.(Start).Owners, owners) {
		t.Errorf("it does not decode: %v", err)
	}
	big := Register{TxnIDs: []string{string(make([]byte, MaxRecordSize))}}
	if _, err := AppendRecord(nil, Record{Instance: instA, Seq: 1, Body: big}); err == nil {
		t.Error("a record above the limit is encoded")
	}
}

func TestUnknownRecords(t *testing.T) {
	b, _ := AppendRecord(nil, Record{Instance: instA, Seq: 1, Body: Leaving{}})
	for _, c := range []struct {
		name string
		at   int
		v    byte
	}{
		{"unknown kind", 1, 200},
		{"later version", 0, 2},
	} {
		enc := append([]byte(nil), b...)
		enc[c.at] = c.v
		_, err := DecodeRecord(enc)
		if err == nil {
			t.Errorf("%s is read", c.name)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	for i, b := range sampleBodies() {
		enc, err := AppendRecord(nil, Record{Instance: instA, Seq: uint64(i), Body: b})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(enc)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecord(b)
		if err != nil {
			return
		}
		enc, err := AppendRecord(nil, r)
		if err != nil {
			t.Fatalf("decoded %+v does not encode: %v", r, err)
		}
		again, err := DecodeRecord(enc)
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}
