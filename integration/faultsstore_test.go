package integration

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/checkpoint/s3"
	"github.com/tidegate/tidegate/integration/servers"
)

// TestFaultStore: the object store is slow, refuses a tenth of the requests,
// carries out half of the puts without an answer, and goes away for longer than a
// checkpoint may take. Each time output goes on when it can, nothing is written
// twice, and the next start finds everything. Real Kafka, real S3 behind a proxy.
func TestFaultStore(t *testing.T) {
	server, bucket := servers.RequireS3(t)
	l := newLabOn(t, servers.RequireKafka(t), server, bucket, "counts", 4)
	l.base.Timeout, l.base.Aborts = 4*time.Second, 20
	proxy := servers.NewStoreProxy(t, server, 1)
	cfg := l.base.S3
	cfg.Endpoint = proxy.Endpoint
	store, err := s3.New(l.ctx, cfg)
	l.must(err)
	committed, all := l.read("out", true), l.read("out", false)
	log := &logLines{}
	a := l.run("a", tidegate.WithCheckpointStore(store), log.option())
	a.awaitRunning()
	f := l.feed(100, 50, 50*time.Millisecond, committed.Count)
	f.progress(30*time.Second, 3)
	t.Logf("undisturbed: output stood still for at most %v", f.longest())
	for _, tt := range []struct {
		name   string
		faults servers.StoreFaults
	}{
		{"slow by 300 ms", servers.StoreFaults{Delay: 300 * time.Millisecond}},
		{"a tenth refused", servers.StoreFaults{FailPercent: 10}},
		{"half of the puts unanswered", servers.StoreFaults{LosePercent: 50}},
	} {
		before, aborts := a.Health().LastCheckpoint, log.count("checkpoint aborted")
		proxy.Set(tt.faults)
		f.progress(30*time.Second, 6)
		requests, refused, unanswered := proxy.Counts()
		t.Logf("%s: output stood still for at most %v; %d aborts; so far %d requests, %d refused, %d puts unanswered",
			tt.name, f.longest(), log.count("checkpoint aborted")-aborts, requests, refused, unanswered)
		if a.Health().LastCheckpoint == before {
			t.Fatalf("%s: no checkpoint completed", tt.name)
		}
		proxy.Set(servers.StoreFaults{})
	}
	if _, refused, unanswered := proxy.Counts(); refused == 0 || unanswered == 0 {
		t.Fatal("no request was refused, or no put unanswered: the test proves nothing")
	}
	aborts := log.count("checkpoint aborted")
	proxy.Set(servers.StoreFaults{Down: true})
	written := all.Count()
	l.eventually(60*time.Second, "checkpoints are aborted", func() bool { return log.count("checkpoint aborted") >= aborts+2 })
	l.eventually(20*time.Second, "processing goes on", func() bool { return all.Count() > written+1000 })
	proxy.Set(servers.StoreFaults{})
	f.progress(30*time.Second, 2)
	t.Logf("down until two checkpoints were aborted: output stood still for at most %v", f.longest())
	total := f.end()
	l.awaitCount(committed, total, 60*time.Second)
	a.close()
	if n := all.Count(); n != total {
		t.Fatalf("%d records were written for %d: an abort of a checkpoint must repeat nothing", n, total)
	}
	a = l.run("a") // what is in the store is whole
	l.produce(l.words(total, 500, 50)...)
	l.awaitCount(committed, total+500, 60*time.Second)
	a.close()
	l.running(committed)
}
