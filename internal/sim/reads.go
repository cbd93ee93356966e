package sim

import (
	"github.com/tidegate/tidegate/barrier"
)

// misread is what goes wrong with a fetch of the control log.
type misread uint8

const (
	readWell  misread = iota
	readLost          // the request or its answer: asked again after the timeout
	readTwice         // the answer was given up and asked for again, and comes both times
	readBack          // the reader begins anew some records before where it stood
)

func (w *World) misread() misread {
	if !w.chaos || w.plan.gentle {
		return readWell
	}
	switch n := w.rng.IntN(1000); {
	case n < 12:
		return readLost
	case n < 20:
		return readTwice
	case n < 28:
		return readBack
	}
	return readWell
}

// fetchLog reads the control log from where the machine stands, or from before
// that: what was read may come again, and never is anything left out.
func (p *process) fetchLog() {
	w, epoch, from := p.w, p.epoch, p.logPos
	kind := w.misread()
	switch kind {
	case readLost:
		if w.rules.ReadGap {
			p.logPos++
		}
		p.later(requestTimeout, p.fetchLog)
		return
	case readBack:
		from = max(0, from-w.between(1, 12))
	case readWell, readTwice:
	}
	w.after(w.latency(), func() {
		if p.epoch != epoch {
			return
		}
		w.log.serve(from, func(recs []barrier.Record, start int64) {
			delay := w.latency()
			if p.epoch == epoch && w.now < p.lagging {
				delay += p.lagging - w.now
			}
			if from < start {
				p.laterAs(epoch, delay, func() { p.below(start) })
				return
			}
			if kind == readTwice {
				p.laterAs(epoch, delay, func() { p.gotLog(from, recs) })
				delay += w.between(0, requestTimeout)
			}
			p.laterAs(epoch, delay, func() {
				if p.gotLog(from, recs) {
					p.fetchLog()
				}
			})
		})
	})
}

// gotLog hands records to the machine; it reports whether the run goes on.
func (p *process) gotLog(from int64, recs []barrier.Record) bool {
	epoch := p.epoch
	for i, r := range recs {
		off := from + int64(i)
		if off < p.logPos {
			p.w.stats.Rereads++
			if p.w.rules.ReadTwice {
				off = p.logPos
			}
		}
		p.logPos = max(p.logPos, off+1)
		p.step(barrier.EvRecord{Offset: off, Record: r})
		if p.epoch != epoch {
			return false
		}
	}
	p.step(barrier.EvLogRead{End: from + int64(len(recs))})
	if p.epoch == epoch {
		p.checkFold()
	}
	return p.epoch == epoch
}
