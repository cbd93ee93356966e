package sim

import (
	"fmt"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
)

// plan is what a seed draws before anything happens: the topology, the
// settings, and how rough the world is.
type plan struct {
	sources, hop1, hop2, sinkParts int  // partitions; hop2 0: no third subtopology
	joined                         bool // hop 1 reads an external input as well
	cycle                          bool // hop 1 feeds a topic that it reads itself
	mixed                          bool // … which is the one that the sources write
	combined                       bool // sources of a process share a barrier record
	records                        int  // per source partition
	every                          int64
	instances                      int
	holdLimit                      int64

	interval, checkpointTimeout, transactionTimeout int64
	expectedRestart, shutdownDeadline               int64
	toleratedAborts, retain                         int

	lost, mute, late  int // of a thousand requests
	lateness          int64
	endLost, initLost int // of a thousand of their kind, beyond those
	storeFails        int
	faultEvery        int // steps between faults, mean

	standbys int // per task: instances that follow its checkpoints

	gentle bool // nothing fails; instances come and go
	// bigState: restores take up to four intervals.
	bigState bool
	whole    bool // the machines do not know the topology: all tasks roll back together
}

const (
	sessionTimeout = 500
	settle         = 30
	appID          = "app"
)

func drawPlan(w *World) plan {
	r := w.rng
	p := plan{
		sources: 1 + r.IntN(3), hop1: 1 + r.IntN(3), sinkParts: 1 + r.IntN(3),
		joined: r.IntN(3) == 0, cycle: r.IntN(4) == 0,
		records: 40 + r.IntN(80), every: int64(40 + r.IntN(120)), instances: 1 + r.IntN(3),
		interval: int64(60 + r.IntN(200)), checkpointTimeout: int64(500 + r.IntN(900)),
		toleratedAborts: 1 + r.IntN(3), retain: 1 + r.IntN(3),
		lost: r.IntN(20), mute: r.IntN(20), late: r.IntN(30), lateness: int64(100 + r.IntN(2500)),
		storeFails: r.IntN(60), faultEvery: 100 + r.IntN(500),
	}
	if r.IntN(4) == 0 {
		p.faultEvery *= 3
	}
	if r.IntN(3) == 0 {
		p.endLost = r.IntN(300)
	}
	if r.IntN(3) == 0 {
		p.initLost = r.IntN(300)
	}
	p.standbys = max(0, r.IntN(4)-1)
	if p.instances == 1 && r.IntN(3) > 0 {
		p.instances = 2
	}
	if r.IntN(3) == 0 {
		p.hop2 = 1 + r.IntN(2)
	}
	if r.IntN(3) == 0 {
		p.holdLimit = 200
	}
	p.mixed, p.combined = r.IntN(2) == 0, r.IntN(2) == 0
	p.shutdownDeadline = int64(2000 + r.IntN(1000))
	if r.IntN(3) == 0 {
		p.shutdownDeadline = int64(30 + r.IntN(400)) // too short for a checkpoint
	}
	if r.IntN(6) == 0 {
		p.gentle, p.shutdownDeadline, p.storeFails, p.faultEvery = true, 60_000, 0, 400+r.IntN(800)
		p.instances = max(p.instances, 2)
	}
	p.whole = r.IntN(5) == 0
	// In some seeds the broker's timeout comes close, so that R22 has work.
	p.expectedRestart = int64(1000 + r.IntN(3000))
	p.transactionTimeout = (p.interval+p.checkpointTimeout)*int64(p.toleratedAborts+1) + sessionTimeout + p.expectedRestart + int64(1+r.IntN(1+r.IntN(3000)))
	return p
}

// restoreLong gives some seeds restores that take longer than an interval. It draws
// nothing: the other seeds stay what they are.
func (p *plan) restoreLong(seed uint64) {
	if p.bigState = !p.gentle && seed%7 == 5; p.bigState {
		p.expectedRestart += 4 * p.interval
		p.transactionTimeout += 4 * p.interval
	}
}

// keys is the number of different keys.
const keys = 12

// The topics.
const (
	topicIn   = "in"
	topicIn2  = "in2"
	topicHop1 = "hop1"
	topicHop2 = "hop2"
	topicLoop = "loop"
	topicOut  = "out"
)

// edge is one input of a subtopology.
type edge struct {
	topic          string
	source         bool
	forward, cycle barrier.TaskSet
}

// subtopology is what one kind of task reads and writes.
type subtopology struct {
	partitions int
	inputs     []edge
	outputs    []string // repartition topics
}

func tasksOf(sub, partitions int) barrier.TaskSet {
	var out []ids.TaskID
	for i := range partitions {
		out = append(out, ids.TaskID{Sub: int32(sub), Partition: int32(i)})
	}
	return barrier.NewTaskSet(out...)
}

// topology returns the subtopologies in order of their numbers.
func (p *plan) topology() []subtopology {
	subs := []subtopology{
		{partitions: p.sources, inputs: []edge{{topic: topicIn, source: true}}, outputs: []string{topicHop1}},
		{partitions: p.hop1, inputs: []edge{{topic: topicHop1, forward: tasksOf(0, p.sources)}}},
	}
	one := &subs[1]
	if p.joined {
		one.inputs = append(one.inputs, edge{topic: topicIn2, source: true})
	}
	if p.hop2 > 0 {
		one.outputs = append(one.outputs, topicHop2)
	}
	if p.cycle {
		if p.mixed {
			one.inputs[0].cycle = tasksOf(1, p.hop1)
		} else {
			one.inputs = append(one.inputs, edge{topic: topicLoop, cycle: tasksOf(1, p.hop1)})
		}
		one.outputs = append(one.outputs, p.loopTopic())
	}
	if p.hop2 > 0 {
		subs = append(subs, subtopology{partitions: p.hop2, inputs: []edge{{topic: topicHop2, forward: tasksOf(1, p.hop1)}}})
	}
	return subs
}

// graph is what the machines know of the topology.
func (p *plan) graph() barrier.Graph {
	if p.whole {
		return barrier.Graph{}
	}
	g := barrier.Graph{Subs: []barrier.SubGraph{
		{Readers: []int32{1}, Transacts: true},
		{Transacts: p.joined || p.hop2 == 0 || p.cycle},
	}}
	one := &g.Subs[1]
	if p.cycle {
		one.Readers = append(one.Readers, 1)
	}
	if p.hop2 > 0 {
		one.Readers = append(one.Readers, 2)
		g.Subs = append(g.Subs, barrier.SubGraph{Transacts: true})
	}
	return g
}

// allTasks returns every task of the topology.
func (p *plan) allTasks() barrier.TaskSet {
	var all barrier.TaskSet
	for i, s := range p.topology() {
		all = all.Union(tasksOf(i, s.partitions))
	}
	return all
}

// partitionsOf returns the number of partitions of a topic.
func (p *plan) partitionsOf(topic string) int {
	switch topic {
	case topicIn:
		return p.sources
	case topicHop1, topicIn2, topicLoop:
		return p.hop1
	case topicHop2:
		return p.hop2
	}
	return p.sinkParts
}

// sourceIndex numbers the external partitions: those of in, then those of in2.
func (p *plan) sourceIndex(tp ids.TopicPartition) int {
	if tp.Topic == topicIn2 {
		return p.sources + int(tp.Partition)
	}
	return int(tp.Partition)
}

// Routes: where a record with key k goes.
func (p *plan) hop1Of(k int) int32 { return int32(k % p.hop1) }
func (p *plan) hop2Of(k int) int32 { return int32(k / 2 % p.hop2) }
func (p *plan) loopOf(k int) int32 { return int32(k / 4 % p.hop1) }
func (p *plan) loops(k int) bool   { return p.cycle && k%4 == 1 }

// sinkOf is the sink partition for outputs of a task's partition.
func (p *plan) sinkOf(task int32, k int) int32 { return (task + int32(k)) % int32(p.sinkParts) }

// hop1From is the partition of the hop-1 task that counts source src's key k.
func (p *plan) hop1From(src, k int) int32 {
	if src >= p.sources {
		return int32(src - p.sources)
	}
	return p.hop1Of(k)
}

// lastTask is the partition of the task that outputs source src's key k.
func (p *plan) lastTask(src, k int) int32 {
	if p.hop2 > 0 {
		return p.hop2Of(k)
	}
	return p.hop1From(src, k)
}

// lastTaskOf is that task itself.
func (p *plan) lastTaskOf(src, k int) ids.TaskID {
	if p.hop2 > 0 {
		return ids.TaskID{Sub: 2, Partition: p.lastTask(src, k)}
	}
	return ids.TaskID{Sub: 1, Partition: p.lastTask(src, k)}
}

// loopTopic is where the records of the cycle go.
func (p *plan) loopTopic() string {
	if p.mixed {
		return topicHop1
	}
	return topicLoop
}

func (p *plan) config(w *World, self ids.InstanceID) barrier.Config {
	c := barrier.Config{
		App: appID, Self: self, NewLife: ids.Life(w.rng.Uint64() | 1), Fingerprint: "f1", Tasks: p.allTasks(), Graph: p.graph(),
		TxnIDs: 7 + p.toleratedAborts, Interval: p.interval, CheckpointTimeout: p.checkpointTimeout,
		ToleratedAborts: p.toleratedAborts, TransactionTimeout: p.transactionTimeout,
		SessionTimeout: sessionTimeout, ExpectedRestart: p.expectedRestart, ShutdownDeadline: p.shutdownDeadline, HandoverTimeout: p.checkpointTimeout / 2, ReadyTimeout: 300,
		Settle: settle, LeaveGrace: 100, AppendRetry: 200, Retain: p.retain, Rules: w.rules.Barrier,
	}
	w.trims.set(&c)
	return c
}

func (p *plan) String() string {
	return fmt.Sprintf("sources %d, hop1 %d, hop2 %d, sink partitions %d, joined %t, cycle %t mixed %t, combined barriers %t, instances %d, interval %d, checkpoint timeout %d, tolerated aborts %d, transaction timeout %d, expected restart %d, retain %d, hold limit %d, lost/mute/late %d/%d/%d, of EndTxn %d, of InitProducerId %d, standbys %d, a fault every %d steps, gentle %t",
		p.sources, p.hop1, p.hop2, p.sinkParts, p.joined, p.cycle, p.mixed, p.combined, p.instances, p.interval, p.checkpointTimeout, p.toleratedAborts, p.transactionTimeout, p.expectedRestart, p.retain, p.holdLimit, p.lost, p.mute, p.late, p.endLost, p.initLost, p.standbys, p.faultEvery, p.gentle)
}
