package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/integration/servers"
)

// CreateTopic returns when every partition answers: the metadata names a leader
// a moment before it serves requests.
func CreateTopic(ctx context.Context, kafka *servers.KafkaServer, client sarama.Client, topic string, partitions int32) error {
	if err := kafka.CreateTopic(ctx, topic, partitions, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for p := range partitions {
		for {
			_, err := client.GetOffset(topic, p, sarama.OffsetOldest)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for %s-%d: %w", topic, p, err)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// DeleteTopics removes the topics whose names begin with prefix, also those that
// a system made for itself. It gives the disk back; a topic that stays costs
// nothing else, so what fails is only printed.
func DeleteTopics(client sarama.Client, prefix string) {
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		fmt.Fprintf(os.Stderr, "delete topics %s*: %v\n", prefix, err)
		return
	}
	topics, err := admin.ListTopics()
	if err != nil {
		fmt.Fprintf(os.Stderr, "delete topics %s*: %v\n", prefix, err)
		return
	}
	for name := range topics {
		if strings.HasPrefix(name, prefix) {
			if err := admin.DeleteTopic(name); err != nil && !errors.Is(err, sarama.ErrUnknownTopicOrPartition) { // gone already
				fmt.Fprintf(os.Stderr, "delete topic %s: %v\n", name, err)
			}
		}
	}
}

// BuildFloor compiles the program of integration/bench/floor.
func BuildFloor(ctx context.Context, path string) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/tidegate/tidegate/integration/bench/floor").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the floor program (run this from the folder of its module): %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
