package barrier

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidegate/tidegate/internal/ids"
)

// TestAlignerStories plays testdata/aligner. Commands:
//
//	inputs            lines "forward=0_0,0_1 cycle=1_0", one per partition
//	open log=20 lineage=5|5:10,12 [hold=300] [next=0]   from the last positions
//	write p=0         lines "data 0_0 5 ts=3 [n=2]", "barrier 0_0 5 10", "time 0_0 5 7"
//	drain [p=0] [whole]  take all that can be taken (from the first batch on)
//	trigger 10 | log 20 | decided 10 | snapshot | state
func TestAlignerStories(t *testing.T) {
	datadriven.Walk(t, "testdata/aligner", func(t *testing.T, path string) {
		var r *reader
		var positions []PartitionPosition
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			if r != nil {
				r.trace = &out
			}
			switch d.Cmd {
			case "inputs":
				r, positions = parseInputs(d.Input), nil
			case "open":
				if positions == nil {
					for i := range r.inputs {
						positions = append(positions, FirstPosition(partitionOf(i), int64(intArg(d, "next", 0))))
					}
				}
				err := r.open(AlignConfig{Life: testLife, Lineages: parseLineage(d), Positions: positions,
					LogEnd: int64(intArg(d, "log", 0)), HoldLimit: int64(intArg(d, "hold", 0))})
				if err != nil {
					return err.Error() + "\n"
				}
			case "write":
				for _, line := range strings.Split(d.Input, "\n") {
					parseWrite(r, intArg(d, "p", 0), line)
				}
			case "drain":
				drain(d, r, &out)
			case "trigger":
				fmt.Fprintf(&out, "aligned=%v\n", r.a.Trigger(ids.CheckpointID(bareInt(d))))
			case "log":
				fmt.Fprintf(&out, "go on=%v\n", r.a.SetLog(int64(bareInt(d))))
			case "decided":
				released, again := r.a.Decided(ids.CheckpointID(bareInt(d)))
				if released {
					r.release(again)
				}
				fmt.Fprintf(&out, "released=%v again=%v\n", released, again)
			case "snapshot":
				positions = r.a.Positions()
				for _, p := range positions {
					fmt.Fprintf(&out, "%s next=%d inc=%d passed=%d %v\n", p.Partition, p.Next, p.Inc, p.Passed, p.Channels)
				}
				again := r.a.Snapshotted()
				r.release(again)
				fmt.Fprintf(&out, "again=%v\n", again)
			case "state":
				ts, ok := r.a.MinHeld()
				fmt.Fprintf(&out, "owing=%v minHeld=%d,%v held=%d waiting=%v\n", r.a.Owing(), ts, ok, r.a.Stats().HeldBytes, r.a.Waiting(0))
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			return out.String()
		})
	})
}

func bareInt(d *datadriven.TestData) int {
	n, err := strconv.Atoi(d.CmdArgs[0].Key)
	if err != nil {
		panic(err)
	}
	return n
}

func parseTasks(s string) TaskSet {
	var out TaskSet
	for _, f := range strings.Split(s, ",") {
		if t, err := ids.ParseTaskID(f); err == nil {
			out = append(out, t)
		}
	}
	return NewTaskSet(out...)
}

func parseInputs(text string) *reader {
	var inputs []AlignInput
	for i, line := range strings.Split(text, "\n") {
		in := AlignInput{Partition: partitionOf(i)}
		for _, f := range strings.Fields(line) {
			key, val, _ := strings.Cut(f, "=")
			if key == "forward" {
				in.Forward = parseTasks(val)
			} else {
				in.Cycle = parseTasks(val)
			}
		}
		inputs = append(inputs, in)
	}
	return newReader(inputs)
}

// parseLineage gives all tasks the lineage "5" (open) or "5:10,12".
func parseLineage(d *datadriven.TestData) Lineages {
	var lin Lineage
	for _, a := range d.CmdArgs {
		if a.Key != "lineage" {
			continue
		}
		for _, v := range a.Vals {
			inc, end, closed := strings.Cut(v, ":")
			p := Pair{End: ids.NoCheckpoint}
			n, _ := strconv.Atoi(inc)
			p.Inc = ids.Incarnation(n)
			if closed {
				n, _ := strconv.Atoi(end)
				p.End = ids.CheckpointID(n)
			}
			lin = append(lin, p)
		}
	}
	var tasks TaskSet
	for sub := range int32(3) {
		for p := range int32(4) {
			tasks = append(tasks, tid(sub, p))
		}
	}
	return Lineages{Groups: []LineageGroup{{Tasks: tasks, Lineage: lin}}}
}

func parseWrite(r *reader, p int, line string) {
	f := strings.Fields(line)
	task, err := ids.ParseTaskID(f[1])
	if err != nil {
		panic(err)
	}
	inc, _ := strconv.Atoi(f[2])
	s := Segment{Life: testLife, Channel: Channel{task, ids.Incarnation(inc)}}
	records := 1
	for _, a := range f[3:] {
		key, val, ok := strings.Cut(a, "=")
		n, _ := strconv.Atoi(val)
		if !ok {
			n, _ = strconv.Atoi(key)
		}
		switch {
		case key == "ts":
			s.MinTime = int64(n)
		case key == "n":
			records = n
		case key == "life":
			s.Life = ids.Life(n)
		case f[0] == "barrier":
			s.N = ids.CheckpointID(n)
		case f[0] == "time":
			s.Time = int64(n)
		}
	}
	s.Kind = map[string]HeaderKind{"data": HeaderData, "barrier": HeaderBarrier, "time": HeaderTime}[f[0]]
	r.write(p, s, records)
}

func drain(d *datadriven.TestData, r *reader, out *strings.Builder) {
	only := intArg(d, "p", -1)
	for i := range r.inputs {
		if d.HasArg("whole") {
			r.seek(i, 0)
		}
		if only >= 0 && i != only {
			continue
		}
		for {
			moved, aligned := r.take(i)
			if aligned {
				out.WriteString("ALIGNED\n")
				return
			}
			if !moved {
				break
			}
		}
	}
}

// TestAlignerModel writes data and barriers of several tasks to several
// partitions, reads them in random order with a tiny hold limit, takes
// snapshots, crashes and goes on from the last one, with the writers going on
// (A5) or starting again from their barrier (R6). Each record of the surviving
// history must be delivered once, in order (A3), and a snapshot must hold
// exactly what the writers wrote before their barriers (A2).
func TestAlignerModel(t *testing.T) {
	for seed := range uint64(400) {
		if msg := alignerModel(seed); msg != "" {
			t.Fatalf("seed %d: %s", seed, msg)
		}
	}
}

// alignModel numbers the records of each channel; a snapshot stores the last
// number delivered per channel.
type alignModel struct {
	rnd       *rand.Rand
	r         *reader
	tasks     TaskSet
	inc       ids.Incarnation
	lineage   Lineage
	logEnd    int64
	written   map[chanKey]int64 // last number written
	delivered map[chanKey]int64
	msg       string
}

type chanKey struct {
	input int
	task  ids.TaskID
}

type modelSnapshot struct {
	n         ids.CheckpointID
	positions []PartitionPosition
	written   map[chanKey]int64
	lineage   Lineage
}

func (m *alignModel) write(input int, task ids.TaskID) {
	k := chanKey{input, task}
	records := 1 + m.rnd.IntN(3)
	s := Segment{Kind: HeaderData, Life: testLife, Channel: Channel{task, m.inc}, Time: m.written[k] + 1}
	m.written[k] += int64(records)
	m.r.write(input, s, records)
}

// got checks a delivered segment; Segment.Time carries the number of its first
// record as written.
func (m *alignModel) got(input int, s Segment) {
	if s.Kind != HeaderData {
		return
	}
	k := chanKey{input, s.Channel.Task}
	for _, w := range m.r.partitions[input] {
		if w.Kind == HeaderData && w.First <= s.First && s.First <= w.Last {
			first := w.Time + s.First - w.First
			if first != m.delivered[k]+1 {
				m.msg = fmt.Sprintf("channel %v: number %d delivered behind %d", k, first, m.delivered[k])
			}
			m.delivered[k] = first + s.Last - s.First
		}
	}
}

func alignerModel(seed uint64) string {
	rnd := rand.New(rand.NewPCG(seed, 3))
	inputs := 1 + rnd.IntN(2)
	m := &alignModel{rnd: rnd, inc: 5, logEnd: 6, written: map[chanKey]int64{}, delivered: map[chanKey]int64{}}
	m.lineage = Lineage{{Inc: 5, End: ids.NoCheckpoint}}
	var ins []AlignInput
	for i := range inputs {
		ins = append(ins, AlignInput{Partition: partitionOf(i), Forward: NewTaskSet(tid(0, 0), tid(0, 1), tid(0, 2))})
	}
	m.tasks = ins[0].Forward
	m.r = newReader(ins)
	m.r.deliver = m.got
	last := modelSnapshot{written: map[chanKey]int64{}}
	for i := range inputs {
		last.positions = append(last.positions, FirstPosition(partitionOf(i), 0))
	}
	if err := m.open(last, m.lineage); err != nil {
		return err.Error()
	}
	for range 12 {
		m.logEnd += 10
		n := ids.CheckpointID(m.logEnd - 1)
		barrier := m.round(n)
		m.r.a.Trigger(n)
		m.r.a.SetLog(m.logEnd)
		if snap, ok := m.readToSnapshot(n); ok {
			snap.written, snap.lineage = barrier, m.lineage
			last = snap
			for k, v := range snap.written {
				if m.delivered[k] != v {
					return fmt.Sprintf("snapshot %d of %v holds %d records, the writer wrote %d", n, k, m.delivered[k], v)
				}
			}
			m.r.release(m.r.a.Snapshotted())
			m.r.a.Decided(n)
		}
		if m.msg != "" {
			return m.msg
		}
		if rnd.IntN(3) == 0 {
			if err := m.crash(last); err != nil {
				return err.Error()
			}
		}
	}
	m.readAll()
	for k, v := range m.written {
		if m.delivered[k] != v && m.msg == "" {
			m.msg = fmt.Sprintf("channel %v: %d of %d delivered", k, m.delivered[k], v)
		}
	}
	return m.msg
}

// round writes data and barrier n of every task; it returns what was written
// before the barriers.
func (m *alignModel) round(n ids.CheckpointID) map[chanKey]int64 {
	before := map[chanKey]int64{}
	todo := make([]int, len(m.tasks))
	for i := range todo {
		todo[i] = 1 + m.rnd.IntN(4)
	}
	for range 40 {
		i := m.rnd.IntN(len(m.tasks))
		if todo[i] == 0 {
			for in := range m.r.inputs {
				before[chanKey{in, m.tasks[i]}] = m.written[chanKey{in, m.tasks[i]}]
				m.r.write(in, Segment{Kind: HeaderBarrier, Life: testLife, Channel: Channel{m.tasks[i], m.inc}, N: n}, 1)
			}
		}
		if todo[i] == 0 || m.rnd.IntN(2) == 0 {
			todo[i]--
		}
		m.write(m.rnd.IntN(len(m.r.inputs)), m.tasks[i])
	}
	for i := range todo {
		if todo[i] >= 0 {
			for in := range m.r.inputs {
				before[chanKey{in, m.tasks[i]}] = m.written[chanKey{in, m.tasks[i]}]
				m.r.write(in, Segment{Kind: HeaderBarrier, Life: testLife, Channel: Channel{m.tasks[i], m.inc}, N: n}, 1)
			}
		}
	}
	return before
}

func (m *alignModel) readToSnapshot(n ids.CheckpointID) (modelSnapshot, bool) {
	steps := m.rnd.IntN(300)
	for range steps {
		if _, aligned := m.r.take(m.rnd.IntN(len(m.r.inputs))); aligned {
			return modelSnapshot{n: n, positions: m.r.a.Positions()}, true
		}
	}
	// Not reached: the coordinator aborts it.
	if released, again := m.r.a.Decided(n); released {
		m.r.release(again)
	}
	return modelSnapshot{}, false
}

func (m *alignModel) readAll() {
	for moved := true; moved; {
		moved = false
		for i := range m.r.inputs {
			ok, _ := m.r.take(i)
			moved = moved || ok
		}
	}
}

// crash goes back to the last snapshot: the reader alone, or everybody with a
// new incarnation of the writers, while records of the old one still arrive.
func (m *alignModel) crash(last modelSnapshot) error {
	m.delivered = cloneCounts(last.written)
	if m.rnd.IntN(2) == 0 {
		return m.open(last, m.lineage) // the reader alone; the writers go on
	}
	old := m.inc
	m.logEnd += 10
	m.inc = ids.Incarnation(m.logEnd - 1)
	m.lineage = last.lineage.Restart(last.n, m.inc)
	m.written = cloneCounts(last.written)
	m.r.write(0, Segment{Kind: HeaderData, Life: testLife, Channel: Channel{m.tasks[0], old}, Time: 1 << 40}, 2) // a zombie's
	return m.open(last, m.lineage)
}

func (m *alignModel) open(s modelSnapshot, lineage Lineage) error {
	return m.r.open(AlignConfig{
		Life: testLife, Positions: s.positions, LogEnd: m.logEnd, HoldLimit: int64(200 + m.rnd.IntN(1000)),
		Lineages: Lineages{Groups: []LineageGroup{{Tasks: m.tasks, Lineage: slices.Clone(lineage)}}},
	})
}

func cloneCounts(c map[chanKey]int64) map[chanKey]int64 {
	out := map[chanKey]int64{}
	for k, v := range c {
		out[k] = v
	}
	return out
}
