package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
)

// Isolation is Kafka's isolation.level of a reader.
type Isolation int8

const (
	// ReadUncommitted reads everything up to the high watermark: repartition
	// topics and the control log.
	ReadUncommitted Isolation = iota
	// ReadCommitted reads up to the last stable offset and leaves out what was
	// aborted: external inputs.
	ReadCommitted
)

// FetcherConfig bounds the requests of a Fetcher. Zero values take the default.
type FetcherConfig struct {
	// MaxBytes bounds one answer. Default 16 MiB. (fetch.max.bytes)
	MaxBytes int32
	// PartitionMaxBytes bounds what one answer holds of a partition; a larger
	// record batch still comes, alone. Default 1 MiB.
	// (max.partition.fetch.bytes)
	PartitionMaxBytes int32
	// MaxWait is how long a broker may hold an answer when there is nothing
	// new, and how long a change of the subscriptions may take to be heeded.
	// Default 50 ms. (fetch.max.wait.ms)
	MaxWait time.Duration
	// UnknownTopicFor is how long a topic may be unknown before the
	// subscription stops with an error. Default 30 s.
	UnknownTopicFor time.Duration
	// TopicIDs are the ids that topics must have; a topic that is not here, or
	// has the zero id, may be any. Requests name topics, so one that was deleted
	// and made anew would be read on at offsets of the old one: it is noticed
	// when its leader is looked for, as it must be after a deletion. The
	// subscription then stops with a *TopicRemadeError.
	TopicIDs map[string][16]byte
	// OnState, when set, hears of a broker that cannot be reached (err set) and
	// that it answers again (nil). It must not block.
	OnState func(broker string, err error)
}

func (c *FetcherConfig) defaults() {
	if c.MaxBytes <= 0 {
		c.MaxBytes = 16 << 20
	}
	if c.PartitionMaxBytes <= 0 {
		c.PartitionMaxBytes = 1 << 20
	}
	if c.MaxWait <= 0 {
		c.MaxWait = 50 * time.Millisecond
	}
	if c.UnknownTopicFor <= 0 {
		c.UnknownTopicFor = 30 * time.Second
	}
}

// Short waits: for what somebody waits for, and while partitions are left out
// of the request that may be wanted again any moment.
const (
	waitWanted   = time.Millisecond
	waitPartial  = 5 * time.Millisecond
	maxPartBytes = 256 << 20
)

// Fetcher reads partitions into Batches. Both isolation levels have their own
// connections and requests.
type Fetcher struct {
	c     *Client
	cfg   FetcherConfig
	pools [2]*pool

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	find   chan struct{} // wakes the leader finder
	metas  outage        // of the finder's requests

	mu     sync.Mutex
	closed bool
	subs   map[subKey]*Subscription
	loops  map[loopKey]*fetchLoop
}

type subKey struct {
	tp  ids.TopicPartition
	iso Isolation
}

type loopKey struct {
	node node
	iso  Isolation
}

// NewFetcher starts a fetcher without subscriptions.
func (c *Client) NewFetcher(cfg FetcherConfig) *Fetcher {
	cfg.defaults()
	f := &Fetcher{
		c: c, cfg: cfg,
		find:  make(chan struct{}, 1),
		subs:  map[subKey]*Subscription{},
		loops: map[loopKey]*fetchLoop{},
	}
	read := c.conf.Net.ReadTimeout + cfg.MaxWait
	f.pools[ReadUncommitted] = c.newPool(read)
	f.pools[ReadCommitted] = c.newPool(read)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.wg.Go(f.findLeaders)
	c.own(f)
	return f
}

// Close ends all subscriptions, cuts the connections and waits. No Sink is
// called after it returned.
func (f *Fetcher) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	for _, p := range f.pools {
		p.close()
	}
	f.wg.Wait()
	f.c.disown(f)
	return nil
}

// SubscribeOptions say what to read and where to put it.
type SubscribeOptions struct {
	TP        ids.TopicPartition
	Isolation Isolation
	// Offset is the first offset wanted.
	Offset int64
	// MaxBytes bounds what is handed out and not given back; the last answer
	// may go over it. Default 4 MiB.
	MaxBytes int
	// Paused subscribes without fetching until Resume.
	Paused bool
	// Sink gets the batches in order. It is called on a fetch goroutine, must
	// not block, and must not call Fetcher.Close.
	Sink func(*Batch)
}

// Subscription is one partition being read.
type Subscription struct {
	f    *Fetcher
	opts SubscribeOptions

	// Guarded by f.mu.
	gen     uint64
	next    int64
	out     int // bytes handed out in this generation
	paused  bool
	stopped bool // an error was delivered; SeekTo starts again
	closed  bool
	wanted  bool // deliver the next answer, whatever it holds
	told    bool // the ends below were delivered in this generation
	end     int64
	start   int64
	loop    *fetchLoop
	partMax int32     // grown while record batches do not fit
	retryAt time.Time // zero: any time
	failing int       // attempts since the last answer
	unknown time.Time // since when the topic is unknown
}

// Subscribe starts to read a partition. There is one subscription per partition
// and isolation level in a Fetcher.
func (f *Fetcher) Subscribe(o SubscribeOptions) (*Subscription, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 4 << 20
	}
	if o.Sink == nil {
		return nil, fmt.Errorf("subscribe to %s: no sink", o.TP)
	}
	s := &Subscription{f: f, opts: o, gen: 1, next: o.Offset, paused: o.Paused, wanted: true, partMax: f.cfg.PartitionMaxBytes}
	key := subKey{o.TP, o.Isolation}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	if f.subs[key] != nil {
		return nil, fmt.Errorf("subscribe to %s: it is subscribed already", o.TP)
	}
	f.subs[key] = s
	f.place(s)
	return s, nil
}

// SeekTo moves the position, restores all credit, lets a subscription that
// stopped with an error go on, and returns the new generation.
func (s *Subscription) SeekTo(offset int64) (generation uint64) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.gen++
	s.next, s.out = offset, 0
	s.stopped, s.wanted, s.told = false, true, false
	s.failing, s.retryAt, s.unknown = 0, time.Time{}, time.Time{}
	s.partMax = s.f.cfg.PartitionMaxBytes
	s.wake()
	return s.gen
}

// Pause stops asking for the partition; what was asked for still comes.
func (s *Subscription) Pause() {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.paused = true
}

// Resume ends Pause.
func (s *Subscription) Resume() {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.paused = false
	s.wake()
}

// Want asks for a Batch from the next answer, even if nothing changed: a fetch
// answered after the wait began says whether the end is still the end (R13).
func (s *Subscription) Want() {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if !s.wanted {
		s.wanted = true
		s.wake()
	}
}

// Generation returns the number of Subscribe and SeekTo calls so far.
func (s *Subscription) Generation() uint64 {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return s.gen
}

// TP returns the partition.
func (s *Subscription) TP() ids.TopicPartition { return s.opts.TP }

// Close ends the subscription. A Batch that is being delivered may still come.
func (s *Subscription) Close() {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.gen++
	delete(s.f.subs, subKey{s.opts.TP, s.opts.Isolation})
	s.leave()
}

func (s *Subscription) credit(gen uint64, bytes int) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.gen != gen || s.closed {
		return
	}
	was := s.out
	s.out -= bytes
	if was >= s.opts.MaxBytes && s.out < s.opts.MaxBytes {
		s.wake()
	}
}

// ready reports whether to ask for the partition now, or when. REQUIRES f.mu.
func (s *Subscription) ready(now time.Time) (bool, time.Time) {
	if s.paused || s.stopped || s.closed || s.out >= s.opts.MaxBytes {
		return false, time.Time{}
	}
	if s.retryAt.After(now) {
		return false, s.retryAt
	}
	return true, time.Time{}
}

// wake makes the loop look again, or the finder if there is none. REQUIRES f.mu.
func (s *Subscription) wake() {
	switch {
	case s.loop != nil:
		s.loop.poke()
	case !s.closed:
		s.f.wakeFinder()
	}
}

// leave takes the subscription from its loop. REQUIRES f.mu.
func (s *Subscription) leave() {
	l := s.loop
	if l == nil {
		return
	}
	s.loop = nil
	if i := slices.Index(l.subs, s); i >= 0 {
		l.subs = slices.Delete(l.subs, i, i+1)
	}
}

// place puts the subscription into the loop of its leader, or leaves it to the
// finder. REQUIRES f.mu.
func (f *Fetcher) place(s *Subscription) bool {
	s.leave()
	l, ok := f.c.meta.leader(s.opts.TP)
	if !ok {
		f.wakeFinder()
		return false
	}
	key := loopKey{l.node, s.opts.Isolation}
	loop := f.loops[key]
	if loop == nil {
		loop = &fetchLoop{f: f, node: l.node, iso: s.opts.Isolation, pool: f.pools[s.opts.Isolation], dec: newDecoder(), wakeup: make(chan struct{}, 1)}
		f.loops[key] = loop
		f.wg.Go(loop.run)
	}
	s.loop = loop
	loop.subs = append(loop.subs, s)
	loop.poke()
	return true
}

func (f *Fetcher) wakeFinder() {
	select {
	case f.find <- struct{}{}:
	default:
	}
}

// findLeaders finds leaders for subscriptions without a loop. Rounds that leave
// somebody without come at growing distances.
func (f *Fetcher) findLeaders() {
	attempt := 0
	for {
		select {
		case <-f.find:
		case <-f.ctx.Done():
			return
		}
		for f.ctx.Err() == nil && f.findRound() {
			if sleep(f.ctx, backoff(attempt)) != nil {
				return
			}
			attempt++
		}
		attempt = 0
	}
}

// findRound refreshes the metadata of the homeless and reports whether some
// still are.
func (f *Fetcher) findRound() (left bool) {
	var topics []string
	f.mu.Lock()
	for _, s := range f.subs {
		if s.loop == nil && !s.stopped {
			topics = append(topics, s.opts.TP.Topic)
		}
	}
	f.mu.Unlock()
	if len(topics) == 0 {
		return false
	}
	slices.Sort(topics)
	metas, err := f.c.meta.refresh(f.ctx, slices.Compact(topics)...)
	if f.ctx.Err() == nil && f.metas.note(err) {
		f.state(f.c.addresses(), err)
	}
	if err != nil {
		return true
	}
	var failed []*Batch
	f.mu.Lock()
	for _, s := range f.subs {
		if s.loop != nil || s.stopped {
			continue
		}
		if err := f.remade(metas, s.opts.TP.Topic); err != nil {
			failed = append(failed, s.stop(err))
			continue
		}
		if f.place(s) {
			continue
		}
		if b := f.leaderless(s, leaderError(metas, s.opts.TP)); b != nil {
			failed = append(failed, b)
		} else {
			left = true
		}
	}
	f.mu.Unlock()
	for _, b := range failed {
		b.Sub.opts.Sink(b)
	}
	return left
}

// remade returns an error if the topic is not the one that is meant.
func (f *Fetcher) remade(metas []*sarama.TopicMetadata, topic string) error {
	want := f.cfg.TopicIDs[topic]
	if want == [16]byte{} {
		return nil
	}
	for _, m := range metas {
		if m.Name == topic && m.Err == sarama.ErrNoError && m.Uuid != [16]byte{} && m.Uuid != want {
			return &TopicRemadeError{Topic: topic, Had: want, Has: m.Uuid}
		}
	}
	return nil
}

// leaderless returns the error to deliver when the metadata name no leader, or
// nil to go on trying. REQUIRES f.mu.
func (f *Fetcher) leaderless(s *Subscription, err error) *Batch {
	if errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
		now := time.Now()
		if s.unknown.IsZero() {
			s.unknown = now
		}
		if now.Sub(s.unknown) < f.cfg.UnknownTopicFor {
			return nil
		}
		return s.stop(&Error{Op: "fetch", TP: s.opts.TP, Class: ClassInvalid, Err: fmt.Errorf("the topic or partition does not exist: %w", err)})
	}
	if retriable(err) {
		return nil
	}
	return s.stop(newError("fetch", s.opts.TP, err))
}

// stop ends fetching until SeekTo and returns the Batch that says so. REQUIRES f.mu.
func (s *Subscription) stop(err error) *Batch {
	s.stopped = true
	b := NewBatch()
	b.Sub, b.TP, b.Generation = s, s.opts.TP, s.gen
	b.FirstOffset, b.NextOffset = s.next, s.next
	b.FetchedAt = time.Now()
	b.Err = err
	return b
}

func (f *Fetcher) state(broker string, err error) {
	if err != nil {
		f.c.log.Warn("fetch: broker does not answer", "broker", broker, "error", err)
	}
	if f.cfg.OnState != nil {
		f.cfg.OnState(broker, err)
	}
}
