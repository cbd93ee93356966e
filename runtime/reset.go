package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/topology"
)

// Reset is what must go so that an application begins as if it had never run:
// its internal topics, its consumer group with the offsets, and with AddStore its
// checkpoints. Input and output topics and state folders stay: a new life does not
// read what is left there. Checkpoints that stay keep a start in barrier mode from
// beginning anew: they look like those of a lost control log. (Kafka Streams'
// application reset tool.)
type Reset struct {
	Application string
	// Topics are the internal topics found, sorted. They are recognised by name:
	// "A-…-changelog", "A-…-repartition" and "A-control".
	Topics []string
	// Ambiguous are topics of such names that can be those of another application
	// that exists, sorted by topic: of "A-b-c-changelog" nobody can tell whether it
	// is store "b-c" of A or store "c" of "A-b". Execute leaves them alone unless
	// Include moved them to Topics.
	Ambiguous []AmbiguousTopic

	client *kafka.Client
	store  checkpoint.Store
	keys   []string // of objects in the store
}

// AddStore looks for the application's objects in the checkpoint store, which
// Execute then deletes, too, and returns how many there are.
func (r *Reset) AddStore(ctx context.Context, store checkpoint.Store) (objects int, err error) {
	r.store, r.keys = store, nil
	for o, err := range store.List(ctx, checkpoint.ApplicationPrefix(r.Application)) {
		if err != nil {
			return 0, fmt.Errorf("look for checkpoints of application %q in %s: %w", r.Application, store, err)
		}
		r.keys = append(r.keys, o.Key)
	}
	return len(r.keys), nil
}

// AmbiguousTopic is a topic that may belong to another application.
type AmbiguousTopic struct {
	Topic string
	// Other is the application id, and Trace says what shows that it exists.
	Other, Trace string
}

// PlanReset finds what a Reset would delete. Close it.
func PlanReset(ctx context.Context, cluster KafkaConfig, application string, log *slog.Logger) (*Reset, error) {
	if !validID.MatchString(application) {
		return nil, fmt.Errorf("application id %q: use 1 to 180 letters, digits, dots, underscores or hyphens", application)
	}
	client, err := kafka.NewClientFrom(cluster.Brokers, cluster.Sarama, log)
	if err != nil {
		return nil, err
	}
	r := &Reset{Application: application, client: client}
	err = client.Admin().Ping(ctx)
	var all []string
	if err == nil {
		all, err = client.Admin().ListTopics(ctx)
	}
	var groups []string
	if err == nil {
		groups, err = client.Admin().ListGroups(ctx)
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	r.sort(all, groups)
	return r, nil
}

// sort finds the application's topics among all, and of which other applications
// they can be: those with a consumer group, or with a control log.
func (r *Reset) sort(topics, groups []string) {
	others := map[string]string{}
	for _, name := range topics {
		if id, ok := strings.CutSuffix(name, ControlTopic("")); ok {
			others[id] = "topic " + name
		}
	}
	for _, id := range groups {
		others[id] = "consumer group " + id
	}
	for _, name := range topics {
		if !topology.InternalName(r.Application, name) {
			continue
		}
		other := ""
		for id := range others { // the longest, so that the choice is not random
			if id != r.Application && len(id) > len(other) && topology.InternalName(id, name) {
				other = id
			}
		}
		if other == "" {
			r.Topics = append(r.Topics, name)
		} else {
			r.Ambiguous = append(r.Ambiguous, AmbiguousTopic{name, other, others[other]})
		}
	}
}

// Include moves ambiguous topics to those that Execute deletes: somebody knows
// that they are this application's.
func (r *Reset) Include(topics ...string) error {
	for _, name := range topics {
		at := slices.IndexFunc(r.Ambiguous, func(a AmbiguousTopic) bool { return a.Topic == name })
		switch {
		case at >= 0:
			r.Ambiguous = slices.Delete(r.Ambiguous, at, at+1)
			r.Topics = append(r.Topics, name)
		case !slices.Contains(r.Topics, name):
			return fmt.Errorf("topic %q is not among the internal topics that application %q can have", name, r.Application)
		}
	}
	slices.Sort(r.Topics)
	return nil
}

// Execute deletes the group, which fails while an instance is in it, and then the
// topics. Repeating it does no harm.
func (r *Reset) Execute(ctx context.Context) error {
	if err := r.client.Admin().DeleteGroup(ctx, r.Application); err != nil {
		return fmt.Errorf("reset application %q: %w", r.Application, err)
	}
	if len(r.Topics) > 0 {
		if err := r.client.Admin().DeleteTopics(ctx, r.Topics...); err != nil {
			return fmt.Errorf("reset application %q: %w", r.Application, err)
		}
	}
	if len(r.keys) > 0 { // last: until they are gone nothing begins by accident
		if err := r.store.Delete(ctx, r.keys); err != nil {
			return fmt.Errorf("reset application %q: delete its checkpoints: %w", r.Application, err)
		}
	}
	return nil
}

// Close ends the connections.
func (r *Reset) Close() { _ = r.client.Close() }
