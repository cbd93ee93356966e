package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	metrics "github.com/rcrowley/go-metrics"
)

// Source is a way to get a Kafka broker.
type Source string

// The ways to get a broker. Auto tries them in the order of the package comment.
const (
	Auto    Source = ""
	Running Source = "running" // TIDEGATE_KAFKA_BROKERS
	Docker  Source = "docker"
	Java    Source = "java"
)

// ErrUnavailable is wrapped by errors that mean: no server of this kind can be had on
// this machine. Anything else is a failure.
var ErrUnavailable = errors.New("not available on this machine")

// ErrNotOurs answers Stop, Start, Kill, Pause and Resume of a server that was running before.
var ErrNotOurs = errors.New("the server was not started here")

// KafkaOptions say what broker is wanted. The zero value is an ordinary one.
type KafkaOptions struct {
	// From restricts where it comes from. Default: TIDEGATE_KAFKA, else Auto.
	From Source
	// Own asks for a broker that may be stopped and killed: never a running one. So does
	// Config, unless From is Running.
	Own bool
	// Config overrides broker settings, e.g. "transaction.max.timeout.ms": "60000".
	Config map[string]string
	// HeapMB is the JVM's -Xmx. Default 1024.
	HeapMB int
	// StartTimeout bounds start and restart. Default 90 s.
	StartTimeout time.Duration
}

// broker is what a source implements. All are called with the server's mutex held.
type broker interface {
	start(ctx context.Context) error
	stop(ctx context.Context) error
	kill(ctx context.Context) error
	pause(ctx context.Context) error
	resume(ctx context.Context) error
	close() error
	// ended reports that it is not running any more: waiting for it makes no sense.
	ended(ctx context.Context) bool
	// log is the end of the broker's log, at most about limit bytes.
	log(limit int) string
}

// KafkaServer is one broker.
type KafkaServer struct {
	source  Source
	brokers []string
	timeout time.Duration

	mu     sync.Mutex
	broker broker // nil for a running one
	closed bool
}

// Kafka finds or starts a broker and returns when it answers. The caller ends it with
// Close, or all servers together with [CloseAll]. An error that wraps [ErrUnavailable]
// means that this machine offers no way to get one.
func Kafka(ctx context.Context, o KafkaOptions) (*KafkaServer, error) {
	if o.From == Auto {
		o.From = Source(os.Getenv("TIDEGATE_KAFKA"))
	}
	if o.HeapMB == 0 {
		o.HeapMB = 1024
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 90 * time.Second
	}
	switch o.From {
	case Running:
		return runningKafka(ctx, o)
	case Docker:
		return startKafka(ctx, o, Docker, newDockerBroker)
	case Java:
		return startKafka(ctx, o, Java, newJavaBroker)
	case Auto:
	default:
		return nil, fmt.Errorf("kafka source %q: use %q, %q or %q", o.From, Running, Docker, Java)
	}
	if os.Getenv("TIDEGATE_KAFKA_BROKERS") != "" && len(o.Config) == 0 && !o.Own {
		return runningKafka(ctx, o)
	}
	return ownKafka(ctx, o)
}

// ownKafka starts a broker: in Docker, or where there is none, with Java.
func ownKafka(ctx context.Context, o KafkaOptions) (*KafkaServer, error) {
	k, dockerErr := startKafka(ctx, o, Docker, newDockerBroker)
	if !errors.Is(dockerErr, ErrUnavailable) {
		return k, dockerErr
	}
	k, javaErr := startKafka(ctx, o, Java, newJavaBroker)
	if errors.Is(javaErr, ErrUnavailable) {
		return nil, fmt.Errorf("no kafka: start a Docker engine, or install a JDK and Maven, or set TIDEGATE_KAFKA_BROKERS: %w; %w", dockerErr, javaErr)
	}
	return k, javaErr
}

func runningKafka(ctx context.Context, o KafkaOptions) (*KafkaServer, error) {
	list := os.Getenv("TIDEGATE_KAFKA_BROKERS")
	if list == "" {
		return nil, fmt.Errorf("TIDEGATE_KAFKA_BROKERS is not set: %w", ErrUnavailable)
	}
	if len(o.Config) > 0 {
		return nil, fmt.Errorf("a running broker cannot be given other settings: %w", ErrUnavailable)
	}
	k := &KafkaServer{source: Running, brokers: strings.Split(list, ","), timeout: o.StartTimeout}
	for i, b := range k.brokers {
		k.brokers[i] = strings.TrimSpace(b)
		if err := CheckLoopback(k.brokers[i]); err != nil {
			return nil, fmt.Errorf("TIDEGATE_KAFKA_BROKERS: %w", err)
		}
	}
	if err := k.WaitReady(ctx); err != nil {
		return nil, fmt.Errorf("broker of TIDEGATE_KAFKA_BROKERS: %w", err)
	}
	return k, nil
}

func startKafka(ctx context.Context, o KafkaOptions, source Source, create func(context.Context, KafkaOptions, int) (broker, error)) (*KafkaServer, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	b, err := create(ctx, o, port)
	if err != nil {
		return nil, fmt.Errorf("kafka by %s: %w", source, err)
	}
	k := &KafkaServer{
		source:  source,
		brokers: []string{"127.0.0.1:" + strconv.Itoa(port)},
		timeout: o.StartTimeout,
		broker:  b,
	}
	remember(k)
	if err := k.Start(ctx); err != nil {
		_ = k.Close()
		return nil, err
	}
	return k, nil
}

// Brokers are the bootstrap addresses.
func (k *KafkaServer) Brokers() []string { return k.brokers }

// Source says where the broker came from.
func (k *KafkaServer) Source() Source { return k.source }

// Managed reports whether the broker may be stopped, killed and paused.
func (k *KafkaServer) Managed() bool { return k.source != Running }

// Start starts a stopped or killed broker on the same port with the same data, and
// returns when it answers.
func (k *KafkaServer) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	if err := k.act(func(b broker) error { return b.start(ctx) }); err != nil {
		return fmt.Errorf("start kafka by %s: %w", k.source, err)
	}
	if err := k.WaitReady(ctx); err != nil {
		return fmt.Errorf("start kafka by %s: %w; end of its log:\n%s", k.source, err, k.Log(4000))
	}
	return nil
}

// Stop shuts the broker down in order, at most 30 s, then kills it.
func (k *KafkaServer) Stop(ctx context.Context) error {
	return k.act(func(b broker) error { return b.stop(ctx) })
}

// Kill is kill -9.
func (k *KafkaServer) Kill(ctx context.Context) error {
	return k.act(func(b broker) error { return b.kill(ctx) })
}

// Pause stops the broker in its tracks: connections stay open, nothing answers.
func (k *KafkaServer) Pause(ctx context.Context) error {
	return k.act(func(b broker) error { return b.pause(ctx) })
}

// Resume lets a paused broker go on.
func (k *KafkaServer) Resume(ctx context.Context) error {
	return k.act(func(b broker) error { return b.resume(ctx) })
}

// Log returns the end of the broker's log; empty for a running broker.
func (k *KafkaServer) Log(limit int) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broker == nil {
		return ""
	}
	return k.broker.log(limit)
}

// Close ends the broker and removes its data. A running one is left alone.
func (k *KafkaServer) Close() error {
	forget(k)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broker == nil || k.closed {
		return nil
	}
	k.closed = true
	return k.broker.close()
}

func (k *KafkaServer) ended(ctx context.Context) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.broker != nil && !k.closed && k.broker.ended(ctx)
}

func (k *KafkaServer) act(f func(broker) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broker == nil {
		return ErrNotOurs
	}
	if k.closed {
		return errors.New("the server is closed")
	}
	return f(k.broker)
}

// errEnded stops the wait for a broker that has exited.
var errEnded = errors.New("the broker exited")

// WaitReady returns when the broker answers with itself as a live broker, at most after
// the start timeout.
func (k *KafkaServer) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	config := SaramaConfig()
	config.Metadata.Retry.Max = 0
	config.Net.DialTimeout = time.Second
	config.Net.ReadTimeout = 2 * time.Second
	config.Metadata.Timeout = 3 * time.Second
	return poll(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		client, err := sarama.NewClient(k.brokers, config)
		if err != nil {
			if k.ended(ctx) {
				return errEnded
			}
			return err
		}
		defer client.Close()
		// A fenced broker serves metadata too, but is not in it.
		if len(client.Brokers()) == 0 {
			return errors.New("no live broker in the metadata")
		}
		_, err = client.RefreshController()
		return err
	})
}

// SaramaConfig is sarama's default for Kafka 4 with a dialer that refuses anything but
// loopback.
func SaramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.ClientID = "tidegate-integration"
	config.MetricRegistry = metrics.NewRegistry()
	config.Net.Proxy.Enable = true
	config.Net.Proxy.Dialer = LoopbackDialer{}
	config.Producer.Return.Successes = true
	return config
}

// TopicConfig are the settings of every topic that tests make: a real broker deletes
// records with old timestamps within seconds, and refuses those ahead of its clock.
func TopicConfig() map[string]string {
	return map[string]string{
		"retention.ms":                    "-1",
		"message.timestamp.type":          "CreateTime",
		"message.timestamp.before.max.ms": "9223372036854775807",
		"message.timestamp.after.max.ms":  "9223372036854775807",
	}
}

// CreateTopic makes a topic with [TopicConfig] and what config adds to or changes in it.
func (k *KafkaServer) CreateTopic(ctx context.Context, name string, partitions int32, config map[string]string) error {
	admin, err := sarama.NewClusterAdmin(k.brokers, SaramaConfig())
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	defer admin.Close()
	entries := make(map[string]*string)
	all := TopicConfig()
	maps.Copy(all, config)
	for key, value := range all {
		entries[key] = &value
	}
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: -1, ConfigEntries: entries}
	if err := admin.CreateTopic(name, detail, false); err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	// The answer can come before the broker serves the new topic.
	return poll(ctx, 20*time.Millisecond, func(context.Context) error {
		found, err := admin.DescribeTopics([]string{name})
		if err != nil {
			return err
		}
		for _, t := range found {
			if !errors.Is(t.Err, sarama.ErrNoError) {
				return t.Err
			}
			if len(t.Partitions) != int(partitions) {
				return fmt.Errorf("%d of %d partitions", len(t.Partitions), partitions)
			}
			for _, p := range t.Partitions {
				if !errors.Is(p.Err, sarama.ErrNoError) || p.Leader < 0 {
					return fmt.Errorf("partition %d has no leader", p.ID)
				}
			}
		}
		return nil
	})
}

// singleNode are the settings that let one broker serve transactions and groups alone,
// and fast.
func singleNode() map[string]string {
	return map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          "1",
		"auto.create.topics.enable":                        "false",
		"num.partitions":                                   "1",
		"default.replication.factor":                       "1",
		"offsets.topic.replication.factor":                 "1",
		"offsets.topic.num.partitions":                     "4",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"transaction.state.log.num.partitions":             "4",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"group.initial.rebalance.delay.ms":                 "0",
		"group.min.session.timeout.ms":                     "100",
		"group.streams.initial.rebalance.delay.ms":         "0",
		"group.streams.min.session.timeout.ms":             "100",
		"group.streams.session.timeout.ms":                 "10000",
		"listener.security.protocol.map":                   "EXTERNAL:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"controller.listener.names":                        "CONTROLLER",
		"inter.broker.listener.name":                       "INTERNAL",
	}
}

// tail returns at most limit bytes of the end of a file.
func tail(path string, limit int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(data) > limit {
		data = data[len(data)-limit:]
	}
	return string(data)
}
