package barrier

import (
	"math"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// NoTime is the stream time before anything was seen.
const NoTime = math.MinInt64

// DefaultIdleTimeout is how long an input without records, or a channel that
// never announced a time, holds time back, in milliseconds.
const DefaultIdleTimeout = 5000

// TimeInput is one input partition of a task: a source partition, or a
// repartition partition with its channels.
type TimeInput struct {
	Partition ids.TopicPartition
	Source    bool
	Forward   TaskSet
	Cycle     TaskSet
	// MaxSeen makes the highest timestamp taken the time of a repartition
	// partition, as in Kafka Streams; announced times then only end idleness.
	MaxSeen bool
	// IdleTimeout is the input's own one, 0 for that of the task.
	IdleTimeout int64
	// Restarted are forward channels whose writers may start together with this
	// task, where no lineages say so, and then say anew how far they are. What a
	// checkpoint holds of their flags does not excuse the input until they did
	// (see Announce), or for a while.
	Restarted TaskSet
	// RestartKnown: SetLineages says who starts anew, so that there is no timeout
	// for it.
	RestartKnown bool
	// Merged: stream time does not pass the channels of the input that have more
	// to send, whatever other inputs have (T5). Their writers must say when they
	// are current.
	Merged bool
}

// restartTimeout is how long a channel is awaited whose writer may not have
// started anew, in milliseconds.
const restartTimeout = 5000

// StoredChannelTime is the time of one channel as a checkpoint stores it.
type StoredChannelTime struct {
	Task    ids.TaskID `json:"task"`
	Time    int64      `json:"time"`
	Idle    bool       `json:"idle,omitempty"`
	Current bool       `json:"current,omitempty"`
}

// InputTime is the time of one input as a checkpoint stores it. Channels that
// never announced a time are left out.
type InputTime struct {
	Partition ids.TopicPartition  `json:"partition"`
	Time      int64               `json:"time"`
	Channels  []StoredChannelTime `json:"channels,omitempty"` // sorted by task
}

// TimesState is all times of a task, for its snapshot.
type TimesState struct {
	Stream int64       `json:"stream"`
	Inputs []InputTime `json:"inputs"`
}

// unset is the time of a channel that holds the minimum back because it never
// announced one; silent that of a channel that does not count (idle).
const (
	unset  = math.MinInt64
	silent = math.MaxInt64
)

// timeChannel is the time of one forward channel.
type timeChannel struct {
	task ids.TaskID
	time int64 // max of announced times and timestamps seen; NoTime if neither
	idle bool
	// current: the writer had read its inputs to their ends when it said so last.
	current bool
	// awaited: the flags are those of an earlier run of the writer.
	awaited bool
	open    ids.Incarnation // which is awaited; 0: any
	spoke   ids.Incarnation // the newest that announced something
}

// timeInput is the time of one input.
type timeInput struct {
	partition ids.TopicPartition
	source    bool
	maxSeen   bool
	timeout   int64
	channels  []timeChannel // forward ones, sorted by task
	mins      minTree       // over channels: time, unset or silent
	ahead     minTree       // the same, but silent for current channels, too
	announced int           // channels with a time or an idle flag
	awaited   int           // channels that are awaited
	known     bool          // those speak for certain
	merged    bool

	time       int64 // never falls
	caughtSeen bool
	caughtAt   int64 // since when it is caught up and without records
}

// Times is a task's clock (R13). It belongs to the goroutine of the task.
//
// The time of a source input is the highest timestamp taken from it; of a
// repartition input the minimum over its non-idle forward channels, a
// channel's time being the larger of what its writer announced and the
// timestamps seen on it; with cycle channels only, or with MaxSeen, the highest
// timestamp taken. The task's stream time is the maximum over its inputs.
//
// Invariants:
//
//	T1  Stream time and the time of every input never fall.
//	T2  A channel that neither announced a time nor was seen holds its input
//	    back until the idle timeout after the start.
//	T3  An idle channel does not count; a record on it ends its idleness.
//	T4  Others may go ahead of an input that is read to its end up to the
//	    smallest time of its channels that are neither idle nor current: what
//	    those still send, unless it is out of order, is not earlier.
//	T5  With merged inputs, stream time follows the maximum over the inputs only
//	    up to that time, too: records of a channel that is behind others of its
//	    partition are not late because another input went on.
//	T6  Flags of an incarnation excuse nothing once another one is open: what
//	    the former owner had read to its end may go on before the new one reads.
type Times struct {
	inputs  []timeInput
	stream  int64
	reached int64 // the maximum over the inputs, which stream time follows up to limit
	limit   int64 // the smallest time of channels of merged inputs that have more to send
	timeout int64
	started int64
	late    bool // the idle timeout after the start is over
	spoken  bool // so is the time for awaited channels
}

// NewTimes starts the clock at the monotonic time now (ms). stored is what the
// checkpoint holds, or nil; inputs that it lacks begin without a time.
// idleTimeout 0 means DefaultIdleTimeout.
func NewTimes(inputs []TimeInput, stored *TimesState, idleTimeout, now int64) *Times {
	if idleTimeout == 0 {
		idleTimeout = DefaultIdleTimeout
	}
	t := &Times{stream: NoTime, reached: NoTime, limit: silent, timeout: idleTimeout, started: now}
	for _, ti := range inputs {
		in := timeInput{partition: ti.Partition, source: ti.Source, maxSeen: ti.MaxSeen, time: NoTime, timeout: idleTimeout, known: ti.RestartKnown, merged: ti.Merged}
		if ti.IdleTimeout > 0 {
			in.timeout = ti.IdleTimeout
		}
		for _, task := range ti.Forward {
			in.channels = append(in.channels, timeChannel{task: task, time: NoTime})
		}
		t.inputs = append(t.inputs, in)
	}
	if stored != nil {
		t.restore(stored)
	}
	for i := range t.inputs {
		t.inputs[i].await(inputs[i].Restarted)
		t.inputs[i].build()
	}
	t.relimit()
	return t
}

func (t *Times) restore(stored *TimesState) {
	t.stream, t.reached = stored.Stream, stored.Stream
	for _, st := range stored.Inputs {
		i := slices.IndexFunc(t.inputs, func(in timeInput) bool { return in.partition == st.Partition })
		if i < 0 {
			continue
		}
		in := &t.inputs[i]
		in.time = st.Time
		t.reached = max(t.reached, st.Time)
		for _, sc := range st.Channels {
			if k, ok := in.find(sc.Task); ok {
				c := &in.channels[k]
				c.time, c.idle, c.current = sc.Time, sc.Idle, sc.Current
			}
		}
	}
}

// await marks the channels whose writers may start together with the task: only
// where there is something to mistake.
func (in *timeInput) await(restarted TaskSet) {
	for i := range in.channels {
		c := &in.channels[i]
		if restarted.Contains(c.task) && (c.idle || c.current) {
			c.awaited = true
			in.awaited++
		}
	}
}

func (in *timeInput) find(task ids.TaskID) (int, bool) {
	return slices.BinarySearchFunc(in.channels, task, func(c timeChannel, t ids.TaskID) int { return c.task.Compare(t) })
}

// build fills the tree from the channels.
func (in *timeInput) build() {
	in.mins, in.ahead = newMinTree(len(in.channels)), newMinTree(len(in.channels))
	in.announced = 0
	for i := range in.channels {
		c := &in.channels[i]
		if c.time != NoTime || c.idle {
			in.announced++
		}
		in.set(i, false, false)
	}
}

func (in *timeInput) set(i int, late, spoken bool) {
	c := &in.channels[i]
	in.mins.set(i, c.effective(late))
	in.ahead.set(i, c.mayGo(late, spoken && !in.known))
}

// effective is the channel's value in the minimum.
func (c *timeChannel) effective(late bool) int64 {
	switch {
	case c.idle:
		return silent
	case c.time == NoTime && late:
		return silent
	}
	return c.time // unset is NoTime
}

// mayGo is up to which time others may go ahead of the channel when everything
// in its partition was read.
func (c *timeChannel) mayGo(late, spoken bool) int64 {
	switch {
	case c.awaited && !spoken:
		return c.time
	case c.current:
		return silent
	}
	return c.effective(late)
}

// Record says that a record of the input was taken. task is its upstream task
// and is ignored for sources. It returns the task's stream time behind it.
func (t *Times) Record(input int, task ids.TaskID, ts int64) int64 {
	in := &t.inputs[input]
	in.caughtSeen = false
	if in.source || len(in.channels) == 0 {
		return t.raise(in, ts)
	}
	if in.maxSeen {
		t.raise(in, ts)
	}
	i, ok := in.find(task)
	if !ok {
		return t.stream // a cycle channel beside forward ones
	}
	c := &in.channels[i]
	if ts <= c.time && !c.idle {
		return t.stream
	}
	return t.update(in, i, max(c.time, ts), false)
}

// SetLineages says which incarnations the writers have. n is the checkpoint that
// the task started from: an incarnation that began behind it is awaited until it
// said itself how far it is (T6). It comes before the first record of such a one.
func (t *Times) SetLineages(l Lineages, n ids.CheckpointID) {
	for i := range t.inputs {
		in := &t.inputs[i]
		if !in.known {
			continue
		}
		for k := range in.channels {
			c := &in.channels[k]
			lin := l.Of(c.task)
			if len(lin) == 0 || lin[len(lin)-1].End != ids.NoCheckpoint {
				continue
			}
			open := lin[len(lin)-1].Inc
			if open <= max(c.spoke, c.open, ids.Incarnation(n)) {
				continue
			}
			c.open = open
			if !c.awaited {
				c.awaited = true
				in.awaited++
			}
			in.set(k, t.late, t.spoken)
		}
	}
	t.relimit()
}

// Announce applies an entry of a time record; its Time may be NoTime. present
// says that the writer wrote it in its present run, as far as can be told where
// no lineages say so.
func (t *Times) Announce(input int, a ChannelTime, present bool) int64 {
	in := &t.inputs[input]
	i, ok := in.find(a.Task)
	if !ok {
		return t.stream
	}
	c := &in.channels[i]
	c.current = a.Current
	c.spoke = max(c.spoke, a.Inc)
	if c.awaited && present && a.Inc >= c.open {
		c.awaited = false
		in.awaited--
	}
	return t.update(in, i, max(c.time, a.Time), a.Idle)
}

func (t *Times) update(in *timeInput, i int, ts int64, idle bool) int64 {
	c := &in.channels[i]
	if c.time == NoTime && !c.idle && (ts != NoTime || idle) {
		in.announced++
	}
	c.time, c.idle = ts, idle
	in.set(i, t.late, t.spoken)
	if in.merged { // the others do not count there
		t.relimit()
	}
	return t.raiseMin(in)
}

// relimit finds how far stream time may follow.
func (t *Times) relimit() {
	limit := int64(silent)
	for i := range t.inputs {
		if in := &t.inputs[i]; in.merged && !in.maxSeen && len(in.channels) > 0 {
			limit = min(limit, in.ahead.min())
		}
	}
	t.limit = limit
}

func (t *Times) raiseMin(in *timeInput) int64 {
	if m := in.mins.min(); !in.maxSeen && m != unset && m != silent {
		return t.raise(in, m)
	}
	return t.follow()
}

func (t *Times) raise(in *timeInput, ts int64) int64 {
	in.time = max(in.time, ts)
	t.reached = max(t.reached, in.time)
	return t.follow()
}

func (t *Times) follow() int64 {
	t.stream = max(t.stream, min(t.reached, t.limit))
	return t.stream
}

// CaughtUp says whether an input is read to its end (the end offset of a fetch
// that was answered after the wait began) and has nothing queued. A source
// input that stays so for the idle timeout is idle.
func (t *Times) CaughtUp(input int, caughtUp bool, now int64) {
	in := &t.inputs[input]
	switch {
	case !caughtUp:
		in.caughtSeen = false
	case !in.caughtSeen:
		in.caughtSeen, in.caughtAt = true, now
	}
}

// StreamTime returns the task's stream time, or NoTime.
func (t *Times) StreamTime() int64 { return t.stream }

// InputTime returns the time of one input, or NoTime.
func (t *Times) InputTime(input int) int64 { return t.inputs[input].time }

// InputIdle reports whether an input is idle at now: a source that is caught
// up and without records for the idle timeout; a repartition input whose
// forward channels are all idle (or silent past the idle timeout). With cycle
// channels only, it counts like a source.
func (t *Times) InputIdle(input int, now int64) bool {
	in := &t.inputs[input]
	if in.source || len(in.channels) == 0 {
		return in.caughtSeen && now-in.caughtAt >= in.timeout
	}
	t.Advance(now)
	return in.mins.min() == silent && (in.awaited == 0 || t.spoken && !in.known)
}

// GoAhead returns up to which time records of other inputs may be taken while a
// repartition input is read to its end and has nothing queued: math.MaxInt64
// when all its forward channels are idle, current, or silent past the idle
// timeout.
func (t *Times) GoAhead(input int, now int64) int64 {
	in := &t.inputs[input]
	if in.source || in.maxSeen || len(in.channels) == 0 {
		return silent
	}
	t.Advance(now)
	return in.ahead.min()
}

// Idle reports whether all inputs are idle: the task then says so in band.
func (t *Times) Idle(now int64) bool {
	for i := range t.inputs {
		if !t.InputIdle(i, now) {
			return false
		}
	}
	return true
}

// Advance lets time pass: once the idle timeout after the start is over,
// channels that never announced a time do not count any more. It returns the
// stream time.
func (t *Times) Advance(now int64) int64 {
	late, spoken := now-t.started >= t.timeout, now-t.started >= restartTimeout
	if late == t.late && spoken == t.spoken {
		return t.stream
	}
	t.late, t.spoken = late, spoken
	for i := range t.inputs {
		in := &t.inputs[i]
		if in.announced == len(in.channels) && in.awaited == 0 {
			continue
		}
		for k := range in.channels {
			in.set(k, late, spoken)
		}
		t.relimit()
		t.raiseMin(in)
	}
	return t.stream
}

// State returns what a snapshot stores.
func (t *Times) State() TimesState {
	s := TimesState{Stream: t.stream, Inputs: make([]InputTime, len(t.inputs))}
	for i := range t.inputs {
		in := &t.inputs[i]
		it := InputTime{Partition: in.partition, Time: in.time}
		for _, c := range in.channels {
			if c.time != NoTime || c.idle || c.current {
				it.Channels = append(it.Channels, StoredChannelTime{Task: c.task, Time: c.time, Idle: c.idle, Current: c.current})
			}
		}
		s.Inputs[i] = it
	}
	return s
}
