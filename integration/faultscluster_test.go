package integration

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/integration/servers"
)

// TestFaultCluster: three brokers, three replicas of which two must be in sync.
// Each broker is restarted in order; the one that leads the control log is killed
// (leaders change), then the active controller. Two instances go on by
// themselves, nothing is lost or doubled; how long output stood still is printed.
// Three real brokers, real S3.
func TestFaultCluster(t *testing.T) {
	onlyMakeFaults(t)
	c := servers.RequireKafkaCluster(t)
	server, bucket := servers.RequireS3(t)
	l := newLabAt(t, c.Node(1), c.Brokers(), server, bucket, "counts", 4)
	l.extend(5 * time.Minute)
	committed := l.read("out", true)
	a, b := l.run("a"), l.run("b")
	a.awaitRunning()
	b.awaitRunning()
	f := l.feed(100, 50, 100*time.Millisecond, committed.Count)
	f.progress(60*time.Second, 5)
	t.Logf("undisturbed: output stood still for at most %v", f.longest())
	mended := func(what string) {
		t.Helper()
		l.must(c.WaitReady(l.ctx))
		f.progress(60*time.Second, 3)
		t.Logf("%s: output stood still for at most %v", what, f.longest())
		for _, i := range []*local{a, b} {
			select {
			case <-i.done:
				t.Fatalf("%s: an instance ended: %v", what, i.err)
			default:
			}
		}
	}
	for i, k := range c.Nodes {
		l.must(k.Stop(l.ctx))
		f.progress(60*time.Second, 1)
		l.must(k.Start(l.ctx))
		mended([]string{"restart of broker 1", "restart of broker 2", "restart of broker 3"}[i])
	}
	kill := func(id int32, what string) {
		t.Helper()
		l.must(c.Node(id).Kill(l.ctx))
		f.progress(60*time.Second, 3) // with two brokers of three
		l.must(c.Node(id).Start(l.ctx))
		mended(what)
	}
	leader, err := c.Leader(l.base.App+"-control", 0)
	l.must(err)
	kill(leader, "kill of the control log's leader")
	controller, err := c.Controller()
	l.must(err)
	kill(controller, "kill of the active controller")
	if next, err := c.Controller(); err != nil || next == controller {
		t.Fatalf("the active controller is %d still (%v): the test proves nothing", next, err)
	}
	total := f.end()
	l.awaitCount(committed, total, 60*time.Second)
	if a.State() != tidegate.Running || b.State() != tidegate.Running {
		t.Fatalf("the instances are %v and %v", a.State(), b.State())
	}
	a.close()
	b.close()
	l.running(committed)
	t.Logf("%d records, each once", total)
}
