package runtime

import (
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/rebalance"
)

// logWarmups are the tasks of others that this instance follows because it is to
// get them. It belongs to the loop.
type logWarmups struct {
	warm, next []ids.TaskID // see rebalance.Share
	asked      bool         // since the last assignment
	since      time.Time    // of that assignment, or of the last asking
	looked     time.Time
}

// lookEvery is how often an instance looks how far it has come.
const lookEvery = 200 * time.Millisecond

// assigned takes what a new generation says.
func (w *logWarmups) assigned(a rebalance.Assigned) {
	w.warm, w.next, w.asked, w.since = a.Warm, a.Next, false, time.Now()
}

func (w *logWarmups) has(t ids.TaskID) bool {
	return slices.Contains(w.warm, t) || slices.Contains(w.next, t)
}

// probe tells the group's side what this instance holds, and joins again when that
// gives it a task: as soon as all warm-ups are near, or one is after a while.
func (i *logInstance) probe() {
	w := &i.warmups
	if time.Since(w.looked) < lookEvery || i.exiting {
		return
	}
	w.looked = time.Now()
	held := i.held()
	i.group.setHeld(held)
	near := 0
	for _, h := range held {
		if slices.Contains(w.warm, h.Task) && h.Size == 0 && h.Behind <= i.cfg.AcceptableLag {
			near++
		}
	}
	if near == 0 || (near < len(w.warm) || w.asked) && time.Since(w.since) < i.cfg.ProbingInterval {
		return
	}
	i.log.Info("near enough to take tasks over: joining again", "near", near, "followed", len(w.warm))
	w.asked, w.since = true, time.Now()
	i.group.rejoin()
}

// held is what this instance has of the state of tasks, sorted.
func (i *logInstance) held() (list []rebalance.Held) {
	for _, r := range i.runs {
		if n := r.size(); n > 0 {
			list = append(list, rebalance.Held{Task: r.id.Task, Size: n})
		}
	}
	for t, s := range i.standbys {
		if n := s.behind.Load(); n >= 0 {
			list = append(list, rebalance.Held{Task: t, Behind: n})
		}
	}
	slices.SortFunc(list, func(a, b rebalance.Held) int { return a.Task.Compare(b.Task) })
	return list
}

// size is how many records of changelogs a task's state is read from where there
// is none of it; 0 while that is not known.
func (r *logRun) size() (n int64) {
	if !r.adopted || r.closing {
		return 0
	}
	for _, b := range r.bounds {
		n += b.End - b.Start
	}
	return max(n, 1)
}

// statefulTask reports whether a task has state that is read from changelogs.
func (i *logInstance) statefulTask(t ids.TaskID) bool {
	for _, s := range i.storeSpecs(t) {
		if !s.Unlogged {
			return true
		}
	}
	return false
}
