package runtime

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/topology"
	"github.com/tidegate/tidegate/transactions"
)

// cachedPart is the part that this instance stored last; a coordinator need not
// read it back.
type cachedPart struct {
	key  string
	part checkpoint.Part
}

// manifestTries is how often a manifest is stored before the checkpoint is
// aborted; each try repeats what is unavailable by itself.
const manifestTries = 2

// storeManifest makes and stores the manifest of n (R17).
func (i *instance) storeManifest(e barrier.DoStoreManifest) {
	i.phase("manifest") // only the coordinator comes here
	own := i.partCache
	i.background(func(ctx context.Context) {
		var key string
		var m checkpoint.Manifest
		var err error
		for range manifestTries {
			if m, err = i.makeManifest(ctx, e, own); err == nil {
				key, err = i.catalog.PutManifest(ctx, m)
			}
			if err == nil || ctx.Err() != nil || errors.Is(err, checkpoint.ErrExists) {
				break
			}
			i.log.Warn("storing the manifest failed", "checkpoint", int64(e.N), "error", err)
		}
		if err != nil {
			i.post(barrier.EvManifestFailed{N: e.N, Term: e.Term, Detail: err.Error()})
			return
		}
		i.phase("stored")
		i.post(barrier.EvManifestStored{N: e.N, Term: e.Term, Key: key})
	})
}

func (i *instance) makeManifest(ctx context.Context, e barrier.DoStoreManifest, own cachedPart) (checkpoint.Manifest, error) {
	m := i.newManifest(e.N, e.Term)
	for _, a := range e.Acks {
		part := own.part
		if a.Ack.Part != own.key {
			var err error
			if part, err = i.catalog.LoadPart(ctx, a.Ack.Part); err != nil {
				return m, fmt.Errorf("read the part that %s acked; do all instances share one checkpoint store? %w", a.Instance, err)
			}
		}
		if err := m.AddPart(a.Ack.Part, part); err != nil {
			return m, err
		}
		for _, t := range a.Ack.Txns {
			m.Transactions = append(m.Transactions, checkpoint.TransactionInfo{Owner: a.Instance, Handle: t.Handle})
		}
		for _, t := range part.Tasks {
			if inFlight(t, e.N) {
				m.Aligned = false
			}
		}
	}
	if err := i.carry(ctx, &m, e); err != nil {
		return m, err
	}
	for _, g := range e.Lineages.Groups {
		for _, t := range g.Tasks {
			l := checkpoint.Lineage{Task: t}
			for _, p := range g.Lineage {
				if p.End == ids.NoCheckpoint {
					l.Open = p.Inc
				} else {
					l.Closed = append(l.Closed, checkpoint.ClosedPair{Incarnation: p.Inc, End: p.End})
				}
			}
			m.Lineages = append(m.Lineages, l)
		}
	}
	m.Sort()
	return m, nil
}

// carry lists tasks that took no part as the base does (R26). What they still have
// to read of it stays in the repartition topics.
func (i *instance) carry(ctx context.Context, m *checkpoint.Manifest, e barrier.DoStoreManifest) error {
	if len(e.Carried) == 0 {
		return nil
	}
	base, err := i.catalog.Load(ctx, e.Base.Manifest)
	if err != nil {
		return fmt.Errorf("read checkpoint %d, which still holds tasks %v: %w", e.Base.N, taskNames(e.Carried), err)
	}
	m.Aligned = false
	return m.Carry(base, e.Carried, func(key string) (checkpoint.Part, error) { return i.catalog.LoadPart(ctx, key) })
}

// inFlight reports whether a task left records of n in its channels (R10).
func inFlight(t checkpoint.TaskPart, n ids.CheckpointID) bool {
	var positions []barrier.PartitionPosition
	if json.Unmarshal(t.Positions, &positions) != nil {
		return true
	}
	for _, p := range positions {
		if p.InFlight(n) {
			return true
		}
	}
	return false
}

// newManifest fills in what is the same for every checkpoint of this topology.
func (i *instance) newManifest(n ids.CheckpointID, term int64) checkpoint.Manifest {
	m := checkpoint.Manifest{
		App: i.cfg.ApplicationID, Life: i.life, Checkpoint: n, Term: term, Topology: i.fingerprint,
		Aligned: true, Created: time.Now().UnixMilli(),
	}
	for _, s := range i.plan.Subtopologies() {
		for _, info := range storeInfos(s.Stores) {
			m.Operators = append(m.Operators, checkpoint.OperatorInfo{
				Name: info.Operator, Subs: []int32{s.Number}, Stores: []checkpoint.StoreInfo{info},
			})
		}
	}
	internal := map[string]int32{i.controlTopic: 1}
	for _, t := range i.plan.InternalTopics() {
		internal[t.Topic] = t.Partitions
	}
	for _, name := range i.topicNames() {
		id := i.topicIDs[name]
		parts, isInternal := internal[name]
		if !isInternal {
			parts = i.plan.Partitions(name)
		}
		m.Topics = append(m.Topics, checkpoint.TopicID{Topic: name, ID: hex.EncodeToString(id[:]), Internal: isInternal, Partitions: parts})
	}
	m.Sort()
	return m
}

// storeZero resolves and stores checkpoint 0 (R24 step 4): where external
// inputs begin, and the ends of the repartition topics.
func (i *instance) storeZero(e barrier.DoStoreZero) {
	i.background(func(ctx context.Context) {
		i.retry(ctx, "store checkpoint 0", func(ctx context.Context) error {
			m := i.newManifest(0, e.Term)
			var err error
			if i.cfg.StartFrom != "" {
				err = i.plantSeed(ctx, &m)
			} else {
				m.External, err = i.firstOffsets(ctx, i.externalPartitions())
			}
			if err != nil {
				return err
			}
			if m.Ends, err = i.repartitionEnds(ctx); err != nil {
				return err
			}
			m.Sort()
			key, err := i.catalog.PutManifest(ctx, m)
			if errors.Is(err, checkpoint.ErrExists) {
				// An earlier try of this term was stored with other ends: it is
				// as good.
				key, err = i.names.Manifest(0, e.Term), nil
			}
			if err == nil {
				i.post(barrier.EvZeroStored{Term: e.Term, Key: key})
			}
			return err
		})
	})
}

// firstOffsets: the group's offsets where there are any, else the reset policy.
func (i *instance) firstOffsets(ctx context.Context, tps []ids.TopicPartition) ([]checkpoint.ExternalOffset, error) {
	committed, err := i.admin.FetchOffsets(ctx, i.cfg.ApplicationID, tps...)
	if err != nil {
		return nil, fmt.Errorf("fetch the group's offsets: %w", err)
	}
	var out []checkpoint.ExternalOffset
	ask := map[int64][]ids.TopicPartition{}
	for _, tp := range tps {
		if o, ok := committed[tp]; ok && o.Offset >= 0 {
			out = append(out, checkpoint.ExternalOffset{TopicPartition: tp, Offset: o.Offset})
			continue
		}
		at := kafka.Earliest
		if reset := i.plan.Reset(tp.Topic); reset == topology.ResetLatest || reset == topology.ResetDefault && i.cfg.OffsetReset == Latest {
			at = kafka.LastStable
		}
		ask[at] = append(ask[at], tp)
	}
	for at, list := range ask {
		found, err := i.admin.ListOffsets(ctx, at, list...)
		if err != nil {
			return nil, fmt.Errorf("find where the input topics begin: %w", err)
		}
		for tp, o := range found {
			out = append(out, checkpoint.ExternalOffset{TopicPartition: tp, Offset: o})
		}
	}
	return out, nil
}

func (i *instance) repartitionEnds(ctx context.Context) ([]checkpoint.ExternalOffset, error) {
	var tps []ids.TopicPartition
	for _, t := range i.plan.InternalTopics() {
		for p := range t.Partitions {
			tps = append(tps, ids.TopicPartition{Topic: t.Topic, Partition: p})
		}
	}
	if len(tps) == 0 {
		return nil, nil
	}
	found, err := i.admin.ListOffsets(ctx, kafka.Latest, tps...)
	if err != nil {
		return nil, fmt.Errorf("find the ends of the repartition topics: %w", err)
	}
	var out []checkpoint.ExternalOffset
	for tp, o := range found {
		out = append(out, checkpoint.ExternalOffset{TopicPartition: tp, Offset: o})
	}
	return out, nil
}

// externalPartitions lists all external input partitions.
func (i *instance) externalPartitions() []ids.TopicPartition {
	var out []ids.TopicPartition
	for _, topic := range i.plan.Inputs() {
		for p := range i.plan.Partitions(topic) {
			out = append(out, ids.TopicPartition{Topic: topic, Partition: p})
		}
	}
	return out
}

// lookForLoss looks for traces of an earlier control log (R24 step 3).
func (i *instance) lookForLoss(e barrier.DoLookForLoss) {
	i.background(func(ctx context.Context) {
		i.retry(ctx, "look for traces of an earlier control log", func(ctx context.Context) error {
			evidence, err := i.traces(ctx, e.Life)
			if err != nil {
				return err
			}
			end, err := i.logEnd(ctx)
			if err == nil {
				i.post(barrier.EvLossLooked{Evidence: evidence, LogEnd: end})
			}
			return err
		})
	})
}

func (i *instance) traces(ctx context.Context, life ids.Life) (string, error) {
	if i.cfg.StartFrom != "" {
		return "", nil // it is known, and this says what to begin with
	}
	committed, err := i.admin.FetchOffsets(ctx, i.cfg.ApplicationID, i.externalPartitions()...)
	if err != nil {
		return "", fmt.Errorf("fetch the group's offsets: %w", err)
	}
	for _, tp := range i.externalPartitions() {
		o, ok := committed[tp]
		if !ok {
			continue
		}
		if old, n, ours := transactions.ParseOffsetMetadata(o.Metadata); ours && (old != life || n > 0) {
			return fmt.Sprintf("consumer group %s has an offset of %s written by checkpoint %d of life %s", i.cfg.ApplicationID, tp, n, old), nil
		}
	}
	marked, err := checkpoint.ListAllMarked(ctx, i.cfg.Store, i.cfg.ApplicationID, checkpoint.Retry{})
	if err != nil {
		return "", err
	}
	if len(marked) > 0 {
		last := marked[len(marked)-1]
		return fmt.Sprintf("checkpoint store %s holds checkpoint %d of life %s", i.cfg.Store, last.Checkpoint, last.Life), nil
	}
	return "", nil
}
