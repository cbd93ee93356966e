package runtime

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/topology"
)

// Reset is what must go so that an application begins as if it had never run:
// its internal topics and its consumer group with the offsets. Input and output
// topics, checkpoint storage and state folders stay: a new life does not read
// what is left there. (Kafka Streams' application reset tool.)
type Reset struct {
	Application string
	// Topics are the internal topics found, sorted. They are recognised by name:
	// "A-…-changelog", "A-…-repartition" and "A-control". Another application
	// whose id begins with "A-" has such names, too: look before Execute.
	Topics []string

	client *kafka.Client
}

// PlanReset finds what a Reset would delete. Close it.
func PlanReset(ctx context.Context, brokers []string, application string, log *slog.Logger) (*Reset, error) {
	if !validID.MatchString(application) {
		return nil, fmt.Errorf("application id %q: use 1 to 180 letters, digits, dots, underscores or hyphens", application)
	}
	client, err := kafka.NewClientFrom(brokers, nil, log)
	if err != nil {
		return nil, err
	}
	r := &Reset{Application: application, client: client}
	err = client.Admin().Ping(ctx)
	var all []string
	if err == nil {
		all, err = client.Admin().ListTopics(ctx)
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	for _, name := range all {
		if topology.InternalName(application, name) {
			r.Topics = append(r.Topics, name)
		}
	}
	return r, nil
}

// Execute deletes the group, which fails while an instance is in it, and then the
// topics. Repeating it does no harm.
func (r *Reset) Execute(ctx context.Context) error {
	if err := r.client.Admin().DeleteGroup(ctx, r.Application); err != nil {
		return fmt.Errorf("reset application %q: %w", r.Application, err)
	}
	if len(r.Topics) == 0 {
		return nil
	}
	if err := r.client.Admin().DeleteTopics(ctx, r.Topics...); err != nil {
		return fmt.Errorf("reset application %q: %w", r.Application, err)
	}
	return nil
}

// Close ends the connections.
func (r *Reset) Close() { _ = r.client.Close() }
