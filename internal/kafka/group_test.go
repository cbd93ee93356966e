package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// instance is a member of a test group. Its user data is its name; the plan
// tells each member the names of all.
type instance struct {
	g    *Group
	c    *Client
	done chan error

	mu     sync.Mutex
	name   string
	events []GroupEvent
}

func plan(members []Member, partitions map[string]int32) (map[string][]byte, error) {
	var names []string
	for _, m := range members {
		if strings.HasPrefix(string(m.UserData), "bad") {
			return nil, fmt.Errorf("user data %q", m.UserData)
		}
		names = append(names, string(m.UserData))
	}
	out := map[string][]byte{}
	for _, m := range members {
		out[m.MemberID] = fmt.Appendf(nil, "%d members, in has %d", len(names), partitions["in"])
	}
	return out, nil
}

func (e *env) join(name string, change ...func(*GroupConfig)) *instance {
	e.t.Helper()
	in := &instance{name: name, c: e.client(), done: make(chan error, 1)}
	cfg := GroupConfig{
		Group: "A", Protocol: "tidegate-1", Topics: []string{"in", "nowhere"},
		SessionTimeout: time.Second, RebalanceTimeout: 3 * time.Second, Heartbeat: 20 * time.Millisecond,
		UserData: func() []byte { in.mu.Lock(); defer in.mu.Unlock(); return []byte(in.name) },
		Plan:     plan,
		OnEvent:  func(ev GroupEvent) { in.mu.Lock(); defer in.mu.Unlock(); in.events = append(in.events, ev) },
	}
	for _, f := range change {
		f(&cfg)
	}
	g, err := in.c.NewGroup(cfg)
	e.must(err)
	in.g = g
	go func() { in.done <- g.Run(e.ctx) }()
	return in
}

// assigned returns the last assignment and its generation.
func (in *instance) assigned() (string, int32) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := len(in.events) - 1; i >= 0; i-- {
		switch ev := in.events[i]; ev.Kind {
		case GroupAssigned:
			return string(ev.Assignment), ev.Membership.Generation
		case GroupRejoining, GroupFailed:
			return "", 0
		}
	}
	return "", 0
}

func (e *env) all(want string, ins ...*instance) (generation int32) {
	e.t.Helper()
	e.eventually("all members have "+want, func() bool {
		generation = 0
		for _, in := range ins {
			got, gen := in.assigned()
			if got != want || generation != 0 && gen != generation {
				return false
			}
			generation = gen
		}
		return true
	})
	return generation
}

func TestMembersComeAndGo(t *testing.T) {
	e := start(t)
	e.topic("in", 4)
	a := e.join("a")
	g1 := e.all("1 members, in has 4", a)
	b, c := e.join("b"), e.join("c")
	g2 := e.all("3 members, in has 4", a, b, c)
	if g2 <= g1 {
		t.Errorf("generation %d after %d", g2, g1)
	}
	d, err := e.c.Admin().DescribeGroup(e.ctx, "A")
	e.must(err)
	names := map[string]bool{}
	for _, m := range d.Members {
		names[string(m.UserData)] = true
		if string(m.Assignment) != "3 members, in has 4" {
			t.Errorf("assignment %q", m.Assignment)
		}
	}
	if d.State != "Stable" || d.Protocol != "tidegate-1" || len(names) != 3 {
		t.Errorf("group %+v", d)
	}

	e.must(b.g.Leave(e.ctx))
	if err := <-b.done; err != nil {
		t.Errorf("Run after Leave: %v", err)
	}
	e.all("2 members, in has 4", a, c)
	e.must(c.c.Close()) // dies without a word
	e.must(<-c.done)
	e.all("1 members, in has 4", a)
	leaders := 0
	a.mu.Lock()
	for _, ev := range a.events {
		if ev.Kind == GroupAssigned && ev.Leader {
			leaders++
		}
	}
	a.mu.Unlock()
	if leaders == 0 {
		t.Error("the only member never led")
	}
	e.must(a.g.Leave(e.ctx))
	e.must(a.g.Leave(e.ctx))
	e.must(<-a.done)
}

func TestHeartbeatsTellWhenTheyWereSent(t *testing.T) {
	e := start(t)
	e.topic("in", 1)
	a := e.join("a")
	e.all("1 members, in has 1", a)
	begin := time.Now()
	e.eventually("a heartbeat sent after now", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		ev := a.events[len(a.events)-1]
		return ev.Kind == GroupHeartbeat && ev.SentAt.After(begin) && ev.Membership == a.g.Membership()
	})
}

func TestRejoinTellsNewUserData(t *testing.T) {
	e := start(t)
	e.topic("in", 1)
	a, b := e.join("a"), e.join("b")
	g := e.all("2 members, in has 1", a, b)
	for _, in := range []*instance{a, b} {
		in.mu.Lock()
		in.name += " leaving"
		in.mu.Unlock()
		in.g.Rejoin()
		e.eventually("a new generation", func() bool {
			_, ga := a.assigned()
			_, gb := b.assigned()
			return ga > g && ga == gb
		})
		_, g = a.assigned()
	}
	d, err := e.c.Admin().DescribeGroup(e.ctx, "A")
	e.must(err)
	for _, m := range d.Members {
		if !strings.HasSuffix(string(m.UserData), " leaving") {
			t.Errorf("user data %q", m.UserData)
		}
	}
}

func TestALostMemberComesBackAsAnother(t *testing.T) {
	e := start(t)
	e.topic("in", 1)
	a := e.join("a")
	e.all("1 members, in has 1", a)
	old := a.g.Membership().MemberID
	var k = true
	e.cluster.ControlKey(12, func(r kmsg.Request) (kmsg.Response, error, bool) {
		if !k {
			return nil, nil, false
		}
		k = false
		res := r.ResponseKind().(*kmsg.HeartbeatResponse)
		res.ErrorCode = 25
		return res, nil, true
	})
	e.eventually("another member id", func() bool {
		got, _ := a.assigned()
		id := a.g.Membership().MemberID
		return got != "" && id != "" && id != old
	})
}

func TestOffsetsInATransactionAndByAMember(t *testing.T) {
	e := start(t)
	e.topic("in", 1)
	a := e.join("a")
	e.all("1 members, in has 1", a)
	adm := e.c.Admin()
	if err := adm.CommitOffsets(e.ctx, "A", Membership{}, []Offset{{TP: tp("in", 0), Offset: 1}}); err == nil {
		t.Log("this broker takes offsets of no member while the group has members; Kafka does not")
	}
	e.must(adm.CommitOffsets(e.ctx, "A", a.g.Membership(), []Offset{{TP: tp("in", 0), Offset: 2}}))
	w := e.c.NewWriter(WriterConfig{})
	p, h := e.transactional(w, "A-1")
	e.must(p.AddOffsets(e.ctx, "A", []Offset{{TP: tp("in", 0), Offset: 3}})) // generation -1
	e.must(e.c.Transactions().End(e.ctx, h, true))
	got, err := adm.FetchOffsets(e.ctx, "A", tp("in", 0))
	if err != nil || got[tp("in", 0)].Offset != 3 {
		t.Errorf("offsets %v, %v", got, err)
	}
}

func TestForeignMembersAreAClearError(t *testing.T) {
	e := start(t)
	e.topic("in", 1)
	a := e.join("a")
	e.all("1 members, in has 1", a)
	b := e.join("b", func(c *GroupConfig) { c.Protocol = "range" })
	if err := <-b.done; err == nil || !strings.Contains(err.Error(), "not instances of this application") {
		t.Errorf("error %v", err)
	}
	// User data that the plan cannot read ends the leader with what it says.
	c := e.join("bad")
	if err := <-a.done; err == nil || !strings.Contains(err.Error(), `user data "bad"`) {
		t.Errorf("error %v", err)
	}
	a.mu.Lock()
	last := a.events[len(a.events)-1]
	a.mu.Unlock()
	if last.Kind != GroupFailed || last.Err == nil {
		t.Errorf("last event %+v", last)
	}
	e.must(c.g.Leave(e.ctx))
}

func TestASessionTimeoutTheBrokerRefuses(t *testing.T) {
	e := start(t, kfake.GroupMinSessionTimeout(6*time.Second))
	a := e.join("a")
	if err := <-a.done; err == nil || !strings.Contains(err.Error(), "group.min.session.timeout.ms") {
		t.Errorf("error %v", err)
	}
}

func TestGroupConfigIsChecked(t *testing.T) {
	e := start(t)
	good := GroupConfig{Group: "A", Protocol: "p", UserData: func() []byte { return nil }, Plan: plan}
	for i, bad := range []func(*GroupConfig){
		func(c *GroupConfig) { c.Group = "" },
		func(c *GroupConfig) { c.Protocol = "" },
		func(c *GroupConfig) { c.Plan = nil },
		func(c *GroupConfig) { c.Heartbeat = c.SessionTimeout + time.Hour },
	} {
		cfg := good
		bad(&cfg)
		if _, err := e.c.NewGroup(cfg); err == nil {
			t.Errorf("case %d was accepted", i)
		}
	}
	g, err := e.c.NewGroup(good)
	e.must(err)
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if err := g.Run(ctx); err != nil {
		t.Errorf("Run with a context that ended: %v", err)
	}
	e.must(g.Close())
	if err := g.Leave(e.ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("Leave after Close: %v", err)
	}
}

// A static member that goes without a word, and comes back, keeps its place: the
// others hear of nothing until it asks for a generation of its own.
func TestStaticMember(t *testing.T) {
	e := start(t)
	e.topic("in", 4)
	static := func(c *GroupConfig) {
		c.InstanceID, c.SessionTimeout, c.Heartbeat = "host-1", 30*time.Second, 20*time.Millisecond
	}
	long := func(c *GroupConfig) { c.SessionTimeout, c.Heartbeat = 30*time.Second, 20*time.Millisecond }
	b := e.join("b", long)
	e.all("1 members, in has 4", b)
	a := e.join("a", static)
	gen := e.all("2 members, in has 4", a, b)
	e.must(a.c.Close()) // as a process that ends, or is killed
	e.must(<-a.done)

	again := e.join("a-again", static)
	e.eventually("it has the place of the one before", func() bool { text, _ := again.assigned(); return text != "" })
	again.mu.Lock()
	again.name = "a-again, seen"
	again.mu.Unlock()
	again.g.Rejoin()
	e.eventually("a new generation of two", func() bool {
		text, now := again.assigned()
		other, same := b.assigned()
		return now > gen && same == now && text == "2 members, in has 4" && other == text
	})

	// A second one of the name takes its place, and the first is told.
	second := e.join("a-second", static)
	e.eventually("the second is a member", func() bool { text, _ := second.assigned(); return text != "" })
	err := <-again.done
	if err == nil || !strings.Contains(err.Error(), "name of its own") {
		t.Fatal(err)
	}
	e.must(second.g.Leave(e.ctx))
	e.must(<-second.done)
	e.eventually("one is left", func() bool { text, _ := b.assigned(); return text == "1 members, in has 4" })
}
