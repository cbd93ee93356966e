package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/integration/measure"
	"github.com/tidegate/tidegate/integration/servers"
)

// cluster is the broker that all systems share.
type cluster struct {
	kafka      *servers.KafkaServer
	client     sarama.Client
	partitions int32
}

func newCluster(ctx context.Context, heapMB int, partitions int32) (*cluster, error) {
	k, err := servers.Kafka(ctx, servers.KafkaOptions{HeapMB: heapMB})
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	config := servers.SaramaConfig()
	config.Net.MaxOpenRequests = 3
	client, err := sarama.NewClient(k.Brokers(), config)
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", k.Brokers(), err)
	}
	return &cluster{kafka: k, client: client, partitions: partitions}, nil
}

func (c *cluster) brokers() string { return strings.Join(c.kafka.Brokers(), ",") }

func (c *cluster) create(ctx context.Context, topic string) error {
	return measure.CreateTopic(ctx, c.kafka, c.client, topic, c.partitions)
}

// delete removes every topic whose name begins with a prefix.
func (c *cluster) delete(prefix string) {
	measure.DeleteTopics(c.client, prefix)
	if err := c.client.RefreshMetadata(); err != nil {
		fmt.Fprintln(os.Stderr, "refresh metadata:", err)
	}
}

// sizes returns the bytes that topics hold on the broker.
func (c *cluster) sizes(ctx context.Context, match func(topic string) bool) (map[partition]int64, error) {
	out := map[partition]int64{}
	for _, b := range c.client.Brokers() {
		if ok, _ := b.Connected(); !ok {
			if err := b.Open(c.client.Config()); err != nil && !errors.Is(err, sarama.ErrAlreadyConnected) {
				return nil, err
			}
		}
		resp, err := b.DescribeLogDirs(&sarama.DescribeLogDirsRequest{Version: 1})
		if err != nil {
			return nil, err
		}
		for _, dir := range resp.LogDirs {
			for _, t := range dir.Topics {
				if !match(t.Topic) {
					continue
				}
				for _, p := range t.Partitions {
					out[partition{t.Topic, p.PartitionID}] += p.Size
				}
			}
		}
	}
	return out, ctx.Err()
}

// size is the sum of sizes.
func (c *cluster) size(ctx context.Context, match func(topic string) bool) (sum int64, err error) {
	sizes, err := c.sizes(ctx, match)
	for _, n := range sizes {
		sum += n
	}
	return sum, err
}

// records returns how many records a topic holds that nobody wrote with
// transactions and nothing was deleted of.
func (c *cluster) records(topic string) (sum int64, err error) {
	for p := range c.partitions {
		end, err := c.client.GetOffset(topic, p, sarama.OffsetNewest)
		if err != nil {
			return 0, fmt.Errorf("end of %s-%d: %w", topic, p, err)
		}
		sum += end
	}
	return sum, nil
}
