package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
)

// Admin sends administration requests: topics, settings, offsets, groups. What
// is retriable is retried until ctx ends.
type Admin struct {
	c      *Client
	pool   *pool
	coords *coordinators
}

// adminTimeout is how long the broker may take over one request.
const adminTimeout = 15 * time.Second

// Ping proves that a broker answers, once. The error names the addresses tried.
func (a *Admin) Ping(ctx context.Context) error {
	res, err := anyBroker(ctx, a.c.meta, func(b *sarama.Broker) (*sarama.DescribeClusterResponse, error) {
		return b.DescribeCluster(sarama.NewDescribeClusterRequest(sarama.MaxVersion))
	})
	if err == nil {
		err = codeError(res.Err)
	}
	if err != nil {
		return fmt.Errorf("connect to Kafka at %s: %w; check that the brokers run and that the address, TLS and SASL settings are theirs", a.c.addresses(), err)
	}
	return nil
}

// BrokerConfig reads one setting of a broker, "transaction.max.timeout.ms". A
// broker that does not have it gives an error.
func (a *Admin) BrokerConfig(ctx context.Context, name string) (string, error) {
	v, ok, err := a.brokerConfig(ctx, name)
	if err != nil {
		return "", fmt.Errorf("read broker setting %s: %w", name, err)
	}
	if !ok {
		return "", fmt.Errorf("the broker has no setting %s", name)
	}
	return v, nil
}

func (a *Admin) brokerConfig(ctx context.Context, name string) (value string, ok bool, err error) {
	err = retry(ctx, retriable, func() error {
		n, err := a.anyNode(ctx)
		if err != nil {
			return err
		}
		res, err := request(ctx, a.pool, n, func(b *sarama.Broker) (*sarama.DescribeConfigsResponse, error) {
			return b.DescribeConfigs(&sarama.DescribeConfigsRequest{Version: 4, Resources: []*sarama.ConfigResource{
				{Type: sarama.BrokerResource, Name: strconv.Itoa(int(n.id)), ConfigNames: []string{name}},
			}})
		})
		if err != nil {
			return err
		}
		for _, r := range res.Resources {
			if k := sarama.KError(r.ErrorCode); k != sarama.ErrNoError {
				return withMessage(k, r.ErrorMsg)
			}
			for _, c := range r.Configs {
				if c.Name == name {
					value, ok = c.Value, true
				}
			}
		}
		return nil
	})
	return value, ok, err
}

// anyNode returns a broker whose id is known; a broker answers only for itself
// about its settings.
func (a *Admin) anyNode(ctx context.Context) (node, error) {
	for _, n := range a.c.meta.candidates() {
		if n.id >= 0 {
			return n, nil
		}
	}
	res, err := anyBroker(ctx, a.c.meta, func(b *sarama.Broker) (*sarama.DescribeClusterResponse, error) {
		return b.DescribeCluster(sarama.NewDescribeClusterRequest(sarama.MaxVersion))
	})
	if err != nil {
		return node{}, err
	}
	if res.Err != sarama.ErrNoError {
		return node{}, res.Err
	}
	a.c.meta.learnNodes(res)
	for _, n := range a.c.meta.candidates() {
		if n.id >= 0 {
			return n, nil
		}
	}
	return node{}, sarama.ErrBrokerNotAvailable
}

// controller returns the broker to which topics are created and deleted.
func (a *Admin) controller(ctx context.Context) (node, error) {
	res, err := anyBroker(ctx, a.c.meta, func(b *sarama.Broker) (*sarama.DescribeClusterResponse, error) {
		return b.DescribeCluster(sarama.NewDescribeClusterRequest(sarama.MaxVersion))
	})
	if err == nil {
		err = codeError(res.Err)
	}
	if err != nil {
		return node{}, err
	}
	a.c.meta.learnNodes(res)
	a.c.meta.mu.Lock()
	defer a.c.meta.mu.Unlock()
	n, ok := a.c.meta.nodes[res.ControllerID]
	if !ok {
		return node{}, sarama.ErrNotController
	}
	return n, nil
}

func withMessage(k sarama.KError, msg string) error {
	if msg == "" {
		return k
	}
	return fmt.Errorf("%w: %s", k, msg)
}

// byLeader sends one request per leader of the given partitions and repeats what
// failed in a way that another attempt may cure. do handles the answer of one
// leader and returns the errors by partition.
func (a *Admin) byLeader(ctx context.Context, op string, tps []ids.TopicPartition, do func(n node, tps []ids.TopicPartition) (map[ids.TopicPartition]error, error)) error {
	left := tps
	var at ids.TopicPartition
	err := retry(ctx, retriable, func() error {
		groups, next, err := a.leaders(ctx, left)
		for _, g := range groups {
			errs, reqErr := do(g.node, g.tps)
			for _, tp := range g.tps {
				e := errs[tp]
				if reqErr != nil {
					e = reqErr
				}
				if e == nil {
					continue
				}
				if needsLeader(e) {
					a.c.meta.forget(tp)
				}
				if err == nil || retriable(err) {
					at, err = tp, e
				}
				next = append(next, tp)
			}
		}
		left = next
		return err
	})
	if err != nil {
		return newError(op, at, err)
	}
	return nil
}

type leaderGroup struct {
	node node
	tps  []ids.TopicPartition
}

// leaders groups partitions by leader, in the order given; those without one are
// returned in next, with a reason.
func (a *Admin) leaders(ctx context.Context, tps []ids.TopicPartition) (groups []leaderGroup, next []ids.TopicPartition, err error) {
	index := map[node]int{}
	for _, tp := range tps {
		l, e := a.c.meta.findLeader(ctx, tp)
		if e != nil {
			next = append(next, tp)
			if err == nil || retriable(err) {
				err = e
			}
			continue
		}
		i, ok := index[l.node]
		if !ok {
			i = len(groups)
			index[l.node] = i
			groups = append(groups, leaderGroup{node: l.node})
		}
		groups[i].tps = append(groups[i].tps, tp)
	}
	return groups, next, err
}

// RequiredACLs lists what an application needs, one line each, for errors and
// documentation. The names are those of kafka-acls.sh.
func RequiredACLs(application string, sources, sinks []string) []string {
	out := []string{
		fmt.Sprintf("READ and DESCRIBE on group %q", application),
		fmt.Sprintf("READ, WRITE, CREATE, DELETE, DESCRIBE and DESCRIBE_CONFIGS on topics prefixed %q", application+"-"),
		fmt.Sprintf("WRITE and DESCRIBE on transactional ids prefixed %q", application+"-"),
		"IDEMPOTENT_WRITE on the cluster (brokers before 2.8 only)",
		"DESCRIBE_CONFIGS on the cluster, to read transaction.max.timeout.ms",
	}
	for _, t := range sources {
		out = append(out, fmt.Sprintf("READ and DESCRIBE on topic %q", t))
	}
	for _, t := range sinks {
		out = append(out, fmt.Sprintf("WRITE, DESCRIBE and DESCRIBE_CONFIGS on topic %q", t))
	}
	return out
}

// ACLError is an authorization failure with what the application needs.
type ACLError struct {
	Err      error
	Required []string
}

// Error lists the ACLs needed.
func (e *ACLError) Error() string {
	s := e.Err.Error() + "; the application needs these ACLs:"
	for _, r := range e.Required {
		s += "\n  " + r
	}
	return s
}

// Unwrap returns the failure.
func (e *ACLError) Unwrap() error { return e.Err }

// WithACLs adds the list of needed ACLs to an authorization failure and returns
// any other error as it is.
func WithACLs(err error, application string, sources, sinks []string) error {
	var have *ACLError
	if err == nil || Classify(err) != ClassAuthorization || errors.As(err, &have) {
		return err
	}
	return &ACLError{Err: err, Required: RequiredACLs(application, sources, sinks)}
}
