package kafka

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

// WriterConfig bounds a Writer. Zero values take the default.
type WriterConfig struct {
	// Compression and CompressionLevel are as in sarama. Default none.
	Compression      sarama.CompressionCodec
	CompressionLevel int
	// BatchBytes is where Builder.Full begins. It should stay below
	// max.message.bytes of the topics. Default 256 KiB.
	BatchBytes int
	// MaxInFlightBytes is where Writer.Full begins, counted before compression
	// from Enqueue to the acknowledgement. Default 32 MiB.
	MaxInFlightBytes int
	// MaxRequestBytes bounds the batches combined in one request; a larger
	// batch goes alone. Default 1 MiB.
	MaxRequestBytes int
	// RequestTimeout is how long the broker waits for its replicas. Default
	// 10 s. (request.timeout.ms)
	RequestTimeout time.Duration
	// UnknownTopicFor is how long a topic may be unknown before that is a
	// definite failure. Everything else that is retriable is retried until the
	// producer is closed. Default 30 s.
	UnknownTopicFor time.Duration
	// OnState, when set, hears of a broker that cannot be reached (err set) and
	// that it answers again (nil). It must not block.
	OnState func(broker string, err error)
}

func (c *WriterConfig) defaults() {
	if c.BatchBytes <= 0 {
		c.BatchBytes = 256 << 10
	}
	if c.MaxInFlightBytes <= 0 {
		c.MaxInFlightBytes = 32 << 20
	}
	if c.MaxRequestBytes <= 0 {
		c.MaxRequestBytes = 1 << 20
	}
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = 10 * time.Second
	}
	if c.UnknownTopicFor <= 0 {
		c.UnknownTopicFor = 30 * time.Second
	}
}

// Writer sends record batches of any number of producers.
//
// One mutex guards all its queues; it is taken per batch and request, never per
// record, and not while encoding or sending. What is to be called when it is
// free again collects in calls: see unlock.
type Writer struct {
	c        *Client
	cfg      WriterConfig
	pool     *pool
	builders *Builders

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	wake   chan struct{} // wakes the repair goroutine
	metas  outage        // of its requests

	bytes atomic.Int64 // enqueued and not acknowledged

	mu        sync.Mutex
	closed    bool
	room      chan struct{} // nil unless somebody waits for room
	lines     map[node]*line
	repairs   []*queue
	producers map[*Producer]struct{}
	calls     []func()
}

// NewWriter starts a writer without producers.
func (c *Client) NewWriter(cfg WriterConfig) *Writer {
	cfg.defaults()
	w := &Writer{
		c: c, cfg: cfg,
		pool:      c.newPool(c.conf.Net.ReadTimeout + cfg.RequestTimeout),
		builders:  NewBuilders(cfg.BatchBytes),
		wake:      make(chan struct{}, 1),
		lines:     map[node]*line{},
		producers: map[*Producer]struct{}{},
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.wg.Go(w.repair)
	c.own(w)
	return w
}

// Full reports that callers should stop producing until Room. Enqueue itself
// never blocks and never refuses, so that a barrier can always be written.
func (w *Writer) Full() bool { return w.bytes.Load() >= int64(w.cfg.MaxInFlightBytes) }

// InFlight returns the bytes enqueued and not acknowledged.
func (w *Writer) InFlight() int64 { return w.bytes.Load() }

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Room returns a channel that is closed as soon as the writer is not Full.
func (w *Writer) Room() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.Full() || w.closed {
		return closedChan
	}
	if w.room == nil {
		w.room = make(chan struct{})
	}
	return w.room
}

// Close fails all producers with ErrClosed, cuts the connections and waits for
// the goroutines. What is under way is in doubt.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	for p := range w.producers {
		w.end(p, ErrClosed)
	}
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
	w.unlock()
	w.cancel()
	w.pool.close()
	w.wg.Wait()
	w.c.disown(w)
	return nil
}

// unlock releases the mutex and runs what was put off until then.
func (w *Writer) unlock() {
	calls := w.calls
	w.calls = nil
	w.mu.Unlock()
	for _, f := range calls {
		f()
	}
}

// call puts off a callback that may be nil. REQUIRES w.mu.
func (w *Writer) call(done func(error), err error) {
	if done != nil {
		w.calls = append(w.calls, func() { done(err) })
	}
}

// free takes a batch out of the count, tells its end, and recycles it.
// REQUIRES w.mu.
func (w *Writer) free(b *Builder, err error) {
	w.finish(b, err)
	w.bytes.Add(int64(-b.size))
	if w.room != nil && !w.Full() {
		close(w.room)
		w.room = nil
	}
	b.recycle()
}

// place gives a queue to the line of its leader, or to the repair goroutine if
// the leader is not known. REQUIRES w.mu, nothing of q in flight.
func (w *Writer) place(q *queue) {
	l, ok := w.c.meta.leader(q.tp)
	if !ok {
		w.mend(q, true, 0)
		return
	}
	ln := w.lines[l.node]
	if ln == nil {
		ln = &line{w: w, node: l.node, wake: make(chan struct{}, 1)}
		w.lines[l.node] = ln
		w.wg.Go(ln.run)
	}
	q.line = ln
	w.schedule(q)
}

// schedule puts a queue into its line's ready list if its head may be sent.
// REQUIRES w.mu.
func (w *Writer) schedule(q *queue) {
	if q.queued {
		return
	}
	q.awaitToken()
	if !q.sendable() {
		return
	}
	q.queued = true
	q.line.ready = append(q.line.ready, q)
	q.line.poke()
}

// mend hands a queue to the repair goroutine, to be placed again after a while.
// REQUIRES w.mu.
func (w *Writer) mend(q *queue, lost bool, after time.Duration) {
	q.line = nil
	q.lost = q.lost || lost
	q.retryAt = time.Now().Add(after)
	if !q.mending {
		q.mending = true
		w.repairs = append(w.repairs, q)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// repair places queues that have no line: at first, and after errors.
func (w *Writer) repair() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for attempt := 0; ; {
		due, next := w.due(time.Now())
		if len(due) == 0 {
			timer.Reset(next)
			select {
			case <-w.wake:
			case <-timer.C:
			case <-w.ctx.Done():
				return
			}
			continue
		}
		if w.repairRound(due) {
			attempt = 0
			continue
		}
		if sleep(w.ctx, backoff(attempt)) != nil {
			return
		}
		attempt++
	}
}

// due takes the queues whose time has come, and says how long the others wait.
func (w *Writer) due(now time.Time) (due []*queue, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = time.Hour
	w.repairs = slices.DeleteFunc(w.repairs, func(q *queue) bool {
		if d := q.retryAt.Sub(now); d > 0 {
			next = min(next, d)
			return false
		}
		q.mending = false
		if q.p.err == nil {
			due = append(due, q)
		}
		return true
	})
	return due, next
}

// repairRound finds the leaders of queues and places them. It returns false if
// no broker answered.
func (w *Writer) repairRound(due []*queue) bool {
	var topics []string
	for _, q := range due {
		if _, ok := w.c.meta.leader(q.tp); q.lost || !ok {
			topics = append(topics, q.tp.Topic)
		}
	}
	slices.Sort(topics)
	metas, err := w.c.meta.refresh(w.ctx, slices.Compact(topics)...)
	if len(topics) > 0 && w.ctx.Err() == nil && w.metas.note(err) {
		w.state(w.c.addresses(), err)
	}
	w.mu.Lock()
	defer w.unlock()
	for _, q := range due {
		switch _, known := w.c.meta.leader(q.tp); {
		case q.p.err != nil:
		case err != nil:
			w.mend(q, true, 0)
		case known:
			q.lost = false
			w.place(q)
		default:
			w.leaderless(q, leaderError(metas, q.tp))
		}
	}
	return err == nil
}

// leaderless decides about a queue for which the metadata name no leader.
// REQUIRES w.mu.
func (w *Writer) leaderless(q *queue, err error) {
	if fatal := q.unknownTooLong(err); fatal != nil {
		w.fail(q.p, fatal)
		return
	}
	if !retriable(err) {
		w.fail(q.p, newError("produce", q.tp, err))
		return
	}
	q.tries++
	w.mend(q, true, backoff(q.tries))
}

func (w *Writer) state(broker string, err error) {
	if err != nil {
		w.c.log.Warn("produce: broker does not answer", "broker", broker, "error", err)
	}
	if w.cfg.OnState != nil {
		w.cfg.OnState(broker, err)
	}
}
