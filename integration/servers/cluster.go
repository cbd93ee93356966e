package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

// KafkaCluster is several brokers on this machine, each a broker and a
// controller, run by Java: topics and transactions have three replicas, of which
// two must be in sync.
type KafkaCluster struct {
	// Nodes are the brokers; number i has the id i+1.
	Nodes []*KafkaServer
}

// clusterHeapMB is the heap of each broker of a cluster.
const clusterHeapMB = 384

// RequireKafkaCluster starts a cluster of three brokers for this test alone and
// ends it with the test. Skips and fails like [RequireKafka].
func RequireKafkaCluster(t testing.TB) *KafkaCluster {
	t.Helper()
	c, err := startCluster(t.Context(), 3, KafkaOptions{Own: true, HeapMB: clusterHeapMB, StartTimeout: 2 * time.Minute})
	require(t, err)
	t.Cleanup(func() {
		for i, k := range c.Nodes {
			if t.Failed() {
				t.Logf("end of the log of broker %d:\n%s", i+1, k.Log(3000))
			}
			if err := k.Close(); err != nil {
				t.Errorf("stop broker %d: %v", i+1, err)
			}
		}
	})
	return c
}

func startCluster(ctx context.Context, n int, o KafkaOptions) (*KafkaCluster, error) {
	libs, err := javaAvailable(ctx)
	if err != nil {
		return nil, fmt.Errorf("a cluster needs Java: %w", err)
	}
	var ports []int // external, internal, controller of each
	for range 3 * n {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	at := func(i int) string { return "127.0.0.1:" + strconv.Itoa(ports[i]) }
	var voters, brokers []string
	for i := range n {
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, at(3*i+2)))
		brokers = append(brokers, at(3*i))
	}
	c := &KafkaCluster{}
	fail := func(err error) (*KafkaCluster, error) {
		for _, k := range c.Nodes {
			_ = k.Close()
		}
		return nil, err
	}
	for i := range n {
		b, err := newClusterNode(o, libs, i, n, at, strings.Join(voters, ","))
		if err != nil {
			return fail(err)
		}
		k := &KafkaServer{source: Java, brokers: []string{brokers[i]}, timeout: o.StartTimeout, broker: b}
		remember(k)
		c.Nodes = append(c.Nodes, k)
		if err := b.start(ctx); err != nil { // none is ready before a majority is there
			return fail(fmt.Errorf("start broker %d: %w", i+1, err))
		}
	}
	if err := c.WaitReady(ctx); err != nil {
		return fail(err)
	}
	return c, nil
}

func newClusterNode(o KafkaOptions, libs string, i, n int, at func(int) string, voters string) (*javaBroker, error) {
	dir, err := scratchDir("kafka")
	if err != nil {
		return nil, err
	}
	b := &javaBroker{libs: libs, dir: dir, heapMB: o.HeapMB, member: true}
	properties := singleNode()
	replicas := strconv.Itoa(min(n, 3))
	for key, value := range map[string]string{
		"node.id":                                  strconv.Itoa(i + 1),
		"listeners":                                "EXTERNAL://" + at(3*i) + ",INTERNAL://" + at(3*i+1) + ",CONTROLLER://" + at(3*i+2),
		"advertised.listeners":                     "EXTERNAL://" + at(3*i) + ",INTERNAL://" + at(3*i+1),
		"controller.quorum.voters":                 voters,
		"log.dirs":                                 filepath.Join(dir, "data"),
		"default.replication.factor":               replicas,
		"min.insync.replicas":                      "2",
		"offsets.topic.replication.factor":         replicas,
		"transaction.state.log.replication.factor": replicas,
		"transaction.state.log.min.isr":            "2",
		// What was killed is noticed within seconds.
		"broker.session.timeout.ms":          "4000",
		"broker.heartbeat.interval.ms":       "1000",
		"replica.lag.time.max.ms":            "4000",
		"controller.quorum.fetch.timeout.ms": "1500",
		// Rack-unaware and small: there are three on one machine.
		"num.network.threads": "2", "num.io.threads": "4", "log.cleaner.enable": "false",
	} {
		properties[key] = value
	}
	for key, value := range o.Config {
		properties[key] = value
	}
	if err := os.WriteFile(b.propertiesPath(), []byte(propertiesText(properties)), 0o644); err != nil {
		return nil, fmt.Errorf("write broker settings: %w", err)
	}
	return b, nil
}

// Brokers are the bootstrap addresses of all.
func (c *KafkaCluster) Brokers() (all []string) {
	for _, k := range c.Nodes {
		all = append(all, k.Brokers()...)
	}
	return all
}

// Node is the broker with an id.
func (c *KafkaCluster) Node(id int32) *KafkaServer { return c.Nodes[id-1] }

// WaitReady returns when all brokers know all brokers, and every partition of
// every topic has all its replicas in sync.
func (c *KafkaCluster) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	config := SaramaConfig()
	config.Metadata.Retry.Max = 0
	config.Net.DialTimeout, config.Net.ReadTimeout = time.Second, 3*time.Second
	for i, k := range c.Nodes {
		err := poll(ctx, 200*time.Millisecond, func(ctx context.Context) error {
			if k.ended(ctx) {
				return errEnded
			}
			return c.whole(k, config)
		})
		if err != nil {
			return fmt.Errorf("broker %d of the cluster: %w; end of its log:\n%s", i+1, err, k.Log(4000))
		}
	}
	return nil
}

func (c *KafkaCluster) whole(k *KafkaServer, config *sarama.Config) error {
	client, err := sarama.NewClient(k.Brokers(), config)
	if err != nil {
		return err
	}
	defer client.Close()
	if n := len(client.Brokers()); n < len(c.Nodes) {
		return fmt.Errorf("it knows %d brokers of %d", n, len(c.Nodes))
	}
	topics, err := client.Topics()
	if err != nil {
		return err
	}
	for _, topic := range topics {
		parts, err := client.Partitions(topic)
		if err != nil {
			return err
		}
		for _, p := range parts {
			all, err := client.Replicas(topic, p)
			in, err2 := client.InSyncReplicas(topic, p)
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			if len(in) < len(all) {
				return fmt.Errorf("%s-%d: %d of %d replicas in sync", topic, p, len(in), len(all))
			}
		}
	}
	return nil
}

var becameController = regexp.MustCompile(`Becoming the active controller at epoch (\d+)`)

// Controller returns the id of the broker that is the active controller, by
// what their logs say.
func (c *KafkaCluster) Controller() (id int32, err error) {
	newest := -1
	for i, k := range c.Nodes {
		for _, m := range becameController.FindAllStringSubmatch(k.Log(16<<20), -1) {
			if epoch, _ := strconv.Atoi(m[1]); epoch > newest {
				newest, id = epoch, int32(i+1)
			}
		}
	}
	if newest < 0 {
		return 0, errors.New("no broker's log says that it became the active controller")
	}
	return id, nil
}

// Leader returns the id of the broker that leads a partition.
func (c *KafkaCluster) Leader(topic string, partition int32) (int32, error) {
	client, err := sarama.NewClient(c.Brokers(), SaramaConfig())
	if err != nil {
		return 0, err
	}
	defer client.Close()
	b, err := client.Leader(topic, partition)
	if err != nil {
		return 0, err
	}
	return b.ID(), nil
}
