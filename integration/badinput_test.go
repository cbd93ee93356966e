package integration

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/s3"
	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

// TestOversizedOutput: a record above the sink topic's max.message.bytes is the
// user's to solve: the error names topic and limit. Many small records are no
// problem, however small the topic's limit is. Real Kafka and S3.
func TestOversizedOutput(t *testing.T) {
	l := newLab(t, "copy", 2)
	l.must(l.kafka.CreateTopic(l.ctx, l.topic("small"), 2, map[string]string{"max.message.bytes": "20000"}))
	b := tidegate.NewBuilder()
	b.Stream(l.topic("in"), serde.String(), serde.String()).To(l.topic("small"))
	topo, err := b.Build()
	l.must(err)
	committed := l.read("small", true)
	var in []testkit.Message
	for i := range 3000 {
		in = append(in, testkit.Message{Partition: int32(i % 2), Value: fmt.Appendf(nil, "k%d %s", i%5, strings.Repeat("x", 100)), Timestamp: 1_700_000_000_000})
	}
	l.produce(in...)
	a := l.runTopology(topo, "a")
	l.eventually(60*time.Second, "small records pass", func() bool {
		select {
		case <-a.done:
			t.Fatalf("it ended: %v", a.err)
		default:
		}
		return committed.Count() >= 3000
	})
	l.produce(testkit.Message{Value: bytes.Repeat([]byte("y"), 30000), Timestamp: 1_700_000_000_000},
		testkit.Message{Value: []byte("behind"), Timestamp: 1_700_000_000_000})
	l.wantError(a.wait(60*time.Second), l.topic("in")+"-0@1500", l.topic("small"), "20000", "max.message.bytes")
	if committed.Count() != 3000 {
		t.Fatalf("%d records are visible, want 3000", committed.Count())
	}
	// Compressed it fits; zeros of any number do. The broker judges then.
	a = l.runTopology(topo, "a", tidegate.WithCompression("zstd"))
	l.awaitCount(committed, 3002, 60*time.Second)
	noise := make([]byte, 30000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // never fails
	l.produce(testkit.Message{Value: noise, Timestamp: 1_700_000_000_000}, testkit.Message{Value: []byte("last"), Timestamp: 1_700_000_000_000})
	l.wantError(a.wait(60*time.Second), l.topic("small")+"-0", "max.message.bytes")
	// Skipped as any bad record.
	a = l.runTopology(topo, "a", tidegate.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Skip }))
	l.awaitCount(committed, 3003, 60*time.Second)
	if n := a.Health().Skipped; n != 1 {
		t.Fatalf("%d records were skipped, want 1", n)
	}
	a.close()
}

// TestBrokerKilledInTheMiddle: kill -9 of the broker, away for longer than a
// session timeout, while records flow: the application waits and goes on by
// itself, nothing is lost or doubled. A real Kafka of its own, real S3.
func TestBrokerKilledInTheMiddle(t *testing.T) {
	k := servers.RequireOwnKafka(t, servers.KafkaOptions{})
	server, bucket := servers.RequireS3(t)
	l := newLabOn(t, k, server, bucket, "counts", 2)
	committed := l.read("out", true)
	a := l.run("a")
	l.produce(l.words(0, 5000, 50)...)
	l.awaitCount(committed, 5000, 60*time.Second)
	l.produce(l.words(5000, 5000, 50)...)
	l.must(k.Kill(l.ctx))
	away := time.Now()
	l.eventually(10*time.Second, "the session timeout is over", func() bool { return time.Since(away) > l.base.Session+500*time.Millisecond })
	l.must(k.Start(l.ctx))
	l.awaitCount(committed, 10000, 60*time.Second)
	l.produce(l.words(10000, 5000, 50)...)
	l.awaitCount(committed, 15000, 60*time.Second)
	a.close()
	l.running(committed)
}

// TestS3IsLookedAtAtStart: a missing bucket, wrong keys, and no server at all are
// found before anything is processed, and the error says what to do. Real Kafka
// and S3.
func TestS3IsLookedAtAtStart(t *testing.T) {
	l := newLab(t, "counts", 2)
	l.produce(l.words(0, 10, 5)...)
	for name, tt := range map[string]struct {
		change func(*s3.Config)
		says   []string
	}{
		"bucket":      {func(c *s3.Config) { c.Bucket = "no-such-bucket" }, []string{"no-such-bucket", "does not exist"}},
		"unknown key": {func(c *s3.Config) { c.Credentials = &s3.Credentials{AccessKeyID: "x", SecretAccessKey: "y"} }, []string{l.base.S3.Bucket, "denied", "credentials"}},
		"secret": {func(c *s3.Config) {
			c.Credentials = &s3.Credentials{AccessKeyID: c.Credentials.AccessKeyID, SecretAccessKey: "wrong"}
		}, []string{l.base.S3.Bucket, "denied"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := *l
			l.T = t
			cfg := l.base.S3
			tt.change(&cfg)
			store, err := s3.New(l.ctx, cfg)
			l.must(err)
			l.wantError(l.run("a", tidegate.WithCheckpointStore(store)).wait(60*time.Second), append(tt.says, "checkpoint store")...)
		})
	}
	if n := len(l.objects()); n != 0 {
		t.Fatalf("%d objects were written", n)
	}
}

// TestDamagedObject: an object of the last checkpoint in S3 was changed: its
// checksum tells, and the error names it. Real Kafka and S3.
func TestDamagedObject(t *testing.T) {
	l := newLab(t, "counts", 2)
	committed := l.read("out", true)
	l.produce(l.words(0, 500, 50)...)
	a := l.run("a")
	l.awaitCount(committed, 500, 60*time.Second)
	a.close()
	store := l.store()
	damaged := []string{}
	for o, err := range store.List(l.ctx, l.base.App+"/") {
		l.must(err)
		n, err := checkpoint.ParseName(o.Key)
		l.must(err)
		if n.Kind != checkpoint.NamePack && n.Kind != checkpoint.NameFile {
			continue
		}
		b, err := checkpoint.Get(l.ctx, store, o.Key)
		l.must(err)
		b[len(b)/2] ^= 1
		l.must(store.Put(l.ctx, o.Key, checkpoint.BytesSource(b)))
		damaged = append(damaged, o.Key)
	}
	// Another instance: this one has files of its own, and downloads none.
	err := l.run("b").wait(60 * time.Second)
	l.wantError(err, "corrupted", "RestoreFrom")
	for _, key := range damaged {
		if strings.Contains(err.Error(), key) {
			return
		}
	}
	t.Fatalf("%v names none of %v", err, damaged)
}

// TestAuthorization: with ACLs, what is denied is said together with what the
// application needs: at start for a topic it may not read, and later for one
// that it may not write any more. A real Kafka of its own with an authorizer.
func TestAuthorization(t *testing.T) {
	k := servers.RequireOwnKafka(t, servers.KafkaOptions{Config: map[string]string{
		"authorizer.class.name":                     "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"allow.everyone.if.no.acl.found":            "true",
		"super.users":                               "User:nobody",
		"early.start.listeners":                     "CONTROLLER",
		"connections.max.reauth.ms":                 "0",
		"transaction.partition.verification.enable": "true",
	}})
	server, bucket := servers.RequireS3(t)
	l := newLabOn(t, k, server, bucket, "counts", 2)
	admin, err := sarama.NewClusterAdmin(k.Brokers(), servers.SaramaConfig())
	l.must(err)
	defer admin.Close()
	deny := func(topic string, op sarama.AclOperation) func() {
		res := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: topic, ResourcePatternType: sarama.AclPatternLiteral}
		acl := sarama.Acl{Principal: "User:ANONYMOUS", Host: "*", Operation: op, PermissionType: sarama.AclPermissionDeny}
		allow := sarama.Acl{Principal: "User:ANONYMOUS", Host: "*", Operation: sarama.AclOperationAll, PermissionType: sarama.AclPermissionAllow}
		l.must(admin.CreateACLs([]*sarama.ResourceAcls{{Resource: res, Acls: []*sarama.Acl{&acl, &allow}}}))
		return func() {
			_, err := admin.DeleteACL(sarama.AclFilter{
				ResourceType: sarama.AclResourceTopic, ResourceName: &topic, ResourcePatternTypeFilter: sarama.AclPatternLiteral,
				PermissionType: sarama.AclPermissionDeny, Operation: sarama.AclOperationAny,
			}, false)
			l.must(err)
		}
	}
	committed := l.read("out", true)
	l.produce(l.words(0, 100, 10)...)
	allow := deny(l.topic("in"), sarama.AclOperationDescribe)
	l.eventually(20*time.Second, "the denial is in effect", func() bool {
		_, err := l.client.K.Admin().DescribeTopics(l.ctx, false, l.topic("in"))
		return err != nil
	})
	l.wantError(l.run("a").wait(60*time.Second), l.topic("in"), "authoriz", "needs these ACLs", "READ and DESCRIBE on topic")
	allow()
	allow = deny(l.topic("in"), sarama.AclOperationRead)
	l.wantError(l.run("a").wait(60*time.Second), l.topic("in"), "authoriz")
	allow()

	a := l.run("a")
	l.awaitCount(committed, 100, 60*time.Second)
	allow = deny(l.topic("out"), sarama.AclOperationWrite)
	l.produce(l.words(100, 100, 10)...)
	l.wantError(a.wait(60*time.Second), l.topic("out"), "authoriz")
	allow()
	a = l.run("a")
	l.awaitCount(committed, 200, 60*time.Second)
	a.close()
	l.running(committed)
}
