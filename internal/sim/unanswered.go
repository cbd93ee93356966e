package sim

// txnFate is what becomes of a request to the transaction coordinator; permille
// is how many of its kind, beyond all others, get no answer. What was not
// answered may have been carried out, or may be later.
func (w *World) txnFate(permille int, count *int) fate {
	if !w.chaos || w.plan.gentle || w.now >= w.txnDown && !w.chance(permille) {
		return w.fate()
	}
	*count++
	switch w.rng.IntN(3) {
	case 0:
		return lost
	case 1:
		return mute
	}
	return late
}

// initFate is that of an InitProducerId, the pool's or a fence: one that is late
// ends whatever its id has open by then (R20).
func (w *World) initFate() fate { return w.txnFate(w.plan.initLost, &w.stats.UnansweredInits) }

// endFate is that of an EndTxn (R19).
func (w *World) endFate() fate { return w.txnFate(w.plan.endLost, &w.stats.UnansweredEnds) }

// otherFate is that of all others.
func (w *World) otherFate() fate {
	var n int
	return w.txnFate(0, &n)
}
