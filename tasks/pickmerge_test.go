package tasks

import (
	"math"
	"testing"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
)

// An external record is taken ahead of a repartition partition that is read to
// its end only if the upstream tasks that have more to send are as far.
func TestPickWaitsForUpstream(t *testing.T) {
	j := newJoining(t)
	j.aligner.Decided(5)
	begin := time.Unix(0, 0)
	j.Task.started = begin
	j.internal.since, j.internal.endAsked = begin, begin.Add(time.Microsecond)
	j.records(-1, 40, 45, 60)
	say := func(task int32, ts int64, idle, current bool) {
		j.times.Announce(1, barrier.ChannelTime{
			Channel: barrier.Channel{Task: ids.TaskID{Partition: task}}, Time: ts, Idle: idle, Current: current,
		}, true)
	}
	is := func(why string, taken bool, limit int64) {
		t.Helper()
		in, upTo := j.pick()
		if (in != nil) != taken || taken && upTo != limit {
			t.Errorf("%s: taken %v up to %d, want %v up to %d", why, in != nil, upTo, taken, limit)
		}
	}
	is("nobody spoke", false, 0)
	say(0, 100, false, false)
	say(1, 39, false, false)
	is("one is behind", false, 0)
	say(1, 50, false, false)
	is("both are further", true, 50)
	j.external.pop()
	j.external.pop()
	is("one is behind again", false, 0)
	say(1, 50, false, true)
	is("it has no more", true, 100)
	say(0, 100, true, false)
	is("nor has the other", true, math.MaxInt64)
	say(1, 50, false, false)
	is("it has more", false, 0)
	say(1, 50, true, false)
	is("both are idle", true, math.MaxInt64)
	say(0, 100, false, false)
	say(1, 50, false, false)
	j.Task.spec.TaskIdle = -1
	is("nobody is waited for", true, math.MaxInt64)
}

// What the owner before a handover said excuses nobody: the next one may find more.
func TestPickWaitsForTheNextOwner(t *testing.T) {
	j := newJoining(t)
	j.aligner.Decided(5)
	begin := time.Unix(0, 0)
	j.Task.started = begin
	j.internal.since, j.internal.endAsked = begin, begin.Add(time.Microsecond)
	j.records(-1, 60)
	say := func(inc ids.Incarnation) {
		for task := range int32(2) {
			j.times.Announce(1, barrier.ChannelTime{
				Channel: barrier.Channel{Task: ids.TaskID{Partition: task}, Inc: inc}, Time: 40, Current: true,
			}, true)
		}
	}
	taken := func(want bool, why string) {
		t.Helper()
		if in, _ := j.pick(); (in != nil) != want {
			t.Errorf("%s: taken %v", why, in != nil)
		}
	}
	say(1)
	taken(true, "both have no more")
	both := j.internal.spec.Forward
	before := barrier.Lineages{}.Restart(both, 0, 1)
	j.SetLineages(before.Restart(both[:1], 5, 6))
	taken(false, "one goes on elsewhere")
	say(1)
	taken(false, "its former owner's word")
	say(6)
	taken(true, "the new one's")
}

// A channel that never spoke is waited for until the idle timeout after the start.
func TestPickWaitsForSilenceUntilTheTimeout(t *testing.T) {
	j := newJoining(t)
	j.aligner.Decided(5)
	begin := time.Unix(0, 0)
	j.Task.started = begin
	j.internal.since, j.internal.endAsked = begin, begin.Add(time.Microsecond)
	j.records(-1, 40)
	for _, c := range []struct {
		after int64
		taken bool
	}{{0, false}, {barrier.DefaultIdleTimeout - 1, false}, {barrier.DefaultIdleTimeout, true}} {
		j.Task.now = begin.Add(time.Duration(c.after) * time.Millisecond)
		if in, _ := j.pick(); (in != nil) != c.taken {
			t.Errorf("after %d ms: taken %v", c.after, in != nil)
		}
	}
}
