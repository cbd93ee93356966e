package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"
)

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
	case errors.Is(err, sarama.ErrFencedInstancedId):
		return fmt.Errorf("another member joined with the same group.instance.id: give every instance a name of its own: %w", err)
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
	req.GroupInstanceId = g.instanceID()
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
		Version: 5, GroupId: g.cfg.Group, GenerationId: m.gen, MemberId: m.id, GroupInstanceId: g.instanceID(),
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
		r, err := b.Heartbeat(&sarama.HeartbeatRequest{Version: 4, GroupId: g.cfg.Group, GenerationId: m.gen, MemberId: m.id, GroupInstanceId: g.instanceID()})
		if err != nil {
			return nil, 0, err
		}
		return r, r.Err, nil
	})
	return err
}
