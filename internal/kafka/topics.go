package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
)

// Topic is what Kafka says of a topic.
type Topic struct {
	Name string
	// ID tells a topic from another one made later under its name. Zero on
	// brokers before 2.8.
	ID     [16]byte
	Exists bool
	// Partitions is the number of partitions, Replication the smallest number
	// of replicas that one of them has.
	Partitions  int32
	Replication int
	// Configs are the settings in effect, also defaults, if asked for.
	Configs map[string]string
}

// DescribeTopics reads topics, each of which is in the result; Exists says
// whether it is there.
func (a *Admin) DescribeTopics(ctx context.Context, withConfigs bool, topics ...string) (map[string]Topic, error) {
	out := make(map[string]Topic, len(topics))
	if len(topics) == 0 {
		return out, nil
	}
	at := ""
	err := retry(ctx, retriable, func() error {
		metas, err := a.c.meta.refresh(ctx, topics...)
		if err != nil {
			return err
		}
		for _, m := range metas {
			t, err := topicOf(m)
			if err != nil {
				at = m.Name
				return err
			}
			out[m.Name] = t
		}
		return nil
	})
	if err != nil {
		return nil, newError("describe topic", topicOnly(at), err)
	}
	if withConfigs {
		if err := a.topicConfigs(ctx, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func topicOnly(name string) ids.TopicPartition { return ids.TopicPartition{Topic: name, Partition: -1} }

func topicOf(m *sarama.TopicMetadata) (Topic, error) {
	switch m.Err {
	case sarama.ErrNoError, sarama.ErrLeaderNotAvailable:
	case sarama.ErrUnknownTopicOrPartition:
		return Topic{Name: m.Name}, nil
	default:
		return Topic{}, m.Err
	}
	if m.Err == sarama.ErrLeaderNotAvailable && len(m.Partitions) == 0 {
		return Topic{}, m.Err // being made
	}
	t := Topic{Name: m.Name, ID: m.Uuid, Exists: true, Partitions: int32(len(m.Partitions))}
	for i, p := range m.Partitions {
		if i == 0 || len(p.Replicas) < t.Replication {
			t.Replication = len(p.Replicas)
		}
	}
	return t, nil
}

// topicConfigs fills in the settings of the topics that exist.
func (a *Admin) topicConfigs(ctx context.Context, topics map[string]Topic) error {
	var res []*sarama.ConfigResource
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		if topics[name].Exists {
			res = append(res, &sarama.ConfigResource{Type: sarama.TopicResource, Name: name})
		}
	}
	if len(res) == 0 {
		return nil
	}
	at := ""
	err := retry(ctx, retriable, func() error {
		r, err := anyBroker(ctx, a.c.meta, func(b *sarama.Broker) (*sarama.DescribeConfigsResponse, error) {
			return b.DescribeConfigs(&sarama.DescribeConfigsRequest{Version: 4, Resources: res})
		})
		if err != nil {
			return err
		}
		for _, r := range r.Resources {
			if k := sarama.KError(r.ErrorCode); k != sarama.ErrNoError {
				at = r.Name
				return withMessage(k, r.ErrorMsg)
			}
			t := topics[r.Name]
			t.Configs = make(map[string]string, len(r.Configs))
			for _, c := range r.Configs {
				t.Configs[c.Name] = c.Value
			}
			topics[r.Name] = t
		}
		return nil
	})
	if err != nil {
		return newError("read settings of topic", topicOnly(at), err)
	}
	return nil
}

// Names of topic settings that are compared as "at least".
const (
	minInsync  = "min.insync.replicas"
	maxMessage = "max.message.bytes"
)

const maxInt64 = "9223372036854775807"

// InternalConfigs are the settings of internal topics (R29): nothing is ever
// removed but by us, records keep the timestamps they were given, and no
// acknowledged record is lost to an unclean election. maxMessageBytes, if
// positive, is the smallest max.message.bytes that will do.
func InternalConfigs(maxMessageBytes int) map[string]string {
	c := map[string]string{
		"cleanup.policy":                  "delete",
		"retention.ms":                    "-1",
		"retention.bytes":                 "-1",
		"message.timestamp.type":          "CreateTime",
		"message.timestamp.before.max.ms": maxInt64,
		"message.timestamp.after.max.ms":  maxInt64,
		"unclean.leader.election.enable":  "false",
	}
	if maxMessageBytes > 0 {
		c[maxMessage] = strconv.Itoa(maxMessageBytes)
	}
	return c
}

// TopicSpec is what an internal topic must be. Beside Configs it must have
// min.insync.replicas of 2 or more where it has three replicas or more.
type TopicSpec struct {
	Name       string
	Partitions int32
	// Replication is used when the topic is created; -1 takes the broker's
	// default. It is not verified: an administrator may move replicas.
	Replication int16
	// Configs are set at creation and verified. max.message.bytes and
	// min.insync.replicas may be larger, everything else must be equal; a
	// setting that the broker does not know is skipped.
	Configs map[string]string
}

// TopicDifference is one thing that a topic should be and is not.
type TopicDifference struct{ Topic, Setting, Want, Have string }

// TopicMismatchError lists all differences, ordered by topic and setting.
type TopicMismatchError struct{ Differences []TopicDifference }

// Error names topic, setting, what is wanted and what is there.
func (e *TopicMismatchError) Error() string {
	var b strings.Builder
	b.WriteString("internal topics are not as they must be:")
	for _, d := range e.Differences {
		fmt.Fprintf(&b, "\n  topic %s: %s is %s, want %s", d.Topic, d.Setting, d.Have, d.Want)
	}
	b.WriteString("\nchange the settings with kafka-configs.sh; a wrong number of partitions or a topic that is missing needs the application to be reset")
	return b.String()
}

// VerifyTopics compares topics with what they must be. Differences are a
// *TopicMismatchError.
func (a *Admin) VerifyTopics(ctx context.Context, specs ...TopicSpec) error {
	topics, err := a.DescribeTopics(ctx, true, specNames(specs)...)
	if err != nil {
		return err
	}
	return verify(topics, specs)
}

func specNames(specs []TopicSpec) []string {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return names
}

func verify(topics map[string]Topic, specs []TopicSpec) error {
	var diffs []TopicDifference
	for _, s := range slices.SortedFunc(slices.Values(specs), func(a, b TopicSpec) int { return strings.Compare(a.Name, b.Name) }) {
		diffs = append(diffs, s.differences(topics[s.Name])...)
	}
	if len(diffs) > 0 {
		return &TopicMismatchError{Differences: diffs}
	}
	return nil
}

func (s TopicSpec) differences(t Topic) []TopicDifference {
	if !t.Exists {
		return []TopicDifference{{s.Name, "topic", "existing", "missing"}}
	}
	var out []TopicDifference
	if t.Partitions != s.Partitions {
		out = append(out, TopicDifference{s.Name, "number of partitions", strconv.Itoa(int(s.Partitions)), strconv.Itoa(int(t.Partitions))})
	}
	want := maps.Clone(s.Configs)
	if want == nil {
		want = map[string]string{}
	}
	if _, ok := want[minInsync]; !ok && t.Replication >= 3 {
		want[minInsync] = "2"
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		have, ok := t.Configs[name]
		if ok && !settingOK(name, want[name], have) {
			out = append(out, TopicDifference{s.Name, name, want[name], have})
		}
	}
	return out
}

func settingOK(name, want, have string) bool {
	if name == minInsync || name == maxMessage {
		w, errW := strconv.ParseInt(want, 10, 64)
		h, errH := strconv.ParseInt(have, 10, 64)
		return errW == nil && errH == nil && h >= w
	}
	return strings.EqualFold(want, have)
}

// EnsureTopics creates the topics that are missing and verifies all. It returns
// them as they are, with their settings.
func (a *Admin) EnsureTopics(ctx context.Context, specs ...TopicSpec) (map[string]Topic, error) {
	topics, err := a.DescribeTopics(ctx, false, specNames(specs)...)
	if err != nil {
		return nil, err
	}
	var missing []TopicSpec
	for _, s := range specs {
		if !topics[s.Name].Exists {
			missing = append(missing, s)
		}
	}
	if len(missing) > 0 {
		if err := a.create(ctx, missing); err != nil {
			return nil, err
		}
	}
	if topics, err = a.awaitTopics(ctx, specs); err != nil {
		return nil, err
	}
	if err := verify(topics, specs); err != nil {
		return nil, err
	}
	return topics, nil
}

// awaitTopics reads topics until all are there: a broker may be behind in its
// metadata just after a creation.
func (a *Admin) awaitTopics(ctx context.Context, specs []TopicSpec) (map[string]Topic, error) {
	var topics map[string]Topic
	err := retry(ctx, retriable, func() (err error) {
		topics, err = a.DescribeTopics(ctx, true, specNames(specs)...)
		if err != nil {
			return err
		}
		for _, s := range specs {
			if !topics[s.Name].Exists {
				return newError("describe topic", topicOnly(s.Name), sarama.ErrUnknownTopicOrPartition)
			}
		}
		return nil
	})
	return topics, err
}

func (a *Admin) create(ctx context.Context, specs []TopicSpec) error {
	details := map[string]*sarama.TopicDetail{}
	for _, s := range specs {
		d, err := a.detail(ctx, s)
		if err != nil {
			return err
		}
		details[s.Name] = d
	}
	at := ""
	err := retry(ctx, retriable, func() error {
		n, err := a.controller(ctx)
		if err != nil {
			return err
		}
		res, err := request(ctx, a.pool, n, func(b *sarama.Broker) (*sarama.CreateTopicsResponse, error) {
			return b.CreateTopics(sarama.NewCreateTopicsRequest(sarama.MaxVersion, details, adminTimeout, false))
		})
		if err != nil {
			return err
		}
		err = nil
		for _, name := range slices.Sorted(maps.Keys(res.TopicErrors)) {
			e := res.TopicErrors[name]
			if e.Err == sarama.ErrNoError || e.Err == sarama.ErrTopicAlreadyExists {
				delete(details, name) // what is left is tried again
				continue
			}
			if err == nil || retriable(err) {
				at, err = name, withMessage(e.Err, deref(e.ErrMsg))
			}
		}
		return err
	})
	if err != nil {
		return newError("create topic", topicOnly(at), err)
	}
	return nil
}

// detail adds min.insync.replicas where there will be three replicas or more.
func (a *Admin) detail(ctx context.Context, s TopicSpec) (*sarama.TopicDetail, error) {
	d := &sarama.TopicDetail{NumPartitions: s.Partitions, ReplicationFactor: s.Replication, ConfigEntries: map[string]*string{}}
	for k, v := range s.Configs {
		d.ConfigEntries[k] = &v
	}
	if _, ok := s.Configs[minInsync]; ok {
		return d, nil
	}
	rf := int(s.Replication)
	if rf < 0 {
		v, ok, err := a.brokerDefault(ctx, "default.replication.factor")
		if err != nil {
			return nil, err
		}
		if rf, err = strconv.Atoi(v); !ok || err != nil {
			rf = 1
		}
	}
	if rf < 3 {
		return d, nil
	}
	v, ok, err := a.brokerDefault(ctx, minInsync)
	if err != nil {
		return nil, err
	}
	if n, err := strconv.Atoi(v); !ok || err != nil || n < 2 {
		two := "2"
		d.ConfigEntries[minInsync] = &two
	}
	return d, nil
}

// brokerDefault reads a broker setting. Where that is not permitted it is as
// good as unknown: the topic is verified after it was made.
func (a *Admin) brokerDefault(ctx context.Context, name string) (string, bool, error) {
	v, ok, err := a.brokerConfig(ctx, name)
	if Classify(err) == ClassAuthorization {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read the broker's default of %s: %w", name, err)
	}
	return v, ok, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// DeleteTopics deletes topics; one that is not there is no error.
func (a *Admin) DeleteTopics(ctx context.Context, topics ...string) error {
	left := slices.Clone(topics)
	at := ""
	err := retry(ctx, retriable, func() error {
		n, err := a.controller(ctx)
		if err != nil {
			return err
		}
		res, err := request(ctx, a.pool, n, func(b *sarama.Broker) (*sarama.DeleteTopicsResponse, error) {
			return b.DeleteTopics(&sarama.DeleteTopicsRequest{Version: 4, Topics: left, Timeout: adminTimeout})
		})
		if err != nil {
			return err
		}
		var next []string
		for _, t := range left {
			k := res.TopicErrorCodes[t]
			if k == sarama.ErrNoError || errors.Is(k, sarama.ErrUnknownTopicOrPartition) {
				continue
			}
			next = append(next, t)
			if err == nil || retriable(err) {
				at, err = t, k
			}
		}
		left = next
		return err
	})
	if err != nil {
		return newError("delete topic", topicOnly(at), err)
	}
	return nil
}
