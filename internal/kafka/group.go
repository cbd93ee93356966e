package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
// rebalance at once. It may be called at any time.
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
			r, err := b.LeaveGroup(&sarama.LeaveGroupRequest{Version: 4, GroupId: g.cfg.Group, Members: []sarama.MemberIdentity{{MemberId: id}}})
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
	if err != nil && !errors.Is(err, sarama.ErrUnknownMemberId) {
		return newError(fmt.Sprintf("leave group %q", g.cfg.Group), ids.TopicPartition{}, err)
	}
	g.set(Membership{})
	return nil
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

// membership is the state of Run.
type membership struct {
	g      *Group
	id     string
	gen    int32
	leader bool
	fails  int
}

// next is what to do after an answer.
type next uint8

const (
	goOn       next = iota // the answer was good
	joinAgain              // with the same member id
	joinAsNew              // Kafka does not know the member any more
	sameAgain              // the same request after a while
	coordAgain             // the same request at the coordinator, once found
	giveUp
)

// judge says what to do after the answer to a join, sync or heartbeat request.
func judge(err error) next {
	var k sarama.KError
	switch {
	case err == nil:
		return goOn
	case !errors.As(err, &k):
		return coordAgain // no answer; atCoordinator forgot the coordinator
	}
	switch k {
	case sarama.ErrMemberIdRequired, sarama.ErrRebalanceInProgress, sarama.ErrIllegalGeneration:
		return joinAgain
	case sarama.ErrUnknownMemberId:
		return joinAsNew
	case sarama.ErrOffsetsLoadInProgress:
		return sameAgain
	case sarama.ErrConsumerCoordinatorNotAvailable, sarama.ErrNotCoordinatorForConsumer:
		return coordAgain
	}
	if retriable(k) {
		return sameAgain
	}
	return giveUp
}

// run goes through generations until ctx ends or the group cannot be joined.
func (m *membership) run(ctx context.Context) error {
	for ctx.Err() == nil {
		m.g.takeRejoin() // the join asks for the user data anyway
		join, err := m.join(ctx)
		if stop := m.settle(ctx, err); stop != nil {
			return stop
		}
		if err != nil {
			continue
		}
		assignment, err := m.sync(ctx, join)
		if stop := m.settle(ctx, err); stop != nil {
			return stop
		}
		if err != nil {
			continue
		}
		m.fails = 0
		ms := Membership{m.id, m.gen}
		m.g.set(ms)
		m.g.cfg.OnEvent(GroupEvent{Kind: GroupAssigned, Membership: ms, Leader: m.leader, Assignment: assignment})
		why := m.stay(ctx)
		if ctx.Err() != nil {
			break
		}
		m.g.set(Membership{MemberID: m.id})
		m.g.cfg.OnEvent(GroupEvent{Kind: GroupRejoining, Membership: ms, Leader: m.leader, Err: why})
		if stop := m.settle(ctx, why); stop != nil {
			return stop
		}
	}
	return context.Cause(ctx)
}

// settle prepares for the next join after an error, and returns an error that
// ends Run.
func (m *membership) settle(ctx context.Context, err error) error {
	switch judge(err) {
	case joinAsNew:
		m.id = ""
		m.g.set(Membership{})
	case sameAgain, coordAgain:
		var plan *planError
		if errors.As(err, &plan) {
			return err
		}
		m.fails++
		_ = sleep(ctx, backoff(m.fails))
	case giveUp:
		return explainGroup(err)
	}
	return nil
}

// explainGroup adds to a refusal what may be done about it.
func explainGroup(err error) error {
	switch {
	case errors.Is(err, sarama.ErrInconsistentGroupProtocol):
		return fmt.Errorf("it has members that are not instances of this application, or instances of a version that is not compatible: stop them, or use another application id: %w", err)
	case errors.Is(err, sarama.ErrInvalidSessionTimeout):
		return fmt.Errorf("the session timeout is outside the broker's group.min.session.timeout.ms and group.max.session.timeout.ms: %w", err)
	case errors.Is(err, sarama.ErrGroupMaxSizeReached):
		return fmt.Errorf("it has as many members as the broker's group.max.size allows: %w", err)
	}
	return err
}

func (m *membership) join(ctx context.Context) (*sarama.JoinGroupResponse, error) {
	g := m.g
	req := sarama.NewJoinGroupRequest(sarama.MaxVersion)
	req.GroupId, req.MemberId, req.ProtocolType = g.cfg.Group, m.id, groupProtocolType
	req.SessionTimeout = int32(g.cfg.SessionTimeout / time.Millisecond)
	req.RebalanceTimeout = int32(g.cfg.RebalanceTimeout / time.Millisecond)
	meta := &sarama.ConsumerGroupMemberMetadata{Topics: g.cfg.Topics, UserData: g.cfg.UserData()}
	if err := req.AddGroupProtocolMetadata(g.cfg.Protocol, meta); err != nil {
		return nil, &planError{fmt.Errorf("encode the subscription: %w", err)}
	}
	res, err := atCoordinator(ctx, g.joins, g.coords, g.cfg.Group, func(b *sarama.Broker) (*sarama.JoinGroupResponse, sarama.KError, error) {
		r, err := b.JoinGroup(req)
		if err != nil {
			return nil, 0, err
		}
		return r, r.Err, nil
	})
	if res != nil && res.MemberId != "" && !errors.Is(err, sarama.ErrUnknownMemberId) {
		m.id = res.MemberId
		g.set(Membership{MemberID: m.id})
	}
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	m.gen, m.leader = res.GenerationId, res.LeaderId == res.MemberId
	return res, nil
}

// planError is a failure of our own making, not of Kafka.
type planError struct{ err error }

func (e *planError) Error() string { return e.err.Error() }
func (e *planError) Unwrap() error { return e.err }

func (m *membership) sync(ctx context.Context, join *sarama.JoinGroupResponse) ([]byte, error) {
	g := m.g
	kind := groupProtocolType
	req := &sarama.SyncGroupRequest{
		Version: 5, GroupId: g.cfg.Group, GenerationId: m.gen, MemberId: m.id,
		ProtocolType: &kind, ProtocolName: &g.cfg.Protocol,
	}
	if m.leader {
		if err := m.plan(ctx, join, req); err != nil {
			return nil, err
		}
	}
	res, err := atCoordinator(ctx, g.joins, g.coords, g.cfg.Group, func(b *sarama.Broker) (*sarama.SyncGroupResponse, sarama.KError, error) {
		r, err := b.SyncGroup(req)
		if err != nil {
			return nil, 0, err
		}
		return r, r.Err, nil
	})
	if err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	if len(res.MemberAssignment) == 0 {
		return nil, nil
	}
	as, err := res.GetMemberAssignment()
	if err != nil {
		return nil, &planError{fmt.Errorf("read the assignment made by the leader: %w", err)}
	}
	return as.UserData, nil
}

// plan fills the assignments into the leader's sync request.
func (m *membership) plan(ctx context.Context, join *sarama.JoinGroupResponse, req *sarama.SyncGroupRequest) error {
	g := m.g
	metas, err := join.GetMembers()
	if err != nil {
		return &planError{fmt.Errorf("a member's subscription cannot be read: the group has members that are not instances of this application: %w", err)}
	}
	members := make([]Member, 0, len(metas))
	for id, meta := range metas {
		members = append(members, Member{MemberID: id, UserData: meta.UserData})
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.MemberID, b.MemberID) })
	ctx, cancel := context.WithTimeout(ctx, g.cfg.RebalanceTimeout/2)
	defer cancel()
	topics, err := g.c.admin.DescribeTopics(ctx, false, g.cfg.Topics...)
	if err != nil {
		return err
	}
	partitions := make(map[string]int32, len(topics))
	for name, t := range topics {
		if t.Exists {
			partitions[name] = t.Partitions
		}
	}
	plan, err := g.cfg.Plan(members, partitions)
	if err != nil {
		return &planError{fmt.Errorf("plan the assignment: %w", err)}
	}
	for _, mem := range members {
		if err := req.AddGroupAssignmentMember(mem.MemberID, &sarama.ConsumerGroupMemberAssignment{UserData: plan[mem.MemberID]}); err != nil {
			return &planError{fmt.Errorf("encode the assignment: %w", err)}
		}
	}
	return nil
}

var errRejoin = errors.New("asked to rejoin")

// stay sends heartbeats until the generation ends, and says why it did.
func (m *membership) stay(ctx context.Context) error {
	g := m.g
	timer := time.NewTimer(g.cfg.Heartbeat)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-g.poke:
			if g.takeRejoin() {
				return errRejoinCode
			}
			continue
		case <-timer.C:
		}
		sent := time.Now()
		err := m.beat(ctx)
		wait := g.cfg.Heartbeat
		switch judge(err) {
		case goOn:
			m.fails = 0
			g.cfg.OnEvent(GroupEvent{Kind: GroupHeartbeat, Membership: Membership{m.id, m.gen}, Leader: m.leader, SentAt: sent})
		case sameAgain, coordAgain:
			// Whether the membership lives only an answer can tell.
			m.fails++
			wait = min(wait, backoff(m.fails))
			g.c.log.Debug("group: heartbeat failed", "group", g.cfg.Group, "error", err)
		default:
			return err
		}
		timer.Reset(wait)
	}
}

// errRejoinCode makes a wish to rejoin look like a rebalance to judge.
var errRejoinCode = fmt.Errorf("%w: %w", errRejoin, sarama.ErrRebalanceInProgress)

func (m *membership) beat(ctx context.Context) error {
	g := m.g
	_, err := atCoordinator(ctx, g.beats, g.coords, g.cfg.Group, func(b *sarama.Broker) (*sarama.HeartbeatResponse, sarama.KError, error) {
		r, err := b.Heartbeat(&sarama.HeartbeatRequest{Version: 4, GroupId: g.cfg.Group, GenerationId: m.gen, MemberId: m.id})
		if err != nil {
			return nil, 0, err
		}
		return r, r.Err, nil
	})
	return err
}
