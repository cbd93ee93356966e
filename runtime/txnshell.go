package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/transactions"
)

// txnShell performs what the transaction pool asks for, and the commits and
// fences that the coordinator makes for instances that are gone. It belongs to
// the loop but for the counters.
type txnShell struct {
	i    *instance
	pool *transactions.Pool
	exec *transactions.Executor

	waiting   map[uint64]*kafka.Builder // written, not sent yet
	nextBatch uint64
	producers map[ids.TxnHandle]*sinkProducer
	others    map[commitKey]*transactions.Finisher
	logEnds   map[ids.TxnHandle]int64 // taken by ReadLog (R23)
	asked     int                     // transactional ids the pool ever asked for
	wanted    int                     // transactional ids to have registered
}

type commitKey struct {
	n     ids.CheckpointID
	owner ids.InstanceID
}

// sinkProducer is the writer's end of one transaction.
type sinkProducer struct {
	p           *kafka.Producer
	outstanding int
}

// useIDs makes the pool when the life is known, and hands registered ids over.
func (i *instance) useIDs(e barrier.DoUseIDs) {
	if i.txns == nil {
		i.adoptLife(e.Life)
		pool := transactions.NewPool(transactions.Config{
			Application: i.cfg.ApplicationID, Life: e.Life, Instance: i.self,
			ToleratedAborts: i.cfg.ToleratedAborts, Groups: transacting(graphOf(i.plan, i.cfg.Guarantee)), Rules: i.cfg.TestRules.Transactions,
		})
		i.txns = newTxnShell(i, pool)
		i.txns.wanted = len(e.IDs)
		i.txns.step(transactions.Opened{})
	}
	i.txns.step(transactions.Registered{IDs: e.IDs})
}

func newTxnShell(i *instance, pool *transactions.Pool) *txnShell {
	s := &txnShell{
		i: i, pool: pool, waiting: map[uint64]*kafka.Builder{}, producers: map[ids.TxnHandle]*sinkProducer{},
		others: map[commitKey]*transactions.Finisher{}, logEnds: map[ids.TxnHandle]int64{},
	}
	s.exec = transactions.NewExecutor(s.client(), i.mono, func(ev transactions.Event) {
		i.loop.post(func() { s.answer(ev) })
	}, 0)
	return s
}

// client fills the executor's seam from the Kafka client.
func (s *txnShell) client() transactions.Client {
	t, cfg := s.i.client.Transactions(), s.i.cfg
	return transactions.Client{
		InitProducerID: func(ctx context.Context, id string) (int64, int16, error) {
			h, err := t.Init(ctx, id, cfg.TransactionTimeout)
			return h.ProducerID, h.ProducerEpoch, coded(err)
		},
		AddPartitions: func(ctx context.Context, h ids.TxnHandle, tps []ids.TopicPartition) error {
			err := t.AddPartitions(ctx, h, tps)
			s.noTopic(err)
			return coded(err)
		},
		AddOffsets: func(ctx context.Context, h ids.TxnHandle) error {
			return coded(t.AddOffsets(ctx, h, cfg.ApplicationID))
		},
		TxnOffsetCommit: func(ctx context.Context, h ids.TxnHandle, metadata string, offsets []transactions.Offset) error {
			list := make([]kafka.Offset, len(offsets))
			for n, o := range offsets {
				list[n] = kafka.Offset{TP: o.Partition, Offset: o.Next, Metadata: metadata}
				if cfg.TestRules.OffsetsAhead {
					list[n].Offset += 100
				}
			}
			return coded(t.CommitOffsets(ctx, h, cfg.ApplicationID, list))
		},
		EndTxn: func(ctx context.Context, h ids.TxnHandle, commit bool) error {
			return coded(t.End(ctx, h, commit))
		},
		Describe: func(ctx context.Context, id string) (int64, int16, transactions.TxnState, error) {
			m, err := t.Describe(ctx, id)
			if err != nil {
				return 0, 0, "", coded(err)
			}
			st := m[id]
			if !st.Found {
				return 0, 0, "", transactions.TxnIDNotFound
			}
			return st.Handle.ProducerID, st.Handle.ProducerEpoch, transactions.TxnState(st.State), nil
		},
	}
}

// noTopic ends the application when an output topic is gone: no other start would
// find it.
func (s *txnShell) noTopic(err error) {
	if code, _ := kafka.Code(err); code == unknownTopic && permanent(err) {
		s.i.loop.post(func() { s.i.end(fmt.Errorf("write output: %w", err)) })
	}
}

// coded turns the client's errors into what the machines distinguish: a Kafka
// code, or no definite answer.
func coded(err error) error {
	if err == nil {
		return nil
	}
	if kafka.InDoubt(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if code, ok := kafka.Code(err); ok {
		return fmt.Errorf("%w: %w", transactions.Code(code), err)
	}
	return fmt.Errorf("%w: %w", transactions.NotSent, err)
}

// step gives the pool an event. It is harmless before the pool exists.
func (s *txnShell) step(ev transactions.Event) {
	if s == nil {
		return
	}
	for _, e := range s.pool.Step(ev) {
		s.perform(e)
	}
}

// answer hands a request's answer to the pool and to the coordinator's
// finishers; each ignores what it does not wait for.
func (s *txnShell) answer(ev transactions.Event) {
	s.step(ev)
	for key, f := range s.others {
		for _, e := range f.Step(ev) {
			s.perform(e)
		}
		if f.Done() {
			delete(s.others, key)
		}
	}
}

func (s *txnShell) perform(e transactions.Effect) {
	if s.exec.Do(e) {
		return
	}
	i := s.i
	switch e := e.(type) {
	case transactions.Register:
		// The pool numbers its ids without gaps: the total is what it asked for
		// so far, or what the machine registered by itself.
		s.asked += len(e.IDs)
		s.wanted = max(s.wanted, s.asked)
		i.post(barrier.EvWantIDs{Count: s.wanted})
	case transactions.Send:
		s.send(e)
	case transactions.Drop:
		s.drop(e)
	case transactions.Prepared:
		i.loop.post(func() { i.prepared(e.N) })
	case transactions.WriteCommitted:
		i.post(barrier.EvCommitted{N: e.N, Owner: e.Owner})
	case transactions.ReadLog:
		s.readLog(e)
	case transactions.Lost:
		i.post(barrier.EvCommitLost{
			N: e.Err.N, Owner: e.Err.Owner, Handle: e.Err.Txn.Handle,
			Of: e.Of, LogEnd: s.logEnds[e.Err.Txn.Handle], Detail: e.Err.Answer(),
		})
	case transactions.Failed:
		i.failEach(e.Tasks, e.Err)
	case transactions.Fatal:
		i.loop.post(func() { i.end(e.Err) })
	case transactions.Warn:
		i.log.Warn(e.Text)
	default:
		i.loop.post(func() { i.end(fmt.Errorf("internal error: no reaction to effect %T", e)) })
	}
}

// write hands a task's finished sink batch to the pool; on the loop.
func (s *txnShell) write(task ids.TaskID, b *kafka.Builder, first, last int64) {
	s.nextBatch++
	s.waiting[s.nextBatch] = b
	s.step(transactions.Write{
		Now: s.i.mono(), Task: task, Partition: b.TP(), Batch: s.nextBatch, FirstTime: first, LastTime: last,
	})
}

// send enqueues a batch on the transaction's producer.
func (s *txnShell) send(e transactions.Send) {
	b, ok := s.waiting[e.Batch]
	if !ok {
		return
	}
	delete(s.waiting, e.Batch)
	s.i.waitingBytes.Add(-int64(b.Bytes()))
	p := s.producers[e.Handle]
	if p == nil {
		p = &sinkProducer{p: s.i.writer.NewProducer(kafka.ProducerOptions{
			ID: e.Handle.ProducerID, Epoch: e.Handle.ProducerEpoch, TransactionalID: e.Handle.TransactionalID,
			PartitionsAdded: true,
		})}
		s.producers[e.Handle] = p
	}
	p.outstanding++
	p.p.EnqueueThen(b, kafka.Token{}, func(err error) {
		s.i.loop.post(func() {
			p.outstanding--
			code := transactions.OK
			if err != nil {
				code = transactions.Abandoned
				if c, ok := kafka.Code(err); ok {
					code = transactions.Code(c)
				}
				s.i.sinkFailed(e, err)
			}
			s.step(transactions.BatchAnswer{Now: s.i.mono(), Txn: e.Txn, Task: e.Task, Partition: e.Partition, Code: code})
			s.forget(e.Handle, p)
		})
	})
}

// forget closes the producers of transactions that ended.
func (s *txnShell) forget(h ids.TxnHandle, p *sinkProducer) {
	if p.outstanding > 0 {
		return
	}
	for other, q := range s.producers {
		// One transactional id has one transaction at a time (R20).
		if other != h && other.TransactionalID == h.TransactionalID && q.outstanding == 0 {
			q.p.Close()
			delete(s.producers, other)
		}
	}
}

// drop forgets batches that nobody wants any more and stops repeating those
// that are on the way; their barriers answer with an error.
func (s *txnShell) drop(e transactions.Drop) {
	for _, n := range e.Batches {
		if b, ok := s.waiting[n]; ok {
			s.i.waitingBytes.Add(-int64(b.Bytes()))
			b.Discard()
			delete(s.waiting, n)
		}
	}
	for h, p := range s.producers {
		if p.outstanding > 0 && slices.Contains(e.Txns, h) {
			p.p.Close()
			delete(s.producers, h)
		}
	}
}

// commit ends the transactions that a completed checkpoint lists (R19).
func (s *txnShell) commit(e barrier.DoCommit) {
	if e.Owner == s.i.self {
		defer s.i.phase("committing") // the requests are on their way
		handles := make([]ids.TxnHandle, len(e.Txns))
		for n, t := range e.Txns {
			handles[n] = t.Handle
		}
		s.step(transactions.Completed{N: e.N, Handles: handles})
		return
	}
	key := commitKey{e.N, e.Owner}
	if s.others[key] != nil {
		return
	}
	list := make([]transactions.Listed, len(e.Txns))
	for n, t := range e.Txns {
		list[n] = transactions.Listed{Handle: t.Handle, Age: time.Duration(t.Age) * time.Millisecond, Topics: t.Topics}
	}
	f := transactions.NewFinisher(e.N, e.Owner, list)
	s.others[key] = f
	s.i.log.Info("committing for an instance that is gone", "checkpoint", e.N, "owner", e.Owner.String(), "transactions", len(list))
	for _, eff := range f.Start() {
		s.perform(eff)
	}
	if f.Done() { // nothing was listed
		delete(s.others, key)
		s.i.post(barrier.EvCommitted{N: e.N, Owner: e.Owner})
	}
}

// readLog takes the log's end; the machine judges by it if the transaction
// turns out lost.
func (s *txnShell) readLog(e transactions.ReadLog) {
	s.i.background(func(ctx context.Context) {
		s.i.retry(ctx, "find the end of the control log", func(ctx context.Context) error {
			end, err := s.i.logEnd(ctx)
			if err == nil {
				s.i.loop.post(func() {
					s.logEnds[e.Handle] = end
					s.answer(transactions.LogRead{Handle: e.Handle})
				})
			}
			return err
		})
	})
}

// fence draws new epochs on the ids of a dead instance: what it left open is
// aborted, and it cannot go on (R27).
func (s *txnShell) fence(e barrier.DoFence) {
	s.i.log.Info("an instance is gone; its open transactions are aborted", "gone", e.Instance.String())
	s.i.background(func(ctx context.Context) {
		t := s.i.client.Transactions()
		for _, id := range e.IDs {
			if !s.i.retry(ctx, "fence "+id, func(ctx context.Context) error {
				_, err := t.Init(ctx, id, s.i.cfg.TransactionTimeout)
				return err
			}) {
				return
			}
		}
		s.i.post(barrier.EvFenced{Instance: e.Instance})
	})
}

// close gives up what is under way; prepared transactions are left alone.
func (s *txnShell) close() {
	if s == nil {
		return
	}
	s.exec.Close()
	for _, p := range s.producers {
		p.p.Close()
	}
}

// retry repeats op until it succeeds or ctx ends, and reports which. What will
// never succeed ends the instance.
func (i *instance) retry(ctx context.Context, what string, op func(context.Context) error) bool {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		try, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := op(try)
		cancel()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if permanent(err) {
			i.loop.post(func() { i.end(fmt.Errorf("%s: %w", what, err)) })
			return false
		}
		i.log.Warn("retrying", "what", what, "error", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}

// permanent reports errors that repetition does not mend.
func permanent(err error) bool {
	var fin *finalError
	var remade *kafka.TopicRemadeError
	if errors.As(err, &fin) || errors.As(err, &remade) {
		return true
	}
	switch kafka.Classify(err) {
	case kafka.ClassAuthorization, kafka.ClassInvalid:
		_, isKafka := kafka.Code(err)
		return isKafka
	}
	return false
}

// finalError marks an error that must not be retried.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

func final(err error) error { return &finalError{err} }
