package sim

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/transactions"
)

// performCoordinator carries out the effects that only a coordinator has.
func (p *process) performCoordinator(e barrier.Effect) {
	switch e := e.(type) {
	case barrier.DoStoreManifest:
		p.storeManifest(e, 0)
	case barrier.DoMark:
		p.storeUntil(&object{key: manifestKey(e.Life, e.Ref.N, -1), life: e.Life, n: e.Ref.N, marker: true}, func() {
			p.step(barrier.EvMarked{N: e.Ref.N})
		})
		p.w.oracle.marked(e.Ref)
	case barrier.DoFence:
		left := len(e.IDs)
		if left == 0 {
			p.step(barrier.EvFenced{Instance: e.Instance})
		}
		for _, id := range e.IDs {
			p.fence(id, 0, func() {
				if left--; left == 0 {
					p.step(barrier.EvFenced{Instance: e.Instance})
				}
			})
		}
	case barrier.DoCheckOffsets:
		p.checkOffsets(e)
	case barrier.DoWriteOffsets:
		p.writeOffsets(e)
	case barrier.DoLookForLoss:
		p.lookForLoss(e)
	case barrier.DoStoreZero:
		p.storeZero(e)
	case barrier.DoClean:
		p.clean(e)
	case barrier.DoPurge:
		p.purge(e)
	case barrier.DoTrim:
		p.trim(e, 0)
	default:
		p.w.fail("the simulation does not know effect %T", e)
	}
}

func manifestKey(life ids.Life, n ids.CheckpointID, term int64) string {
	if term < 0 {
		return fmt.Sprintf("%s/%s/%d/marker", appID, life, n)
	}
	return fmt.Sprintf("%s/%s/%d/manifest-%d", appID, life, n, term)
}

// storeManifest puts the manifest unless there is one, which must be the same
// (R17).
func (p *process) storeManifest(e barrier.DoStoreManifest, attempt int) {
	s := &p.w.store
	o := &object{key: manifestKey(e.Life, e.N, e.Term), life: e.Life, n: e.N, manifest: &manifest{n: e.N, acks: slices.Clone(e.Acks)}}
	s.request(p, func() outcome {
		var ok bool
		if o.manifest.carried, ok = s.carry(e.Base, e.Carried); !ok {
			return missing
		}
		res := s.put(o, true)
		if res == exists && reflect.DeepEqual(s.get(o.key).manifest, o.manifest) {
			res = done
		}
		return res
	}, func(res outcome) {
		switch {
		case res == done:
			p.step(barrier.EvManifestStored{N: e.N, Term: e.Term, Key: o.key})
		case res == failed && attempt < 4:
			p.storeManifest(e, attempt+1)
		default:
			p.step(barrier.EvManifestFailed{N: e.N, Term: e.Term, Detail: o.key})
		}
	})
}

func (p *process) storeUntil(o *object, then func()) {
	p.w.store.request(p, func() outcome { return p.w.store.put(o, true) }, func(res outcome) {
		if res == failed {
			p.later(p.w.backoff(1), func() { p.storeUntil(o, then) })
			return
		}
		then()
	})
}

func (p *process) fence(id string, attempt int, then func()) {
	p.retry(attempt, func() {
		callAs(p, p.w.initFate(), func() transactions.Code {
			_, c := p.w.txns.initProducer(id)
			return c
		}, func(c transactions.Code, ok bool) {
			if !ok || c != transactions.OK {
				p.fence(id, attempt+1, then)
				return
			}
			then()
		})
	})
}

// external returns the stored input offsets of a checkpoint.
func (s *store) external(ref barrier.CheckpointRef) (offs []groupOffset, absent string) {
	parts, absent := s.parts(ref.Manifest)
	for _, pt := range parts {
		for _, tp := range pt.tasks {
			offs = append(offs, tp.inputs...)
		}
	}
	return offs, absent
}

// checkOffsets compares the group's offsets with the checkpoint's (R28).
func (p *process) checkOffsets(e barrier.DoCheckOffsets) {
	p.checks++ // an earlier one is replaced
	p.checkOffsetsAs(e, p.checks)
}

func (p *process) checkOffsetsAs(e barrier.DoCheckOffsets, check int) {
	w := p.w
	type answer struct {
		unstable bool
		refusal  string
	}
	call(p, func() answer {
		if w.txns.unstable() {
			return answer{unstable: true}
		}
		want, absent := w.store.external(e.Ref)
		if absent != "" {
			return answer{refusal: "missing " + absent}
		}
		if len(w.offsets) == 0 {
			return answer{}
		}
		for _, o := range want {
			got, ok := w.offsets.find(o.tp)
			if !ok {
				return answer{refusal: fmt.Sprintf("offset of %s is absent", o.tp)}
			}
			life, n, tagged := transactions.ParseOffsetMetadata(got.meta)
			if !tagged || life != e.Life || n > e.Ref.N || n == e.Ref.N && got.next != o.next {
				return answer{refusal: fmt.Sprintf("offset of %s is %d with tag %q, checkpoint %d has %d", o.tp, got.next, got.meta, e.Ref.N, o.next)}
			}
		}
		return answer{}
	}, func(a answer, ok bool) {
		if p.checks != check {
			return
		}
		if !ok || a.unstable {
			p.later(20, func() { p.checkOffsetsAs(e, check) })
			return
		}
		p.answerOffsets(barrier.EvOffsetsChecked{N: e.Ref.N, Refusal: a.refusal}, check)
	})
}

// answerOffsets asks for the end of the control log before it answers.
func (p *process) answerOffsets(ev barrier.EvOffsetsChecked, check int) {
	call(p, func() int64 { return int64(len(p.w.log.records)) }, func(end int64, ok bool) {
		switch {
		case p.checks != check:
		case !ok:
			p.answerOffsets(ev, check)
		default:
			ev.LogEnd = end
			p.step(ev)
		}
	})
}

// writeOffsets overwrites the group's offsets, as a member of the newest
// generation: that refuses a coordinator that was replaced and does not know.
func (p *process) writeOffsets(e barrier.DoWriteOffsets) {
	w := p.w
	epoch, id, gen := p.epoch, p.id, p.member.generation
	w.after(w.latency(), func() {
		refused := !w.group.accepts(id, gen)
		if !refused {
			offs, _ := w.store.external(e.Ref)
			for i := range offs {
				w.txns.appended++
				offs[i].at, offs[i].meta = w.txns.appended, transactions.OffsetMetadata(e.Life, e.Ref.N)
			}
			w.offsets.apply(w, offs)
		}
		p.laterAs(epoch, w.latency(), func() {
			if refused {
				p.later(20, func() {
					if p.m.Leading() { // else nobody wants it any more
						p.writeOffsets(e)
					}
				})
				return
			}
			p.step(barrier.EvOffsetsWritten{N: e.Ref.N})
		})
	})
}

func (p *process) lookForLoss(e barrier.DoLookForLoss) {
	call(p, func() string {
		for _, o := range p.w.offsets {
			if _, _, ok := transactions.ParseOffsetMetadata(o.meta); ok {
				return "offset of " + o.tp.String()
			}
		}
		for _, o := range p.w.store.list {
			if o.marker && !o.gone {
				return "marker " + o.key
			}
		}
		return ""
	}, func(found string, ok bool) {
		if !ok {
			p.lookForLoss(e)
			return
		}
		p.answerLoss(barrier.EvLossLooked{Evidence: found})
	})
}

// answerLoss asks for the end of the control log before it answers.
func (p *process) answerLoss(ev barrier.EvLossLooked) {
	call(p, func() int64 { return int64(len(p.w.log.records)) }, func(end int64, ok bool) {
		if !ok {
			p.answerLoss(ev)
			return
		}
		ev.LogEnd = end
		p.step(ev)
	})
}

// storeZero resolves checkpoint 0.
func (p *process) storeZero(e barrier.DoStoreZero) {
	w := p.w
	pt := &part{}
	for i, sub := range w.plan.topology() {
		for _, t := range tasksOf(i, sub.partitions) {
			tp := taskPart{task: t, times: barrier.TimesState{Stream: barrier.NoTime}}
			for _, in := range sub.inputs {
				at := ids.TopicPartition{Topic: in.topic, Partition: t.Partition}
				if in.source {
					tp.inputs = append(tp.inputs, groupOffset{tp: at})
				} else {
					tp.positions = append(tp.positions, barrier.FirstPosition(at, w.partition(at).end))
				}
			}
			pt.tasks = append(pt.tasks, tp)
		}
	}
	o := &object{key: manifestKey(e.Life, 0, e.Term), life: e.Life, manifest: &manifest{zero: pt}}
	p.storeUntil(o, func() { p.step(barrier.EvZeroStored{Term: e.Term, Key: o.key}) })
}

// clean deletes what no retained checkpoint holds (R30).
func (p *process) clean(e barrier.DoClean) {
	w := p.w
	var doomed []string
	w.store.request(p, func() outcome {
		doomed = doomed[:0]
		held := map[string]bool{}
		for _, ref := range e.Keep {
			if _, absent := w.store.parts(ref.Manifest); absent != "" {
				return missing // do not guess
			}
			for _, key := range w.store.needs(ref.Manifest) {
				held[key] = true
			}
			held[manifestKey(e.Life, ref.N, -1)] = true
		}
		for _, o := range w.store.list {
			if !o.gone && o.life == e.Life && o.n < e.Before && !held[o.key] {
				doomed = append(doomed, o.key)
			}
		}
		return done
	}, func(res outcome) {
		if res == done {
			for _, key := range doomed {
				w.store.request(p, func() outcome { w.store.delete(key); return done }, func(outcome) {})
			}
		}
		p.step(barrier.EvCleaned{})
	})
}

// purge deletes repartition records that no checkpoint needs (R29).
func (p *process) purge(e barrier.DoPurge) {
	w := p.w
	call(p, func() bool {
		parts, absent := w.store.parts(e.Last.Manifest)
		if absent != "" {
			return false
		}
		for _, rp := range w.parts {
			below := rp.end
			for _, pos := range positionsOf(parts, rp.tp) {
				below = min(below, pos.Next)
			}
			for _, ref := range e.Keep {
				kept, absent := w.store.parts(ref.Manifest)
				if absent != "" {
					return false
				}
				for _, pos := range positionsOf(kept, rp.tp) {
					if pos.InFlight(ref.N) {
						below = min(below, pos.Next)
					}
				}
			}
			if w.rules.PurgeConsumed {
				below = max(below, rp.consumed)
			}
			rp.purge(below)
		}
		return true
	}, func(bool, bool) {})
}

func positionsOf(parts []*part, tp ids.TopicPartition) (out []barrier.PartitionPosition) {
	for _, pt := range parts {
		for _, t := range pt.tasks {
			for _, pos := range t.positions {
				if pos.Partition == tp {
					out = append(out, pos)
				}
			}
		}
	}
	return out
}
