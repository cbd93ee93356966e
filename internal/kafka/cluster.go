package kafka

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

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
)

// cluster is what is known of the brokers and of who leads what. sarama's own
// Client would do, but it asks connections that a request holds, sleeps in its
// retries, and cannot be interrupted.
type cluster struct {
	pool  *pool
	seeds []node

	mu      sync.Mutex
	nodes   map[int32]node
	leaders map[ids.TopicPartition]leader
	turn    int // rotates which broker is asked
}

// leader is who leads a partition, in which leader epoch.
type leader struct {
	node  node
	epoch int32
}

func newCluster(c *Client) *cluster {
	m := &cluster{
		pool:    c.newPool(0),
		nodes:   map[int32]node{},
		leaders: map[ids.TopicPartition]leader{},
	}
	for _, a := range c.cfg.Brokers {
		m.seeds = append(m.seeds, node{id: -1, addr: a})
	}
	return m
}

func (m *cluster) close() { m.pool.close() }

// candidates returns all brokers in the order in which to ask them: the known
// ones from a rotating start, then the seeds.
func (m *cluster) candidates() []node {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn++
	known := slices.SortedFunc(maps.Values(m.nodes), func(a, b node) int { return int(a.id - b.id) })
	out := make([]node, 0, len(known)+len(m.seeds))
	for i := range known {
		out = append(out, known[(i+m.turn)%len(known)])
	}
	for i := range m.seeds {
		out = append(out, m.seeds[(i+m.turn)%len(m.seeds)])
	}
	return out
}

// anyBroker sends a request that every broker can answer to one after the other
// until one does.
func anyBroker[T any](ctx context.Context, m *cluster, do func(*sarama.Broker) (T, error)) (T, error) {
	var none T
	var errs []error
	for _, n := range m.candidates() {
		v, err := request(ctx, m.pool, n, do)
		if err == nil || isAnswer(err) || errors.Is(err, ErrClosed) {
			return v, err
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return none, fmt.Errorf("no broker answered: %w", errors.Join(errs...))
}

// refresh reads the brokers and the given topics. The result holds every topic
// asked for, also those with an error.
func (m *cluster) refresh(ctx context.Context, topics ...string) ([]*sarama.TopicMetadata, error) {
	req := func(b *sarama.Broker) (*sarama.MetadataResponse, error) {
		return b.GetMetadata(sarama.NewMetadataRequest(sarama.MaxVersion, topics))
	}
	if len(topics) == 0 {
		return nil, nil
	}
	res, err := anyBroker(ctx, m, req)
	if err != nil {
		return nil, fmt.Errorf("read metadata of %s: %w", strings.Join(topics, ", "), err)
	}
	m.learn(res)
	return res.Topics, nil
}

func (m *cluster) learn(res *sarama.MetadataResponse) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(res.Brokers) > 0 { // a starting broker may not know any
		m.nodes = make(map[int32]node, len(res.Brokers))
		for _, b := range res.Brokers {
			m.nodes[b.ID()] = node{id: b.ID(), addr: b.Addr()}
		}
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			tp := ids.TopicPartition{Topic: t.Name, Partition: p.ID}
			n, ok := m.nodes[p.Leader]
			if !ok {
				delete(m.leaders, tp)
				continue
			}
			// A broker behind in its metadata may name an older leader; asking
			// that one gives NOT_LEADER and another refresh, so it does no
			// harm to believe the newest answer, also after a topic was made
			// again and its epochs began anew.
			m.leaders[tp] = leader{node: n, epoch: p.LeaderEpoch}
		}
	}
}

// learnNodes takes over the brokers of a DescribeCluster answer.
func (m *cluster) learnNodes(res *sarama.DescribeClusterResponse) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range res.Brokers {
		if !b.IsFenced {
			m.nodes[b.BrokerID] = node{id: b.BrokerID, addr: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))}
		}
	}
}

// leader returns what is known of a partition's leader.
func (m *cluster) leader(tp ids.TopicPartition) (leader, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.leaders[tp]
	return l, ok
}

// forget drops a leader that turned out to be wrong.
func (m *cluster) forget(tp ids.TopicPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.leaders, tp)
}

// findLeader returns a partition's leader, asking if it is not known.
func (m *cluster) findLeader(ctx context.Context, tp ids.TopicPartition) (leader, error) {
	if l, ok := m.leader(tp); ok {
		return l, nil
	}
	topics, err := m.refresh(ctx, tp.Topic)
	if err != nil {
		return leader{}, err
	}
	if l, ok := m.leader(tp); ok {
		return l, nil
	}
	return leader{}, leaderError(topics, tp)
}

// leaderError says why refreshed metadata hold no leader of tp.
func leaderError(topics []*sarama.TopicMetadata, tp ids.TopicPartition) error {
	for _, t := range topics {
		if t.Name != tp.Topic {
			continue
		}
		if t.Err != sarama.ErrNoError {
			return t.Err
		}
		for _, p := range t.Partitions {
			if p.ID == tp.Partition {
				return sarama.ErrLeaderNotAvailable
			}
		}
	}
	return sarama.ErrUnknownTopicOrPartition
}

// coordinators finds and remembers the coordinators of groups or transactional
// ids.
type coordinators struct {
	m    *cluster
	kind sarama.CoordinatorType
	mu   sync.Mutex
	at   map[string]node
}

func newCoordinators(m *cluster, kind sarama.CoordinatorType) *coordinators {
	return &coordinators{m: m, kind: kind, at: map[string]node{}}
}

func (c *coordinators) find(ctx context.Context, key string) (node, error) {
	c.mu.Lock()
	n, ok := c.at[key]
	c.mu.Unlock()
	if ok {
		return n, nil
	}
	res, err := anyBroker(ctx, c.m, func(b *sarama.Broker) (*sarama.FindCoordinatorResponse, error) {
		return b.FindCoordinator(&sarama.FindCoordinatorRequest{Version: 3, CoordinatorKey: key, CoordinatorType: c.kind})
	})
	if err == nil && res.Err != sarama.ErrNoError {
		err = res.Err
	}
	if err != nil {
		return node{}, fmt.Errorf("find the coordinator of %q: %w", key, notSent(err))
	}
	n = node{id: res.Coordinator.ID(), addr: res.Coordinator.Addr()}
	c.mu.Lock()
	c.at[key] = n
	c.mu.Unlock()
	return n, nil
}

func (c *coordinators) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.at, key)
}
