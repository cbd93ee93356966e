package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidegate/tidegate/changelog"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/rebalance"
)

// logGroupProtocol names the assignor of changelog mode. Instances in the other
// mode have another one, so that Kafka refuses a group of both.
const logGroupProtocol = "tidegate-changelog-1"

// logGroup is the membership of an instance in changelog mode. Here the group's
// assignment is what counts: a task belongs to the member that it was given to,
// until that member closed it or was dropped (D7).
type logGroup struct {
	i     *logInstance
	group *kafka.Group
	runs  sync.WaitGroup // of Run and of leaving
	ctx   context.Context
	end   context.CancelFunc

	mu         sync.Mutex // guards what UserData reads on the group's goroutine
	owned      []ids.TaskID
	generation int32
	held       []rebalance.Held
	// pending are assignments that the loop has not seen yet: they are owned, too,
	// lest a join that overtakes the loop give them to somebody else.
	pending [][]ids.TaskID
}

// rebalanceTimeout is how long the group waits for its members to join.
func (c Config) rebalanceTimeout() time.Duration { return max(3*c.SessionTimeout, 10*time.Second) }

// generationTimeout is for how long a commit waits for another generation of the
// group: a transaction is lost after its timeout, and without one it waits for as
// long as the group may take.
func (c Config) generationTimeout() time.Duration {
	if c.Guarantee == AtLeastOnce {
		return c.SessionTimeout + c.rebalanceTimeout()
	}
	return c.TransactionTimeout
}

// newLogGroup joins the group.
func newLogGroup(i *logInstance) (*logGroup, error) {
	g := &logGroup{i: i}
	g.ctx, g.end = context.WithCancel(context.Background())
	c := i.cfg
	group, err := i.client.NewGroup(kafka.GroupConfig{
		Group: c.ApplicationID, Protocol: logGroupProtocol, Topics: i.plan.Inputs(), InstanceID: i.groupInstance(),
		SessionTimeout: c.SessionTimeout, RebalanceTimeout: c.rebalanceTimeout(),
		UserData: g.userData, Plan: g.assign, OnEvent: g.event,
	})
	if err != nil {
		return nil, fmt.Errorf("join consumer group %s: %w", c.ApplicationID, err)
	}
	g.group = group
	g.runs.Add(1)
	go func() {
		defer g.runs.Done()
		if err := group.Run(g.ctx); err != nil && g.ctx.Err() == nil {
			i.post(changelog.EvFatal{Err: fmt.Errorf("consumer group %s: %w", c.ApplicationID, g.explain(err))})
		}
	}()
	return g, nil
}

// explain adds that the other members may run in the other mode.
func (g *logGroup) explain(err error) error {
	if kafka.Classify(err) == kafka.ClassInvalid {
		return fmt.Errorf("%w; all instances must run in one mode: members in barrier mode are refused by those in changelog mode, and the reverse", err)
	}
	return err
}

func (g *logGroup) userData() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	owned := slices.Clone(g.owned)
	for _, list := range g.pending {
		owned = append(owned, list...)
	}
	slices.SortFunc(owned, ids.TaskID.Compare)
	m := rebalance.Member{
		Instance: g.i.self, Owned: slices.Compact(owned), Generation: g.generation, Fingerprint: g.i.groupPrint,
	}
	for _, h := range g.held { // they may be older than what is owned
		if _, own := slices.BinarySearchFunc(m.Owned, h.Task, ids.TaskID.Compare); own == (h.Size > 0) {
			m.Held = append(m.Held, h)
		}
	}
	return rebalance.AppendMember(nil, m)
}

func (g *logGroup) setHeld(held []rebalance.Held) {
	g.mu.Lock()
	g.held = held
	g.mu.Unlock()
}

func (g *logGroup) setOwned(tasks []ids.TaskID) {
	g.mu.Lock()
	g.owned = tasks
	g.mu.Unlock()
}

func (g *logGroup) rejoin() { g.group.Rejoin() }

// assign makes the assignment when this member leads; it runs on the group's
// goroutine. A task that another member still has is given to nobody: its owner
// closes it, and joins again. One with state stays where it runs until its next
// owner has nearly all of that.
func (g *logGroup) assign(members []kafka.Member, _ map[string]int32) (map[string][]byte, error) {
	all := make([]rebalance.Member, len(members))
	var same []rebalance.Member
	for n, m := range members {
		member, err := rebalance.DecodeMember(m.UserData)
		if err != nil {
			return nil, fmt.Errorf("member %s of consumer group %s is not an instance of this application: %w; give one of the two another group or application id", m.MemberID, g.i.cfg.ApplicationID, err)
		}
		if all[n] = member; member.Fingerprint == g.i.groupPrint {
			same = append(same, member)
		}
	}
	var instances []ids.InstanceID
	for _, m := range same {
		instances = append(instances, m.Instance)
	}
	var work []rebalance.Task
	for _, t := range g.i.plan.Tasks() {
		work = append(work, rebalance.Task{ID: t, Prefer: rebalance.Followers(instances, t, g.i.cfg.Standbys), Stateful: g.i.statefulTask(t)})
	}
	placed, err := rebalance.Plan(same, work)
	if err != nil {
		return nil, err
	}
	shares := rebalance.WarmUp(all, placed, work, rebalance.Warmup{Max: g.i.cfg.MaxWarmups, Near: g.i.cfg.AcceptableLag})
	assigned := rebalance.Assigned{Fingerprint: g.i.groupPrint}
	for _, m := range same {
		assigned.Members = append(assigned.Members, m.Instance)
		assigned.Generation = max(assigned.Generation, m.Generation)
	}
	slices.SortFunc(assigned.Members, ids.InstanceID.Compare)
	out := map[string][]byte{}
	for n, m := range members {
		assigned.Tasks, assigned.Warm, assigned.Next = nil, nil, nil
		for _, s := range shares {
			if s.Instance == all[n].Instance {
				assigned.Tasks, assigned.Warm, assigned.Next = s.Tasks, s.Warm, s.Next
			}
		}
		out[m.MemberID] = rebalance.AppendAssigned(nil, assigned)
	}
	return out, nil
}

// event is called on the group's goroutine.
func (g *logGroup) event(e kafka.GroupEvent) {
	switch e.Kind {
	case kafka.GroupAssigned:
		a, err := rebalance.DecodeAssigned(e.Assignment)
		if err != nil {
			g.i.post(changelog.EvFatal{Err: foreignAssignment(g.i.cfg.ApplicationID, err)})
			return
		}
		if a.Fingerprint != g.i.groupPrint {
			g.i.loop.post(func() { g.i.exit(g.i.differs(a.Fingerprint)) })
			return
		}
		g.mu.Lock()
		g.generation = e.Membership.Generation
		g.pending = append(g.pending, a.Tasks)
		g.mu.Unlock()
		g.i.loop.post(func() {
			if !slices.Contains(a.Members, g.i.self) && g.i.cfg.Standbys > 0 {
				g.group.Rejoin() // followers are found by the list, which has the one before
			}
			g.i.warmups.assigned(a)
			g.i.step(changelog.EvAssigned{
				Member: e.Membership.MemberID, Generation: e.Membership.Generation, Tasks: a.Tasks, Instances: a.Members,
			})
			g.mu.Lock()
			g.pending = g.pending[1:]
			g.mu.Unlock()
		})
	case kafka.GroupRejoining:
		g.i.log.Debug("consumer group rebalances", "cause", e.Err)
		if kafka.UnknownMember(e.Err) {
			g.i.post(changelog.EvDropped{})
		}
	case kafka.GroupFailed:
		g.i.post(changelog.EvFatal{Err: fmt.Errorf("consumer group %s: %w", g.i.cfg.ApplicationID, g.explain(e.Err))})
	case kafka.GroupHeartbeat:
	}
}

// leave leaves the group in the background; close waits for it. A static member
// that shall come back keeps its place.
func (g *logGroup) leave(comesBack bool) {
	if comesBack {
		g.end()
		return
	}
	g.runs.Add(1)
	go func() {
		defer g.runs.Done()
		defer g.end()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := g.group.Leave(ctx); err != nil && !errors.Is(err, kafka.ErrClosed) {
			g.i.log.Debug("could not leave the consumer group; the session timeout does it", "error", err)
		}
	}()
}

// close waits until the group was left. REQUIRES: leave was called.
func (g *logGroup) close() {
	g.runs.Wait()
	_ = g.group.Close() // or its connections stay as long as the process
}
