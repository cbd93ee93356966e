package checkpoint

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
)

var testNames = Names{App: "app", Life: 0xfedcba9876543210}

func somePart(tasks int) Part {
	p := Part{App: "app", Life: testNames.Life, Checkpoint: 40, Instance: ids.InstanceID{Name: "host", Rand: math.MaxUint64}}
	for i := range tasks {
		task := ids.TaskID{Sub: 1, Partition: int32(i)}
		w := Writer{Checkpoint: 40, Task: task, Incarnation: 20}
		p.Tasks = append(p.Tasks, TaskPart{
			Task: task, Incarnation: 20, Base: 30, StreamTime: math.MinInt64,
			Files: []FileRef{
				{Name: "000001.sst", Size: 1 << 20, CRC: 0xffffffff, Key: testNames.File(w, "000001.sst"), Immutable: true},
				{Name: "MANIFEST", Size: 10, CRC: 1, Key: testNames.Pack(w, 0), Offset: 5, Packed: 15},
			},
			Stores:    []StoreInfo{{Name: "counts", Operator: "counts", Kind: "kv", Key: "string/1", Value: "int64/1"}},
			Times:     []byte{0, 1, 255},
			Timers:    []byte("timers"),
			External:  []ExternalOffset{{TopicPartition: ids.TopicPartition{Topic: "in", Partition: int32(i)}, Offset: 77}},
			Positions: []byte(`[{"next":99}]`),
		})
	}
	return p
}

func someManifest() Manifest {
	m := Manifest{
		App: "app", Life: testNames.Life, Checkpoint: 40, Term: 3, Topology: "sha256:00", Aligned: true, Created: 1e12,
		Operators:    []OperatorInfo{{Name: "counts", Subs: []int32{1}, Stores: []StoreInfo{{Name: "counts"}}}},
		Lineages:     []Lineage{{Task: ids.TaskID{Sub: 0}, Closed: []ClosedPair{{Incarnation: 1, End: 10}, {Incarnation: 12, End: 15}}, Open: 20}},
		Transactions: []TransactionInfo{{Owner: ids.InstanceID{Name: "host", Rand: 1}, Handle: ids.TxnHandle{TransactionalID: "t", ProducerID: 5, ProducerEpoch: 1}}},
		Topics:       []TopicID{{Topic: "in", ID: "abc"}, {Topic: "rep", ID: "def", Internal: true, Partitions: 4}},
		Ends:         []ExternalOffset{{TopicPartition: ids.TopicPartition{Topic: "rep"}, Offset: 0}},
	}
	if err := m.AddPart(testNames.Part(40, ids.InstanceID{Name: "host", Rand: 1}, 0), somePart(3)); err != nil {
		panic(err)
	}
	return m
}

func TestPartRoundTrip(t *testing.T) {
	for _, tasks := range []int{0, 1, 50} { // 50 are compressed
		p := somePart(tasks)
		b, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if zipped := b[6]&flagGzip != 0; zipped != (tasks == 50) {
			t.Errorf("%d tasks: compressed %v", tasks, zipped)
		}
		got, err := DecodePart(b)
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Fatalf("%+v %v", got, err)
		}
	}
}

func TestManifestRoundTrip(t *testing.T) {
	m := someManifest()
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeManifest(b)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("%+v %v", got, err)
	}
	if _, err := DecodePart(b); err == nil || !strings.Contains(err.Error(), "kind") {
		t.Error("a manifest was read as a part:", err)
	}
	if e, ok := m.Task(ids.TaskID{Sub: 1, Partition: 2}); !ok || e.Incarnation != 20 || len(m.Parts()) != 1 {
		t.Error(e, ok)
	}
}

// Every single damaged bit and every truncation is noticed.
func TestDamageIsNoticed(t *testing.T) {
	p := somePart(1)
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		for bit := range 8 {
			d := bytes.Clone(b)
			d[i] ^= 1 << bit
			if _, err := DecodePart(d); err == nil {
				t.Fatalf("byte %d bit %d", i, bit)
			}
		}
		if _, err := DecodePart(b[:i]); err == nil {
			t.Fatalf("cut at %d", i)
		}
	}
	if _, err := DecodePart(append(bytes.Clone(b), 0)); err == nil {
		t.Fatal("a byte more")
	}
}

func TestNewerVersionIsNotDamage(t *testing.T) {
	p := somePart(0)
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	b[5] = 2
	reseal(b)
	if _, err := DecodePart(b); err == nil || !strings.Contains(err.Error(), "newer tidegate") {
		t.Fatal(err)
	}
}

func reseal(b []byte) {
	s := envelopeSum(b)
	b[8], b[9], b[10], b[11] = byte(s>>24), byte(s>>16), byte(s>>8), byte(s)
}

func TestStrict(t *testing.T) {
	seal := func(payload string) []byte {
		b := append([]byte("TGCKP\x01\x00\x00\x00\x00\x00\x00"), payload...)
		reseal(b)
		return b
	}
	if _, err := DecodePart(seal(`{"app":"a","tasks":[]}`)); err != nil {
		t.Fatal("the control case:", err)
	}
	for _, payload := range []string{
		``, `null x`, `{"app":"a","tasks":[]} {}`, `{"app":"a","extra":1}`, `{"app":""}`, `{"app":"a","checkpoint":-1}`,
		`{"app":"a","tasks":[{"task":{"sub":1}},{"task":{"sub":1}}]}`,
		`{"app":"a","tasks":[{"task":{"sub":-1}}]}`,
	} {
		if _, err := DecodePart(seal(payload)); err == nil {
			t.Errorf("%s was accepted", payload)
		}
	}
	for what, change := range map[string]func(*TaskPart){
		"path in file name": func(p *TaskPart) { p.Files[0].Name = "../../etc/passwd" },
		"foreign key":       func(p *TaskPart) { p.Files[0].Key = "../x" },
		"behind its pack":   func(p *TaskPart) { p.Files[1].Offset = 6 },
		"overflow":          func(p *TaskPart) { p.Files[1].Size = math.MaxInt64 },
		"offset, no pack":   func(p *TaskPart) { p.Files[0].Offset = 1 },
		"unsorted":          func(p *TaskPart) { p.Files[0], p.Files[1] = p.Files[1], p.Files[0] },
		"negative offset":   func(p *TaskPart) { p.External[0].Offset = -1 },
	} {
		p := somePart(1)
		change(&p.Tasks[0])
		if _, err := p.Encode(); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
}

func TestAddPartRefuses(t *testing.T) {
	m := someManifest()
	twice := somePart(1)
	key := testNames.Part(40, ids.InstanceID{Name: "other", Rand: 2}, 0)
	if err := m.AddPart(key, twice); err == nil {
		t.Error("a task was added twice")
	}
	m = someManifest()
	samePartition := somePart(1)
	samePartition.Tasks[0].Task.Sub = 9
	if err := m.AddPart(key, samePartition); err == nil || !strings.Contains(err.Error(), "two tasks read one partition") {
		t.Error(err)
	}
	m = someManifest()
	older := somePart(0)
	older.Checkpoint = 39
	if err := m.AddPart(key, older); err == nil {
		t.Error("a part of another checkpoint was added")
	}
}

func FuzzDecodePart(f *testing.F) {
	for _, n := range []int{0, 1, 50} {
		p := somePart(n)
		b, err := p.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if b = bytes.Clone(b); len(b) >= envelopeHeader {
			reseal(b) // or the checksum stops the fuzzer at the door
		}
		p, err := DecodePart(b)
		if err != nil {
			return
		}
		again, err := p.Encode()
		if err != nil {
			t.Fatal("decoded but cannot be encoded:", err)
		}
		if q, err := DecodePart(again); err != nil || fmt.Sprint(p) != fmt.Sprint(q) {
			t.Fatalf("%v\n%+v\n%+v", err, p, q)
		}
	})
}

func FuzzDecodeManifest(f *testing.F) {
	m := someManifest()
	b, err := m.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if b = bytes.Clone(b); len(b) >= envelopeHeader {
			reseal(b)
		}
		m, err := DecodeManifest(b)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatal("decoded but cannot be encoded:", err)
		}
		if q, err := DecodeManifest(again); err != nil || fmt.Sprint(m) != fmt.Sprint(q) {
			t.Fatalf("%v\n%+v\n%+v", err, m, q)
		}
	})
}

// R26: a checkpoint lists tasks that took no part as the one before does.
func TestCarry(t *testing.T) {
	base := someManifest()
	key := base.Tasks[0].Part
	load := func(k string) (Part, error) {
		if k != key {
			return Part{}, fmt.Errorf("asked for %s", k)
		}
		return somePart(3), nil
	}
	m := Manifest{App: "app", Life: testNames.Life, Checkpoint: 50, Term: 3}
	carried := []ids.TaskID{{Sub: 1}, {Sub: 1, Partition: 2}}
	if err := m.Carry(base, carried, load); err != nil {
		t.Fatal(err)
	}
	if len(m.Tasks) != 2 || m.Tasks[1] != base.Tasks[2] || len(m.External) != 2 || m.External[1] != base.External[2] {
		t.Errorf("tasks %+v, offsets %+v", m.Tasks, m.External)
	}
	if !m.Lists(carried[0], key) || m.Lists(ids.TaskID{Sub: 1, Partition: 1}, key) || m.Lists(carried[0], "another") {
		t.Error("it lists what it has not, or the other way round")
	}
	if err := m.Carry(base, carried[:1], load); err == nil || !strings.Contains(err.Error(), "listed twice") {
		t.Errorf("carried twice: %v", err)
	}
	if err := m.Carry(base, []ids.TaskID{{Sub: 9}}, load); err == nil || !strings.Contains(err.Error(), "checkpoint 40 holds no task 9_0") {
		t.Errorf("a task that is not there: %v", err)
	}
}
