package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
)

// groupProtocolType is what Kafka's own consumers say, so that its tools can
// show the group. The subscription and assignment have its format too; what
// matters to us is in their user data.
const groupProtocolType = "consumer"

// Member is one member of the group in a plan.
type Member struct {
	MemberID string
	// UserData is what the member gave when it joined.
	UserData []byte
}

// Membership names a member in a generation. The zero Membership is none.
type Membership struct {
	MemberID   string
	Generation int32
}

// GroupConfig says which group to join and how. Zero durations take the
// default.
type GroupConfig struct {
	// Group is the group's id, the application's.
	Group string
	// Protocol names the format of user data and assignments, with a version:
	// Kafka refuses members without a common one.
	Protocol string
	// InstanceID, if set, makes the member a static one: Kafka keeps its place
	// until the session timeout, and gives it to whoever joins with this id next.
	// The one that had it is fenced. (group.instance.id)
	//
	// Kafka answers such a join with the assignment of its predecessor, in the
	// same generation, and tells nobody. Who must be seen asks for a new
	// generation by Rejoin, with other user data than at the first join.
	InstanceID string
	// Topics are the source topics; their numbers of partitions go to Plan.
	Topics []string
	// SessionTimeout is how long Kafka waits for a heartbeat before it drops
	// the member. Default 10 s. (session.timeout.ms)
	SessionTimeout time.Duration
	// RebalanceTimeout is how long Kafka waits for the others to rejoin.
	// Default 30 s.
	RebalanceTimeout time.Duration
	// Heartbeat is the time between heartbeats, which is also how soon a
	// rebalance is noticed. Default a tenth of SessionTimeout, at most 1 s.
	// (heartbeat.interval.ms)
	Heartbeat time.Duration
	// UserData is asked at each join.
	UserData func() []byte
	// Plan makes the assignments when this member leads, by member id. Members
	// are ordered by id; a topic that does not exist has no entry in
	// partitions. An error ends the membership: it is for user data that
	// cannot be read.
	Plan func(members []Member, partitions map[string]int32) (map[string][]byte, error)
	// OnEvent is called on Run's goroutine, in order. It must not block.
	OnEvent func(GroupEvent)
}

func (c *GroupConfig) defaults() error {
	if c.SessionTimeout <= 0 {
		c.SessionTimeout = 10 * time.Second
	}
	if c.RebalanceTimeout <= 0 {
		c.RebalanceTimeout = 30 * time.Second
	}
	if c.Heartbeat <= 0 {
		c.Heartbeat = min(c.SessionTimeout/10, time.Second)
	}
	switch {
	case c.Group == "":
		return errors.New("group: no group id")
	case c.Protocol == "":
		return errors.New("group: no protocol name")
	case c.Plan == nil || c.UserData == nil:
		return errors.New("group: Plan and UserData are required")
	case c.Heartbeat*3 > c.SessionTimeout:
		return fmt.Errorf("group: heartbeat %v must be at most a third of the session timeout %v", c.Heartbeat, c.SessionTimeout)
	}
	if c.OnEvent == nil {
		c.OnEvent = func(GroupEvent) {}
	}
	return nil
}

// GroupEventKind tells the events apart.
type GroupEventKind uint8

const (
	// GroupAssigned: a generation began; Assignment is this member's user data
	// from the plan. Kafka may give the same generation again after Rejoin if
	// nothing changed.
	GroupAssigned GroupEventKind = iota + 1
	// GroupHeartbeat: a heartbeat sent at SentAt with Membership was answered
	// without error (R2).
	GroupHeartbeat
	// GroupRejoining: a rebalance began, or the membership was lost; Err says
	// why. Membership is the old one.
	GroupRejoining
	// GroupFailed: the group cannot be joined; Run returns Err.
	GroupFailed
)

// GroupEvent is something that happened to the membership.
type GroupEvent struct {
	Kind       GroupEventKind
	Membership Membership
	// Leader says that this member made the plan of the generation.
	Leader     bool
	Assignment []byte
	SentAt     time.Time
	Err        error
}

// Group is membership in a consumer group without fetching: Kafka agrees on who
// is there and passes the leader's plan on, nothing else.
//
//	        MEMBER_ID_REQUIRED
//	          ┌─────┐
//	          ▼     │          ok             ok
//	start ──► joining ───────► syncing ─────► stable ──┐ heartbeat ok
//	          ▲ ▲                 │           │  ▲─────┘
//	          │ └─────────────────┘           │
//	          │   rebalance, lost member      │ rebalance, Rejoin, lost member
//	          └───────────────────────────────┘
//	any ── Leave ──► left        any ── foreign members, ACL ──► failed
type Group struct {
	c   *Client
	cfg GroupConfig
	// Joining and syncing wait on the broker for the others; heartbeats and
	// leaving must not wait for them.
	joins  *pool
	beats  *pool
	coords *coordinators

	mu      sync.Mutex
	member  Membership
	poke    chan struct{} // Rejoin or leave
	rejoin  bool
	leaving bool
	running bool
	cancel  context.CancelFunc
	done    chan struct{}
	closed  bool
}

// NewGroup checks the configuration; Run joins.
func (c *Client) NewGroup(cfg GroupConfig) (*Group, error) {
	if err := cfg.defaults(); err != nil {
		return nil, err
	}
	g := &Group{
		c: c, cfg: cfg,
		joins:  c.newPool(cfg.RebalanceTimeout + cfg.SessionTimeout + c.conf.Net.ReadTimeout),
		beats:  c.newPool(min(c.conf.Net.ReadTimeout, max(cfg.SessionTimeout, time.Second))),
		coords: newCoordinators(c.meta, sarama.CoordinatorGroup),
		poke:   make(chan struct{}, 1),
	}
	c.own(g)
	return g, nil
}

// Membership returns the present membership, zero outside a generation.
func (g *Group) Membership() Membership {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.member
}

// Rejoin asks for a new generation, with UserData asked again. Kafka makes one
// only if the user data changed or this member leads.
func (g *Group) Rejoin() {
	g.mu.Lock()
	g.rejoin = true
	g.mu.Unlock()
	g.wake()
}

func (g *Group) wake() {
	select {
	case g.poke <- struct{}{}:
	default:
	}
}

// Close ends Run without leaving the group: Kafka drops the member after the
// session timeout. Use Leave to go in order.
func (g *Group) Close() error {
	g.mu.Lock()
	g.closed = true
	cancel, done := g.cancel, g.done
	g.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
	g.joins.close()
	g.beats.close()
	g.c.disown(g)
	return nil
}

// Leave ends Run and takes this member out of the group, so that the others
// rebalance at once; a static member, too. It may be called at any time.
func (g *Group) Leave(ctx context.Context) error {
	g.mu.Lock()
	g.leaving = true
	cancel, done, closed := g.cancel, g.done, g.closed
	g.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if cancel != nil {
		cancel()
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return g.quit(ctx)
}

// quit sends LeaveGroup for the last member id, if there is one.
func (g *Group) quit(ctx context.Context) error {
	id := g.lastID()
	if id == "" {
		return nil
	}
	err := retry(ctx, retriable, func() error {
		_, err := atCoordinator(ctx, g.beats, g.coords, g.cfg.Group, func(b *sarama.Broker) (*sarama.LeaveGroupResponse, sarama.KError, error) {
			r, err := b.LeaveGroup(&sarama.LeaveGroupRequest{Version: 4, GroupId: g.cfg.Group, Members: []sarama.MemberIdentity{{MemberId: id, GroupInstanceId: g.instanceID()}}})
			if err != nil {
				return nil, 0, err
			}
			if r.Err == sarama.ErrNoError && len(r.Members) == 1 {
				return r, r.Members[0].Err, nil
			}
			return r, r.Err, nil
		})
		return err
	})
	if err != nil && !errors.Is(err, sarama.ErrUnknownMemberId) && !errors.Is(err, sarama.ErrFencedInstancedId) {
		return newError(fmt.Sprintf("leave group %q", g.cfg.Group), ids.TopicPartition{}, err)
	}
	g.set(Membership{})
	return nil
}

// instanceID is what requests say of a static membership.
func (g *Group) instanceID() *string {
	if g.cfg.InstanceID == "" {
		return nil
	}
	return &g.cfg.InstanceID
}

func (g *Group) lastID() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.member.MemberID
}

func (g *Group) set(m Membership) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.member = m
}

// takeRejoin reports and forgets a wish to rejoin.
func (g *Group) takeRejoin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.rejoin
	g.rejoin = false
	return r
}

// Run joins the group and stays in it until ctx ends, Leave or Close (nil), or
// until the group cannot be joined (the error, also as GroupFailed). It is
// called once.
func (g *Group) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g.mu.Lock()
	if g.closed || g.leaving || g.running {
		defer g.mu.Unlock()
		if g.running {
			return errors.New("group: Run was called before")
		}
		return nil
	}
	g.running = true
	done := make(chan struct{})
	g.cancel, g.done = cancel, done
	g.mu.Unlock()
	defer close(done)

	m := &membership{g: g}
	err := m.run(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if errors.Is(err, sarama.ErrFencedInstancedId) {
		g.set(Membership{}) // the place is another's now
	}
	// The others need not wait for the session timeout.
	qctx, endQuit := context.WithTimeout(ctx, g.cfg.SessionTimeout)
	if quitErr := g.quit(qctx); quitErr != nil {
		g.c.log.Debug("group: could not leave", "group", g.cfg.Group, "error", quitErr)
	}
	endQuit()
	err = fmt.Errorf("group %q: %w", g.cfg.Group, err)
	g.cfg.OnEvent(GroupEvent{Kind: GroupFailed, Err: err})
	return err
}
