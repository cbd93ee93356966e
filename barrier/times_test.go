package barrier

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
)

func repartitionInput(p int32, tasks ...ids.TaskID) TimeInput {
	return TimeInput{Partition: ids.TopicPartition{Topic: "r", Partition: p}, Forward: NewTaskSet(tasks...)}
}

func sourceInput(p int32) TimeInput {
	return TimeInput{Partition: ids.TopicPartition{Topic: "s", Partition: p}, Source: true}
}

func said(task ids.TaskID, ts int64, idle bool) ChannelTime {
	return ChannelTime{Channel: Channel{Task: task}, Time: ts, Idle: idle}
}

func wantTime(t *testing.T, what string, got, want int64) {
	t.Helper()
	if got != want {
		t.Errorf("%s: stream time %d, want %d", what, got, want)
	}
}

// R13, and the acceptance case: upstream 0 replays an hour ahead of upstream
// 1; time is the minimum, so nothing of upstream 1 is late.
func TestTimesMinimumOverChannels(t *testing.T) {
	u0, u1 := tid(0, 0), tid(0, 1)
	c := NewTimes([]TimeInput{repartitionInput(0, u0, u1)}, nil, 0, 0)
	wantTime(t, "only one channel known", c.Record(0, u0, 3_600_000), NoTime)
	wantTime(t, "both known", c.Record(0, u1, 5), 5)
	wantTime(t, "the fast one goes on", c.Record(0, u0, 3_700_000), 5)
	wantTime(t, "the slow one goes on", c.Record(0, u1, 90), 90)
	wantTime(t, "a late record", c.Record(0, u1, 50), 90)
	wantTime(t, "announced without data", c.Announce(0, said(u1, 4_000_000, false), true), 3_700_000)
}

// R13: idle channels do not count; time never falls when they come back.
func TestTimesIdleChannel(t *testing.T) {
	u0, u1 := tid(0, 0), tid(0, 1)
	c := NewTimes([]TimeInput{repartitionInput(0, u0, u1)}, nil, 0, 0)
	c.Record(0, u0, 100)
	wantTime(t, "the other is idle", c.Announce(0, said(u1, NoTime, true), true), 100)
	wantTime(t, "it comes back behind", c.Record(0, u1, 40), 100)
	wantTime(t, "and holds back", c.Record(0, u0, 200), 100)
	wantTime(t, "until it catches up", c.Record(0, u1, 150), 150)
	if c.Idle(0) {
		t.Error("not idle")
	}
	c.Announce(0, said(u0, NoTime, true), true)
	c.Announce(0, said(u1, NoTime, true), true)
	if !c.Idle(0) {
		t.Error("all channels are idle")
	}
	wantTime(t, "all idle", c.StreamTime(), 150)
}

// R13: a channel that never announced a time holds back until the idle timeout
// after the start.
func TestTimesSilentChannel(t *testing.T) {
	u0, u1 := tid(0, 0), tid(0, 1)
	c := NewTimes([]TimeInput{repartitionInput(0, u0, u1)}, nil, 5000, 1000)
	c.Record(0, u0, 100)
	wantTime(t, "before the timeout", c.Advance(5999), NoTime)
	wantTime(t, "after it", c.Advance(6000), 100)
	wantTime(t, "then it speaks", c.Record(0, u1, 10), 100)
	wantTime(t, "and counts", c.Record(0, u0, 300), 100)
}

// R13: the maximum over inputs, so that a record on one side of a join closes
// windows; a source is idle when caught up and silent for the timeout.
func TestTimesSources(t *testing.T) {
	c := NewTimes([]TimeInput{sourceInput(0), sourceInput(1)}, nil, 5000, 0)
	wantTime(t, "one side", c.Record(0, ids.TaskID{}, 100), 100)
	wantTime(t, "the other, older", c.Record(1, ids.TaskID{}, 50), 100)
	c.CaughtUp(0, true, 1000)
	c.CaughtUp(0, true, 3000)
	if c.InputIdle(0, 5999) || !c.InputIdle(0, 6000) {
		t.Error("idle counts from the first time caught up")
	}
	c.Record(0, ids.TaskID{}, 101)
	if c.InputIdle(0, 9000) {
		t.Error("a record ends idleness")
	}
	c.CaughtUp(0, true, 9000)
	c.CaughtUp(1, true, 9000)
	c.CaughtUp(1, false, 9500)
	if c.Idle(20000) {
		t.Error("an input that is behind is not idle")
	}
}

// R13: with cycle channels only, the highest timestamp taken.
func TestTimesCycleOnly(t *testing.T) {
	in := repartitionInput(0)
	in.Cycle = NewTaskSet(tid(1, 0))
	mixed := repartitionInput(1, tid(0, 0))
	mixed.Cycle = in.Cycle
	c := NewTimes([]TimeInput{in, mixed}, nil, 0, 0)
	wantTime(t, "cycle only", c.Record(0, tid(1, 0), 70), 70)
	wantTime(t, "a cycle channel beside a forward one does not count", c.Record(1, tid(1, 0), 900), 70)
	wantTime(t, "the forward one does", c.Record(1, tid(0, 0), 80), 80)
}

// R13: times and flags are in the snapshot.
func TestTimesRestore(t *testing.T) {
	u0, u1, u2 := tid(0, 0), tid(0, 1), tid(0, 2)
	inputs := []TimeInput{repartitionInput(0, u0, u1, u2), sourceInput(0)}
	c := NewTimes(inputs, nil, 0, 0)
	c.Record(0, u0, 100)
	c.Announce(0, said(u1, 90, true), true)
	c.Announce(0, ChannelTime{Channel: Channel{Task: u0}, Time: 100, Current: true}, true)
	c.Record(1, ids.TaskID{}, 30)
	st := c.State()
	again := NewTimes(inputs, &st, 0, 0)
	if got := again.State(); !reflect.DeepEqual(got, st) {
		t.Errorf("restored %+v, want %+v", got, st)
	}
	wantTime(t, "the third still holds back", again.StreamTime(), 30)
	wantTime(t, "and then not", again.Record(0, u2, 200), 100)
}

// T1, and the tree against the plain minimum.
func TestTimesModel(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		n := 1 + rnd.IntN(9)
		var tasks []ids.TaskID
		for i := range n {
			tasks = append(tasks, tid(0, int32(i)))
		}
		c := NewTimes([]TimeInput{repartitionInput(0, tasks...)}, nil, 0, 0)
		times, idle := make([]int64, n), make([]bool, n)
		for i := range times {
			times[i] = NoTime
		}
		want := int64(NoTime)
		for range 200 {
			i := rnd.IntN(n)
			ts := rnd.Int64N(1000)
			times[i] = max(times[i], ts)
			var got int64
			if idle[i] = rnd.IntN(5) == 0; idle[i] {
				got = c.Announce(0, said(tasks[i], ts, true), true)
			} else {
				got = c.Record(0, tasks[i], ts)
			}
			low, some := int64(silent), false
			for k := range times {
				if !idle[k] {
					low, some = min(low, times[k]), true
				}
			}
			if some && low != NoTime {
				want = max(want, low)
			}
			if got != want {
				t.Fatalf("seed %d: %d, want %d", seed, got, want)
			}
		}
	}
}

// Kafka Streams' choice: the highest timestamp taken is the input's time, and
// announced times raise nothing.
func TestTimesMaxSeen(t *testing.T) {
	a, b := ids.TaskID{Partition: 0}, ids.TaskID{Partition: 1}
	re := TimeInput{Partition: ids.TopicPartition{Topic: "re"}, Forward: NewTaskSet(a, b), MaxSeen: true}
	c := NewTimes([]TimeInput{re}, nil, 100, 0)
	if st := c.Announce(0, said(a, 500, false), true); st != NoTime {
		t.Errorf("stream time %d by an announcement", st)
	}
	if st := c.Record(0, a, 70); st != 70 {
		t.Errorf("stream time %d, want 70 though b has none", st)
	}
	if st := c.Record(0, b, 10); st != 70 {
		t.Errorf("stream time %d, want 70", st)
	}
	c.Announce(0, said(a, 500, true), true)
	if c.InputIdle(0, 50) {
		t.Error("idle though b is not")
	}
	c.Announce(0, said(b, 500, true), true)
	if !c.InputIdle(0, 50) || c.StreamTime() != 70 {
		t.Errorf("idle %v, stream time %d", c.InputIdle(0, 50), c.StreamTime())
	}
	state := c.State()
	if st := NewTimes([]TimeInput{re}, &state, 100, 0).StreamTime(); st != 70 {
		t.Errorf("stream time %d after a restore", st)
	}
}

// An input may have an idle timeout of its own.
func TestTimesIdleTimeoutOfAnInput(t *testing.T) {
	c := NewTimes([]TimeInput{
		{Partition: ids.TopicPartition{Topic: "fast"}, Source: true, IdleTimeout: 10},
		{Partition: ids.TopicPartition{Topic: "slow"}, Source: true},
	}, nil, 100, 0)
	c.CaughtUp(0, true, 0)
	c.CaughtUp(1, true, 0)
	if !c.InputIdle(0, 10) || c.InputIdle(1, 99) || !c.InputIdle(1, 100) {
		t.Error("idle timeouts are mixed up")
	}
}
