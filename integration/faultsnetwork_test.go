package integration

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/integration/servers"
)

// network puts an instance behind a network of its own.
func (l *lab) network() (*servers.Network, tidegate.Option) {
	n := &servers.Network{}
	l.Cleanup(n.Close)
	config := servers.SaramaConfig()
	config.Net.Proxy.Dialer = n
	return n, tidegate.WithSarama(config)
}

// TestFaultNetworkCut: between one of two instances and the broker the network is
// cut for longer than the session timeout; connections end, or stall and deliver
// late what was sent. The other instance takes all tasks over, the first one
// joins again when the network is back, and nothing is lost or doubled. Real
// Kafka through proxies, real S3.
func TestFaultNetworkCut(t *testing.T) {
	for name, cut := range map[string]func(*servers.Network){
		"cut":     (*servers.Network).Cut,
		"stalled": (*servers.Network).Stall,
	} {
		t.Run(name, func(t *testing.T) {
			if name == "cut" {
				onlyMakeFaults(t)
			}
			l := newLab(t, "counts", 4)
			committed := l.read("out", true)
			n, through := l.network()
			a, b := l.run("a"), l.run("b", through)
			both := func() bool { return len(a.Health().Tasks) == 4 && len(b.Health().Tasks) == 4 }
			l.eventually(60*time.Second, "both have four tasks", both)
			f := l.feed(100, 50, 100*time.Millisecond, committed.Count)
			f.progress(30*time.Second, 3)
			f.longest()
			was := b.Health().Instance
			cut(n)
			l.eventually(40*time.Second, "the other has all tasks", func() bool { return len(a.Health().Tasks) == 8 })
			f.progress(30*time.Second, 3)
			t.Logf("output stood still for at most %v, the session timeout is %v", f.longest(), l.base.Session)
			n.Mend()
			l.eventually(60*time.Second, "it is back as another instance", func() bool { return both() && b.Health().Instance != was })
			f.progress(30*time.Second, 2)
			total := f.end()
			l.awaitCount(committed, total, 60*time.Second)
			a.close()
			b.close()
			l.running(committed)
		})
	}
}

// TestFaultSlowBroker: every request of one of two instances takes 400 ms longer.
// Checkpoints complete all the same, later; nobody is declared dead. Real Kafka
// through proxies, real S3.
func TestFaultSlowBroker(t *testing.T) {
	l := newLab(t, "counts", 4)
	committed := l.read("out", true)
	n, through := l.network()
	log := &logLines{}
	a, b := l.run("a", log.option()), l.run("b", through, log.option())
	l.eventually(60*time.Second, "both have four tasks", func() bool { return len(a.Health().Tasks) == 4 && len(b.Health().Tasks) == 4 })
	f := l.feed(100, 50, 100*time.Millisecond, committed.Count)
	f.progress(30*time.Second, 3)
	t.Logf("undisturbed: output stood still for at most %v", f.longest())
	n.Delay(200 * time.Millisecond)
	f.progress(30*time.Second, 4)
	t.Logf("with 400 ms more per request: at most %v", f.longest())
	total := f.end()
	l.awaitCount(committed, total, 60*time.Second)
	n.Mend()
	a.close()
	b.close()
	l.running(committed)
	if log.count("declared dead") > 0 || log.count("rolling back") > 0 {
		t.Fatal("an instance was declared dead, or tasks rolled back, because of a slow network")
	}
}
