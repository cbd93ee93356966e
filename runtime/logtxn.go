package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/changelog"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
)

// logTxn writes intervals: with exactly-once each in a transaction of its own
// (R20), on two transactional ids in turn, whose producer ids are drawn ahead;
// with at-least-once all by one idempotent producer. It belongs to the loop.
type logTxn struct {
	i       *logInstance
	n       ids.CheckpointID // the interval being sent
	cur     *kafka.Producer  // nil while it is drawn
	next    *kafka.Producer  // drawn ahead
	turn    int              // of the id that is drawn next
	drawing bool
	life    int // counts drops: what an earlier one asked for is forgotten
	wait    []waitingBatch
	flushOf ids.CheckpointID // to be flushed once cur is there
}

type waitingBatch struct {
	n    ids.CheckpointID
	b    *kafka.Builder
	size int64
}

const logTxnIDs = 2

func newLogTxn(i *logInstance) *logTxn { return &logTxn{i: i, n: 1, flushOf: -1} }

// logTxnID is the k-th transactional id of an instance.
func logTxnID(application string, who ids.InstanceID, k int) string {
	return fmt.Sprintf("%s-changelog-%s-%016x-%d", application, who.Name, who.Rand, k)
}

// begin draws the producer id of the next transaction, which ends what is open
// on its transactional id. One is drawn at a time, also where a drop forgot what
// the one under way was for: of two requests for one id the broker may carry out
// the older one last, which would end the producer of the newer one. (A request
// whose answer was lost can do that still: the interval is given up then and its
// input read again.)
func (t *logTxn) begin() {
	if t.drawing || t.next != nil || t.i.exiting {
		return
	}
	i, life, turn := t.i, t.life, t.turn
	t.drawing = true
	i.background(func(ctx context.Context) {
		o := kafka.ProducerOptions{OnFail: func(err error) {
			i.loop.post(func() {
				if t.life == life {
					i.fail(fmt.Errorf("write records: %w", i.writeAdvice(err)))
				}
			})
		}}
		err := i.retry(ctx, "draw a producer id", func(ctx context.Context) (err error) {
			if i.cfg.Guarantee == AtLeastOnce {
				o.ID, o.Epoch, err = i.client.Transactions().InitProducer(ctx)
				return err
			}
			h, err := i.client.Transactions().Init(ctx, logTxnID(i.cfg.ApplicationID, i.self, turn), i.cfg.TransactionTimeout)
			o.ID, o.Epoch, o.TransactionalID = h.ProducerID, h.ProducerEpoch, h.TransactionalID
			return err
		})
		i.loop.post(func() {
			t.drawing = false
			if t.life != life {
				t.begin()
				return
			}
			if err != nil {
				i.fail(err)
				return
			}
			t.turn = (turn + 1) % logTxnIDs
			t.next = i.writer.NewProducer(o)
			t.advance()
		})
	})
}

// advance takes the next producer when one is needed, and sends what waited.
func (t *logTxn) advance() {
	if t.cur == nil && t.next != nil {
		t.cur, t.next = t.next, nil
		if t.i.cfg.Guarantee == ExactlyOnce {
			t.begin()
		}
	}
	if t.cur == nil {
		return
	}
	keep := t.wait[:0]
	for _, w := range t.wait {
		if w.n > t.n {
			keep = append(keep, w)
			continue
		}
		t.i.waitingBytes.Add(-w.size)
		t.cur.Enqueue(w.b, kafka.Token{})
	}
	clear(t.wait[len(keep):])
	t.wait = keep
	if t.flushOf == t.n {
		t.flush(t.n)
	}
}

// write takes a batch of interval n.
func (t *logTxn) write(n ids.CheckpointID, b *kafka.Builder, size int64) {
	if n > t.n || t.cur == nil {
		t.wait = append(t.wait, waitingBatch{n, b, size})
	} else {
		t.i.waitingBytes.Add(-size)
		t.cur.Enqueue(b, kafka.Token{})
	}
	if n <= t.n {
		t.i.step(changelog.EvWrote{N: t.n})
	}
}

// openInterval lets interval n be sent.
func (t *logTxn) openInterval(n ids.CheckpointID, fresh bool) {
	t.n, t.flushOf = n, -1
	if fresh && t.i.cfg.Guarantee == ExactlyOnce && t.cur != nil {
		t.cur.Close()
		t.cur = nil
	}
	written := false
	for _, w := range t.wait {
		written = written || w.n <= n
	}
	t.advance()
	t.begin()
	if written {
		t.i.post(changelog.EvWrote{N: n})
	}
}

// flush waits until all of interval n is acknowledged.
func (t *logTxn) flush(n ids.CheckpointID) {
	if t.cur == nil {
		t.flushOf = n
		return
	}
	t.flushOf = -1
	t.cur.Barrier(func(err error) {
		v := changelog.Done
		if err != nil {
			v = changelog.Lost
		}
		t.i.post(changelog.EvFlushed{N: n, Verdict: v, Err: err})
	})
}

// offsets adds offsets to the transaction, or commits them.
func (t *logTxn) offsets(e changelog.DoOffsets, list []kafka.Offset, err error) {
	i := t.i
	if err != nil {
		i.step(changelog.EvFatal{Err: err})
		return
	}
	for k := range list {
		if i.cfg.TestRules.OffsetsAhead {
			list[k].Offset += 100
		}
	}
	member := kafka.Membership{MemberID: e.Member, Generation: e.Generation}
	h := t.cur.Options().Handle()
	i.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, i.cfg.TransactionTimeout)
		defer cancel()
		var err error
		if i.cfg.Guarantee == AtLeastOnce {
			err = i.admin.CommitOffsets(ctx, i.cfg.ApplicationID, member, list)
		} else if err = i.client.Transactions().AddOffsets(ctx, h, i.cfg.ApplicationID); err == nil {
			err = i.client.Transactions().CommitOffsetsAs(ctx, h, i.cfg.ApplicationID, member, list)
		}
		ev := changelog.EvOffsets{N: e.N, Generation: e.Generation, Err: err}
		switch {
		case err == nil:
		case kafka.OldGeneration(err):
			ev.Verdict = changelog.NextGeneration
		case kafka.UnknownMember(err):
			ev.Verdict = changelog.NotMember
		case permanent(err):
			i.post(changelog.EvFatal{Err: fmt.Errorf("commit offsets: %w", err)})
			return
		default:
			ev.Verdict, ev.Err = changelog.Lost, fmt.Errorf("commit offsets: %w", err)
		}
		i.post(ev)
	})
}

// end commits the transaction.
func (t *logTxn) end(n ids.CheckpointID) {
	i := t.i
	if i.cfg.Guarantee == AtLeastOnce {
		i.post(changelog.EvEnded{N: n})
		return
	}
	h := t.cur.Options().Handle()
	i.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, i.cfg.TransactionTimeout)
		defer cancel()
		ev := changelog.EvEnded{N: n}
		if err := i.client.Transactions().End(ctx, h, true); err != nil {
			ev.Verdict, ev.Err = changelog.Lost, fmt.Errorf("commit the interval's transaction: %w", err)
		}
		i.post(ev)
	})
}

// lastOffset is that of the last record written to a partition in this interval,
// or -1.
func (t *logTxn) lastOffset(tp ids.TopicPartition) int64 {
	if t.cur == nil {
		return -1
	}
	return t.cur.LastOffset(tp)
}

// drop gives everything up. The transaction is aborted when its id is drawn
// again, which is at once.
func (t *logTxn) drop() {
	t.life++
	t.flushOf = -1
	for _, w := range t.wait {
		t.i.waitingBytes.Add(-w.size)
		w.b.Discard()
	}
	t.wait = nil
	if t.cur != nil {
		t.cur.Close()
		t.turn = t.turnOf(t.cur)
	}
	if t.next != nil {
		t.next.Close()
	}
	t.cur, t.next = nil, nil
	t.begin()
}

// turnOf finds which of the ids a producer has.
func (t *logTxn) turnOf(p *kafka.Producer) int {
	for k := range logTxnIDs {
		if logTxnID(t.i.cfg.ApplicationID, t.i.self, k) == p.Options().TransactionalID {
			return k
		}
	}
	return t.turn
}

// abort ends what is open, at the end of the instance, so that consumers need
// not wait for its timeout.
func (t *logTxn) abort() {
	t.life++
	if t.cur == nil || t.i.cfg.Guarantee == AtLeastOnce {
		return
	}
	if _, began := t.cur.Began(); !began {
		return
	}
	h := t.cur.Options().Handle()
	i := t.i
	t.cur.Close()
	t.cur = nil
	i.wg.Add(1)
	go func() {
		defer i.wg.Done()
		ctx, cancel := context.WithTimeout(context.Background(), endFor)
		defer cancel()
		if err := i.client.Transactions().End(ctx, h, false); err != nil && !kafka.LostTransaction(err) {
			i.log.Debug("could not abort the last transaction; its timeout does it", "error", err)
		}
	}()
}

// fence ends what instances left open that are out of the group; they cannot
// commit any more either, since the group refuses their offsets.
func (i *logInstance) fence(gone []ids.InstanceID) {
	if i.cfg.Guarantee == AtLeastOnce {
		return
	}
	for _, who := range gone {
		i.background(func(ctx context.Context) {
			for k := range logTxnIDs {
				id := logTxnID(i.cfg.ApplicationID, who, k)
				if err := i.retry(ctx, "fence "+id, func(ctx context.Context) error {
					_, err := i.client.Transactions().Init(ctx, id, i.cfg.TransactionTimeout)
					return err
				}); err != nil {
					return
				}
			}
		})
	}
}

// fenceFormer ends what the process before in this state folder left open, if it
// was killed, and notes this one.
func (i *logInstance) fenceFormer() error {
	dir := filepath.Join(i.stateDir, "changelog")
	path := filepath.Join(dir, "instance")
	if b, err := os.ReadFile(path); err == nil {
		name, num, ok := strings.Cut(strings.TrimSpace(string(b)), " ")
		if rnd, err := strconv.ParseUint(num, 16, 64); ok && err == nil {
			i.fence([]ids.InstanceID{{Name: name, Rand: rnd}})
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read the former instance's identity: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, "%s %016x\n", i.self.Name, i.self.Rand), 0o600); err != nil {
		return fmt.Errorf("keep the instance's identity: %w", err)
	}
	return nil
}

// logPurgeEvery is how often processed records of repartition topics are deleted
// (Kafka Streams' repartition.purge.interval.ms).
const logPurgeEvery = 30 * time.Second

// maybePurge deletes what the committed offsets no longer need.
func (i *logInstance) maybePurge() {
	if i.purging || time.Since(i.purged) < logPurgeEvery {
		return
	}
	below := map[ids.TopicPartition]int64{}
	for _, r := range i.runs {
		if !r.adopted { // its start is filling committed on another goroutine
			continue
		}
		_, internal := i.plan.TaskInputs(r.id.Task)
		for _, tp := range internal {
			if next, ok := r.committed[tp]; ok && next > 0 {
				below[tp] = next
			}
		}
	}
	i.purged = time.Now()
	if len(below) == 0 {
		return
	}
	i.purging = true
	i.background(func(ctx context.Context) {
		try, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if err := i.admin.DeleteRecords(try, below); err != nil && ctx.Err() == nil {
			i.log.Warn("purging repartition topics failed; it is repeated later", "error", err)
		}
		i.loop.post(func() { i.purging = false })
	})
}
