package sim

import (
	"encoding/binary"
	"slices"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/transactions"
)

// slots is the size of a task's store: counts of keys seen directly, and of
// keys that came through the cycle.
const slots = 2 * keys

// task is a simulated task: its inputs, its clock, and a store with a write
// cache in front.
type task struct {
	p     *process
	id    ids.TaskID
	inc   ids.Incarnation
	epoch int
	load  int             // of the process: a rollback drops the task
	start ids.Incarnation // the Start that it descends from
	from  ids.CheckpointID
	prod  *producer
	sub   subtopology

	aligner *barrier.Aligner
	times   *barrier.Times
	sources []taskSource
	reps    []taskInput

	values [slots]int32 // what the task sees: store and cache
	stored [slots]int32 // the store without what is only in the cache
	snaps  []taskSnapshot

	out    []outBuffer
	rep    []repBuffer
	halted bool // behind the barrier of a stop or of a handover
	gone   bool // handed over
}

// taskSource is an external input partition of a task.
type taskSource struct {
	in   *input
	time int // index in Times
	next int64
}

// taskInput is a repartition partition that a task reads.
type taskInput struct {
	part  *repPartition
	time  int // index in Times
	queue []barrier.Segment
	held  []barrier.Segment
	fetch int64 // next offset to fetch
	round int   // of fetches: a seek makes older answers void
	busy  bool
}

// taskSnapshot is the store at a checkpoint, against which the next delta is
// made, and the files that hold it.
type taskSnapshot struct {
	n      ids.CheckpointID
	stored [slots]int32
	files  []string
}

// outBuffer holds outputs for a sink partition.
type outBuffer struct {
	part *sinkPartition
	recs []output
}

// repBuffer holds records for a repartition partition.
type repBuffer struct {
	part *repPartition
	recs []record.Raw
	time int64 // the stream time announced last
	at   int64 // when something was sent last
	idle bool  // the idle flag announced last
}

// payload is the value of a repartition record.
type payload struct {
	src, key uint8
	loop     bool
	hop1     uint8
	off      int64
	idx      int32
	count1   int32
}

func (r payload) encode() []byte {
	b := make([]byte, 0, 20)
	flag := byte(0)
	if r.loop {
		flag = 1
	}
	b = append(b, r.src, r.key, flag, r.hop1)
	b = binary.BigEndian.AppendUint64(b, uint64(r.off))
	b = binary.BigEndian.AppendUint32(b, uint32(r.idx))
	return binary.BigEndian.AppendUint32(b, uint32(r.count1))
}

func decodePayload(b []byte) payload {
	return payload{
		src: b[0], key: b[1], loop: b[2] == 1, hop1: b[3],
		off:    int64(binary.BigEndian.Uint64(b[4:])),
		idx:    int32(binary.BigEndian.Uint32(b[12:])),
		count1: int32(binary.BigEndian.Uint32(b[16:])),
	}
}

func (t *task) alive() bool { return t.p.epoch == t.epoch && t.p.load == t.load && !t.gone }

// run takes some records, and comes again.
func (t *task) run() {
	if !t.alive() {
		return
	}
	w := t.p.w
	if w.now < t.p.hanging {
		t.p.later(t.p.hanging-w.now, t.run)
		return
	}
	for budget := 1 + w.rng.IntN(12); budget > 0; {
		n, ok := t.take()
		if !ok {
			break
		}
		budget -= n
		if !t.alive() || w.failure != nil {
			return
		}
	}
	if !t.halted {
		t.maybeFlush()
	}
	for i := range t.reps {
		t.fetch(i)
	}
	t.p.later(w.between(5, 30), t.run)
}

// take processes what has the smallest timestamp among the heads of the
// inputs; barriers and times go first. It returns how much work that was.
func (t *task) take() (work int, ok bool) {
	if t.halted {
		return 0, false
	}
	best, source := int64(1)<<62, -1
	for i := range t.sources {
		s := &t.sources[i]
		if s.next < s.in.end(t.p.w.now) {
			t.times.CaughtUp(s.time, false, t.p.w.now)
			ts := s.in.time(s.next)
			if held, ok := t.aligner.MinHeld(); (!ok || ts <= held) && ts < best {
				best, source = ts, i
			}
		} else {
			t.times.CaughtUp(s.time, true, t.p.w.now)
		}
	}
	rep := -1
	for i := range t.reps {
		in := &t.reps[i]
		if len(in.queue) == 0 || t.aligner.Stopped(i) {
			continue
		}
		ts := int64(0)
		if in.queue[0].Kind == barrier.HeaderData {
			ts = in.queue[0].MinTime
		}
		if ts < best {
			best, source, rep = ts, -1, i
		}
	}
	switch {
	case source >= 0:
		t.takeSource(&t.sources[source])
		return 1, true
	case rep >= 0:
		return t.offer(rep), true
	}
	return 0, false
}

func (t *task) takeSource(s *taskSource) {
	off := s.next
	s.next++
	t.p.w.oracle.took(t, s.in.tp, off)
	k := s.in.keyOf[off]
	ts := s.in.time(off)
	t.times.Record(s.time, ids.TaskID{}, ts)
	r := payload{src: uint8(s.in.index), key: k, off: off, idx: s.in.idxOf[off]}
	if t.id.Sub == 0 {
		t.emit(topicHop1, t.p.w.plan.hop1Of(int(k)), r, ts)
		return
	}
	t.count(r, ts)
}

// offer asks the aligner about the segment at the head of an input.
func (t *task) offer(i int) (work int) {
	in := &t.reps[i]
	s := in.queue[0]
	verdict, aligned := t.aligner.Offer(i, &s)
	if verdict == barrier.Stop {
		return 0
	}
	in.queue = in.queue[1:]
	if t.p.w.tracing {
		t.p.w.tracef("%s %s %s kind %d of %s %d-%d, %v, checkpoint %d", t.p.name, t.id, verdict, s.Kind, in.part.tp, s.First, s.Last, s.Channel, s.N)
	}
	switch verdict {
	case barrier.Hold:
		in.held = append(in.held, s)
	case barrier.Drop:
		t.p.w.stats.Drops++
	case barrier.Deliver:
		t.deliver(in, &s)
	}
	if aligned {
		t.p.snapshot(t, s.N)
	}
	if verdict == barrier.Deliver {
		return 1
	}
	return 0
}

func (t *task) deliver(in *taskInput, s *barrier.Segment) {
	switch s.Kind {
	case barrier.HeaderTime:
		t.times.Announce(in.time, barrier.ChannelTime{Channel: s.Channel, Time: s.Time, Idle: s.Idle}, true)
	case barrier.HeaderData:
		for j := range s.Records {
			rec := &s.Records[j]
			t.p.w.oracle.took(t, in.part.tp, rec.Offset)
			t.times.Record(in.time, s.Channel.Task, rec.Timestamp)
			t.count(decodePayload(rec.Value), rec.Timestamp)
		}
		in.part.consumed = max(in.part.consumed, s.Last+1)
	}
}

// count is the fold of hop 1 and hop 2.
func (t *task) count(r payload, ts int64) {
	plan := &t.p.w.plan
	slot := int(r.key)
	if r.loop {
		slot += keys
	}
	t.values[slot]++
	n := t.values[slot]
	switch {
	case t.id.Sub == 2:
		t.output(r, n)
		return
	case r.loop:
		r.count1 = n
		t.output(r, n)
		return
	}
	r.hop1, r.count1 = uint8(t.id.Partition), n
	if plan.loops(int(r.key)) {
		back := r
		back.loop = true
		t.emit(plan.loopTopic(), plan.loopOf(int(r.key)), back, ts)
	}
	if plan.hop2 > 0 {
		t.emit(topicHop2, plan.hop2Of(int(r.key)), r, ts)
		return
	}
	t.output(r, 0)
}

func (t *task) output(r payload, count2 int32) {
	w := t.p.w
	b := &t.out[w.plan.sinkOf(t.id.Partition, int(r.key))]
	b.recs = append(b.recs, output{
		src: r.src, key: r.key, loop: r.loop, hop1: r.hop1, last: uint8(t.id.Partition), off: r.off, idx: r.idx,
		count1: r.count1, count2: count2, stream: t.times.StreamTime(), inc: t.inc,
	})
}

func (t *task) emit(topic string, partition int32, r payload, ts int64) {
	for i := range t.rep {
		b := &t.rep[i]
		if b.part.tp.Topic == topic && b.part.tp.Partition == partition {
			b.recs = append(b.recs, record.Raw{Value: r.encode(), Timestamp: ts})
			return
		}
	}
}

// maybeFlush lets caches spill and buffers go out at random moments, as sizes
// and linger times do.
func (t *task) maybeFlush() {
	w := t.p.w
	if w.chance(100) {
		t.flushCache()
	}
	if w.chance(400) {
		t.flushOut()
	}
	now := w.now
	for i := range t.rep {
		b := &t.rep[i]
		if len(b.recs) > 0 && w.chance(400) || len(b.recs) == 0 && now-b.at >= 200 && t.newsFor(b) {
			t.sendRep(b, ids.NoCheckpoint)
		}
	}
}

func (t *task) newsFor(b *repBuffer) bool {
	return t.times.StreamTime() > b.time || t.times.Idle(t.p.w.now) != b.idle
}

func (t *task) flushCache() { t.stored = t.values }

func (t *task) flushOut() {
	p := t.p
	for i := range t.out {
		b := &t.out[i]
		if len(b.recs) == 0 {
			continue
		}
		p.nextBatch++
		p.batches[p.nextBatch] = b.recs
		first := b.recs[0].off
		b.recs = nil
		p.poolStep(transactions.Write{
			Now: p.monotonic(), Task: t.id, Partition: b.part.tp, Batch: p.nextBatch, FirstTime: first, LastTime: first,
		})
	}
}

// sendRep builds one record batch: data, the time it brought the task to, and
// barrier n unless that is ids.NoCheckpoint.
func (t *task) sendRep(b *repBuffer, n ids.CheckpointID) {
	ch := barrier.Channel{Task: t.id, Inc: t.inc}
	recs := b.recs
	b.recs = nil
	if len(recs) > 0 {
		recs[0].Headers = header(barrier.AppendDataHeader(nil, t.p.life, ch))
	}
	if idle := t.times.Idle(t.p.w.now); t.newsFor(b) {
		b.time, b.idle = t.times.StreamTime(), idle
		recs = append(recs, record.Raw{Headers: header(barrier.AppendTimeHeader(nil, t.p.life, []barrier.ChannelTime{{Channel: ch, Time: b.time, Idle: idle}}))})
	}
	if n != ids.NoCheckpoint {
		recs = append(recs, record.Raw{Headers: header(barrier.AppendBarrierHeader(nil, t.p.life, n, []barrier.Channel{ch}))})
	}
	b.at = t.p.w.now
	t.prod.send(b.part, t.inc, recs)
}

func header(v []byte) record.Headers { return record.Headers{{Key: barrier.HeaderKey, Value: v}} }

// fetch reads a repartition partition ahead.
func (t *task) fetch(i int) {
	in := &t.reps[i]
	if in.busy || len(in.queue) > 30 {
		return
	}
	in.busy = true
	from, round := in.fetch, in.round
	type answer struct {
		batches []batch
		below   bool
	}
	call(t.p, func() answer {
		bs, below := in.part.read(from, 20)
		return answer{bs, below}
	}, func(a answer, ok bool) {
		in.busy = false
		if !ok || !t.alive() || in.round != round {
			return
		}
		if a.below && (t.p.w.oracle.ended(barrier.TaskSet{t.id}, t.inc) || t.p.w.oracle.movedOn(t) || t.p.w.oracle.purgedLate(t)) {
			// A zombie, which does not know yet, or a purge that was late.
			t.p.step(barrier.EvTaskFailed{Incarnation: t.inc, Tasks: barrier.TaskSet{t.id}, Error: "offset out of range"})
			return
		}
		if a.below {
			t.p.w.fail("task %s of %s reads %s at %d, below its start %d: records that it needs are gone", t.id, t.p.name, in.part.tp, from, in.part.start)
			return
		}
		var sr barrier.SegmentReader
		for _, b := range a.batches {
			in.fetch = b.last + 1
			sr.Reset(slices.Clone(b.records)) // it takes our headers off
			for {
				s, ok, err := sr.Next()
				if err != nil {
					t.p.w.fail("segments of %s: %v", in.part.tp, err)
				}
				if !ok || err != nil {
					break
				}
				in.queue = append(in.queue, s)
			}
		}
	})
}

// release puts held segments back to the heads of their queues.
func (t *task) release(again []barrier.Reread) {
	for i := range t.reps {
		in := &t.reps[i]
		for _, r := range again {
			if r.Input == i {
				in.queue = nil
				in.fetch = r.Offset
				in.round++
				in.busy = false
			}
		}
		in.queue = append(in.held, in.queue...)
		in.held = nil
	}
}
