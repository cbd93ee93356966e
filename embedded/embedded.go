// Package embedded runs a Kafka-compatible broker inside this process, for
// examples, first tries and tests: no Java, no container, no port to choose.
//
// The broker is kfake of franz-go. It serves transactions, groups and everything
// else tidegate asks for, on 127.0.0.1 only. It is a stand-in: it has no
// replication, ignores some timing, and proves no guarantee. Nothing links it
// unless it is imported. (Kafka Streams' counterpart is EmbeddedKafkaCluster.)
package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Options say what the broker begins with. The zero Options are a broker
// without topics, in memory.
type Options struct {
	// Topics are created at the start, by name with their number of
	// partitions. They keep their records for ever.
	Topics map[string]int32
	// Dir, when set, keeps topics, records, groups and transactions in a
	// folder, from which another Start goes on. One broker at a time may use
	// it. Without it everything is gone at Close.
	Dir string
	// Port is the port on 127.0.0.1; 0 takes a free one. To go on after a
	// restart under the same address give the old one.
	Port int
	// Configs are broker settings, such as transaction.max.timeout.ms.
	Configs map[string]string
}

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	addr    string
	once    sync.Once
}

// minSession is the smallest session timeout that the broker accepts; Kafka's
// 6 s would make every demonstration of a crash long.
const minSession = 100 * time.Millisecond

// Start runs a broker until Close.
func Start(o Options) (*Broker, error) {
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ListenFn(listen),
		kfake.Ports(o.Port),
		kfake.GroupMinSessionTimeout(minSession),
		kfake.DefaultNumPartitions(1),
	}
	if o.Dir != "" {
		opts = append(opts, kfake.DataDir(o.Dir))
	}
	if len(o.Configs) > 0 {
		opts = append(opts, kfake.BrokerConfigs(o.Configs))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, fmt.Errorf("start embedded broker: %w", err)
	}
	b := &Broker{cluster: cluster, addr: cluster.ListenAddrs()[0]}
	for _, name := range slices.Sorted(maps.Keys(o.Topics)) {
		if err := b.CreateTopic(name, o.Topics[name]); err != nil {
			_ = b.Close()
			return nil, err
		}
	}
	return b, nil
}

// listen keeps the broker on this machine, whatever address kfake asks for.
func listen(network, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var c net.ListenConfig
	return c.Listen(context.Background(), network, net.JoinHostPort("127.0.0.1", port))
}

// CreateTopic makes a topic; one that is there with as many partitions is left
// as it is.
func (b *Broker) CreateTopic(name string, partitions int32) error {
	if partitions < 1 {
		return fmt.Errorf("topic %s: %d partitions, want at least one", name, partitions)
	}
	if info := b.cluster.TopicInfo(name); info != nil {
		if n := int32(len(b.cluster.PartitionInfos(name))); n != partitions {
			return fmt.Errorf("topic %s exists with %d partitions, not %d", name, n, partitions)
		}
		return nil
	}
	err := b.cluster.CreateTopic(name, partitions, map[string]string{
		"retention.ms":                    "-1",
		"message.timestamp.type":          "CreateTime",
		"message.timestamp.before.max.ms": maxInt64,
		"message.timestamp.after.max.ms":  maxInt64,
	})
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return nil
}

const maxInt64 = "9223372036854775807"

// Addr returns the broker's address, host:port, for tidegate.WithBrokers.
func (b *Broker) Addr() string { return b.addr }

// Port returns the broker's port, for Options.Port of a restart.
func (b *Broker) Port() int {
	_, p, err := net.SplitHostPort(b.addr)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(p))
	if err != nil {
		return 0
	}
	return n
}

// Close stops the broker; with Options.Dir its state is written out.
func (b *Broker) Close() error {
	if b == nil {
		return errors.New("embedded broker was not started")
	}
	b.once.Do(b.cluster.Close)
	return nil
}
