package runtime

import (
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/kafka"
)

// A static member (WithStaticMembership) keeps its place in the group when its
// process ends, until the session timeout. Who comes back in that place is another
// instance in the control log (R2), so Kafka's answer, the assignment of the one
// before, is not for it: it asks for a generation in which it is seen, claims the
// tasks, and the coordinator rolls them back to it, because the name is reported
// again (R26). In changelog mode the assignment is taken as it is.

// groupInstance is the instance's group.instance.id; "" for a member that is not
// static.
func (d *deployment) groupInstance() string {
	if d.cfg.StaticMembership {
		return d.name
	}
	return ""
}

// pause ends the instance without a handover: its tasks wait for it.
func (i *instance) pause() {
	if i.ending {
		return
	}
	i.log.Info("stopping: the tasks wait for this instance to come back", "for", i.cfg.SessionTimeout)
	i.group.stays = true
	i.end(nil)
}

// beSeen asks for a generation with this instance in it. Kafka makes one because
// the user data is not that of the join before: it claims tasks.
func (g *groupShell) beSeen() {
	g.i.loop.post(func() {
		if g.group != nil {
			g.group.Rejoin()
		}
	})
}

// fencedFor is how long a member that was fenced by one of its name waits for the
// control log to say which one that is.
const fencedFor = 3 * time.Second

// failed ends the instance when it cannot be in the group; on the group's
// goroutine.
func (g *groupShell) failed(err error) {
	end := func() {
		g.i.loop.post(func() {
			g.i.end(fmt.Errorf("consumer group %s: instance %s: %w", g.i.cfg.ApplicationID, g.i.self, err))
		})
	}
	if kafka.Fenced(err) {
		time.AfterFunc(fencedFor, end) // the log names both, and comes first (R26)
		return
	}
	end()
}
