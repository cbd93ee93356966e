package runtime

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/rebalance"
)

// groupProtocol names the assignor; members with another one are foreign.
const groupProtocol = "tidegate-1"

// groupShell is the instance's membership in the consumer group: it proposes
// assignments and reports generations, nothing else (R4).
type groupShell struct {
	mirrors sync.WaitGroup // offsets being written as a member (R11)
	i       *instance
	group   *kafka.Group   // nil while not a member; on the loop, as runs
	runs    sync.WaitGroup // of Run, of this and former memberships
	ctx     context.Context
	cancel  context.CancelFunc

	mu         sync.Mutex // guards what UserData reads on the group's goroutine
	leaving    bool
	owned      []ids.TaskID
	generation int32
	assigned   []ids.TaskID // of the newest generation
	standbys   []ids.TaskID
	probe      *time.Timer                   // asks for the next plan after a TakeOver
	next       map[ids.TaskID]ids.InstanceID // a plan behind which there is another; nil: none
	inherited  []ids.TaskID                  // of the instance that had a static member's place
	stays      bool                          // ends without leaving
	kept       *kafka.Group                  // of one that stays; close closes it
}

func newGroupShell(i *instance) *groupShell {
	g := &groupShell{i: i}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// join joins the group, or joins it again with another mark.
func (g *groupShell) join(leaving bool) {
	g.mu.Lock()
	g.leaving = leaving
	g.mu.Unlock()
	if g.group != nil {
		g.group.Rejoin()
		return
	}
	c := g.i.cfg
	group, err := g.i.client.NewGroup(kafka.GroupConfig{
		Group: c.ApplicationID, Protocol: groupProtocol, Topics: g.i.plan.Inputs(), InstanceID: g.i.groupInstance(),
		SessionTimeout: c.SessionTimeout, RebalanceTimeout: max(3*c.SessionTimeout, 10*time.Second),
		UserData: g.userData, Plan: g.assign, OnEvent: g.event,
	})
	if err != nil {
		g.i.end(fmt.Errorf("join consumer group %s: %w", c.ApplicationID, err))
		return
	}
	g.group = group
	g.runs.Add(1)
	go func() {
		defer g.runs.Done()
		if err := group.Run(g.ctx); err != nil && g.ctx.Err() == nil {
			g.failed(err)
		}
	}()
}

// setOwned tells the assignor what this instance runs, so that it keeps it.
func (g *groupShell) setOwned(tasks []ids.TaskID) {
	g.mu.Lock()
	g.owned = tasks
	g.mu.Unlock()
}

func (g *groupShell) userData() []byte {
	held := g.i.held()
	g.mu.Lock()
	defer g.mu.Unlock()
	owned := g.owned
	if len(owned) == 0 {
		owned = g.inherited
	}
	return rebalance.AppendMember(nil, rebalance.Member{
		Instance: g.i.self, Owned: owned, Generation: g.generation, Leaving: g.leaving, Fingerprint: g.i.groupPrint,
		Held: held, Tags: g.i.cfg.Tags,
	})
}

// assign makes the assignment when this member leads the group; it runs on the
// group's goroutine. Members with another topology get nothing and are told
// which one the group runs.
func (g *groupShell) assign(members []kafka.Member, _ map[string]int32) (map[string][]byte, error) {
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
	placed, standbys, err := g.place(same)
	if err != nil {
		return nil, err
	}
	assigned := rebalance.Assigned{Fingerprint: g.i.groupPrint}
	tasksOf, standbysOf := map[ids.InstanceID][]ids.TaskID{}, map[ids.InstanceID][]ids.TaskID{}
	for n, p := range placed {
		tasksOf[p.Instance], standbysOf[p.Instance] = p.Tasks, standbys[n]
	}
	for _, m := range same {
		assigned.Members = append(assigned.Members, m.Instance)
		assigned.Generation = max(assigned.Generation, m.Generation)
	}
	slices.SortFunc(assigned.Members, ids.InstanceID.Compare)
	out := map[string][]byte{}
	for n, m := range members {
		assigned.Tasks, assigned.Standbys = tasksOf[all[n].Instance], standbysOf[all[n].Instance]
		out[m.MemberID] = rebalance.AppendAssigned(nil, assigned)
	}
	return out, nil
}

// event is called on the group's goroutine.
func (g *groupShell) event(e kafka.GroupEvent) {
	switch e.Kind {
	case kafka.GroupAssigned:
		a, err := rebalance.DecodeAssigned(e.Assignment)
		if err != nil {
			g.i.loop.post(func() { g.i.end(foreignAssignment(g.i.cfg.ApplicationID, err)) })
			return
		}
		if a.Fingerprint != g.i.groupPrint {
			g.i.loop.post(func() { g.i.end(g.i.differs(a.Fingerprint)) })
			return
		}
		g.mu.Lock()
		g.generation = e.Membership.Generation
		g.assigned, g.standbys = a.Tasks, a.Standbys
		g.inherited = nil
		inPlace := !slices.Contains(a.Members, g.i.self)
		if inPlace {
			g.inherited = a.Tasks
		}
		g.mu.Unlock()
		if inPlace {
			g.beSeen()
			return
		}
		sent := e.SentAt.Sub(g.i.started).Milliseconds()
		g.i.post(barrier.EvGeneration{
			Generation: e.Membership.Generation, Members: a.Members, Tasks: barrier.NewTaskSet(a.Tasks...),
			Warm: barrier.NewTaskSet(a.Standbys...), SentAt: sent,
		})
	case kafka.GroupHeartbeat:
		g.i.post(barrier.EvHeartbeat{SentAt: e.SentAt.Sub(g.i.started).Milliseconds(), Generation: e.Membership.Generation})
	case kafka.GroupRejoining:
		g.i.log.Debug("consumer group rebalances", "cause", e.Err)
	case kafka.GroupFailed:
		g.failed(e.Err)
	}
}

// foreignAssignment says what an assignment means that no instance made: Kafka
// itself assigns where a consumer of its newer group protocol was first.
func foreignAssignment(group string, err error) error {
	return fmt.Errorf("consumer group %s: the assignment was not made by an instance of this application: %w; the group has members that are not instances of this application: stop them, or use another application id", group, err)
}

func foreignTopology(group, other, own string) error {
	return fmt.Errorf("consumer group %s runs another topology (fingerprint %s, this instance has %s): two applications must not share an application id; to upgrade, stop all instances of the old version first", group, other, own)
}

// leave leaves the group in the background; close waits for it. A later join
// is another membership: a group that was left cannot be joined again.
func (g *groupShell) leave() {
	if g.group == nil {
		return
	}
	group := g.group
	g.group = nil
	g.mu.Lock()
	if g.probe != nil {
		g.probe.Stop()
	}
	g.mu.Unlock()
	if g.stays {
		g.kept = group // close ends Run
		return
	}
	g.i.wg.Add(1)
	go func() {
		defer g.i.wg.Done()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		g.mirrors.Wait()     // offsets are written as a member
		_ = group.Leave(ctx) // the session timeout does it otherwise
		_ = group.Close()    // or its connections stay as long as the process
	}()
}

func (g *groupShell) close() {
	g.cancel()
	g.runs.Wait()
	for _, group := range []*kafka.Group{g.group, g.kept} {
		if group != nil {
			_ = group.Close()
		}
	}
}
