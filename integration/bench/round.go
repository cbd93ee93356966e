package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/tidegate/tidegate/integration/measure"
	"github.com/tidegate/tidegate/integration/servers"
)

// bench holds what all rounds share: servers, input, programs.
type bench struct {
	settings
	kafka  *servers.KafkaServer
	s3     *servers.S3Server
	client sarama.Client
	dir    string // logs, binaries, state
	floor  string // path of the floor program
	run    string // distinguishes this run's topics
	input  string
}

// result is one contestant's round.
type result struct {
	rate          float64
	window        time.Duration
	records       int64
	rssMB         int64
	cpuPerMillion float64
	allocations   string // per record; of tidegate only
}

func newBench(ctx context.Context, s settings, systems []string) (*bench, error) {
	b := &bench{settings: s, run: strconv.FormatInt(time.Now().UnixMilli(), 36)}
	var err error
	if b.dir, err = os.MkdirTemp("", "tidegate-bench-"); err != nil {
		return nil, err
	}
	if b.kafka, err = servers.Kafka(ctx, servers.KafkaOptions{HeapMB: s.heapMB}); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	for _, system := range systems {
		switch system {
		case "floor":
			err = b.buildFloor(ctx)
		case "tidegate":
			if s.store == "s3" && s.mode == barrierMode {
				b.s3, err = servers.S3(ctx)
			}
		default:
			err = fmt.Errorf("contestant %q: want floor or tidegate", system)
		}
		if err != nil {
			return nil, err
		}
	}
	config := servers.SaramaConfig()
	config.Net.MaxOpenRequests = 3
	if b.client, err = sarama.NewClient(b.kafka.Brokers(), config); err != nil {
		return nil, fmt.Errorf("connect to %v: %w", b.kafka.Brokers(), err)
	}
	b.input = "bench-input-" + b.run
	if err := b.createTopic(ctx, b.input); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := measure.Preload(ctx, b.client, b.input, s.records, s.seed); err != nil {
		return nil, err
	}
	fmt.Printf("broker from %s, %d input records written in %s\n", b.kafka.Source(), s.records, time.Since(begun).Round(time.Second/10))
	return b, nil
}

func (b *bench) createTopic(ctx context.Context, topic string) error {
	return measure.CreateTopic(ctx, b.kafka, b.client, topic, int32(b.partitions))
}

func (b *bench) buildFloor(ctx context.Context) error {
	b.floor = filepath.Join(b.dir, "floor")
	return measure.BuildFloor(ctx, b.floor)
}

func (b *bench) close() {
	measure.DeleteTopics(b.client, b.input)
	b.client.Close()
	os.RemoveAll(b.dir)
}

// round runs one contestant from an empty output topic until the window is
// full or the input is counted.
func (b *bench) round(ctx context.Context, system string, round int) (result, error) {
	name := fmt.Sprintf("bench-%s-%s-%d", system, b.run, round)
	output := name + "-output"
	defer measure.DeleteTopics(b.client, name)
	if err := b.createTopic(ctx, output); err != nil {
		return result{}, err
	}
	c, err := measure.NewOutput(ctx, b.client, output, measure.NewCounter(b.keys))
	if err != nil {
		return result{}, err
	}
	path, args, env, err := b.command(ctx, system, name, output)
	if err != nil {
		return result{}, err
	}
	logs := b.dir
	if b.keepLogs != "" {
		logs = b.keepLogs
	}
	log := filepath.Join(logs, name+".log")
	p, u, err := measure.Start(path, args, env, log)
	if err != nil {
		return result{}, err
	}
	counting, stop := context.WithCancel(ctx)
	counted := make(chan struct{})
	go func() { defer close(counted); c.Run(counting) }()
	defer func() { stop(); <-counted }()

	err = b.wait(ctx, p, c)
	cpu := u.CPU()
	atEnd, _, _, _ := c.Seen()
	if stopErr := p.Stop(time.Minute); err == nil && stopErr != nil {
		err = fmt.Errorf("stop: %w", stopErr)
	}
	if err := errors.Join(err, c.Verdict()); err != nil {
		return result{}, fmt.Errorf("%w\nend offsets: %s\n%s", err, b.ends(b.input, name), measure.Tail(log))
	}
	r := result{rssMB: u.PeakMB(), cpuPerMillion: cpu / max(float64(atEnd), 1) * 1e6}
	r.rate, r.window = c.Rate(b.warmup, b.window)
	r.allocations = reported(log, allocationsPrefix)
	r.records, _, _, _ = c.Seen()
	return r, nil
}

// reported finds a line of a contestant's log by its prefix.
func reported(log, prefix string) string {
	b, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(string(b), prefix)
	if !ok {
		return ""
	}
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// ends describes where the topics of a failed round end.
func (b *bench) ends(match ...string) string {
	if err := b.client.RefreshMetadata(); err != nil {
		return err.Error()
	}
	topics, err := b.client.Topics()
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, topic := range topics {
		if !slices.ContainsFunc(match, func(m string) bool { return strings.HasPrefix(topic, m) }) {
			continue
		}
		line := topic
		partitions, _ := b.client.Partitions(topic)
		for _, p := range partitions {
			end, err := b.client.GetOffset(topic, p, sarama.OffsetNewest)
			if err != nil {
				end = -1
			}
			line += fmt.Sprintf(" %d", end)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// wait returns when the window is full or everything was counted; an error if
// the contestant ends or nothing comes for a while.
func (b *bench) wait(ctx context.Context, p *servers.Process, c *measure.Output) error {
	const patience = 30 * time.Second
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.Done():
			if err := p.Err(); err != nil {
				return fmt.Errorf("the process ended by itself: %w", err)
			}
			return errors.New("the process ended by itself")
		case <-tick.C:
		}
		total, first, last, err := c.Seen()
		switch {
		case err != nil:
			return err
		case total >= b.records:
			return nil
		case total > 0 && last-first >= b.warmup+b.window:
			return nil
		case time.Since(c.Begun())-last > patience:
			return fmt.Errorf("no output for %s after %d records", patience, total)
		}
	}
}

// command returns how to start a contestant; name prefixes all its topics.
func (b *bench) command(ctx context.Context, system, name, output string) (path string, args, env []string, err error) {
	brokers := strings.Join(b.kafka.Brokers(), ",")
	if system == "floor" {
		repartition := name + "-repartition"
		if err := b.createTopic(ctx, repartition); err != nil {
			return "", nil, nil, err
		}
		return b.floor, []string{
			"-brokers=" + brokers, "-input=" + b.input, "-repartition=" + repartition, "-output=" + output,
			"-keys=" + strconv.Itoa(b.keys), "-cpuprofile=" + b.floorProfile,
		}, nil, nil
	}
	if path, err = os.Executable(); err != nil {
		return "", nil, nil, fmt.Errorf("path of this program: %w", err)
	}
	state := b.stateDir
	if state == "" {
		state = b.dir
	}
	args = []string{
		"-child", "-brokers=" + brokers, "-input=" + b.input, "-output=" + output, "-app=" + name,
		"-keys=" + strconv.Itoa(b.keys), "-interval=" + b.interval.String(), "-state=" + filepath.Join(state, name+"-state"),
	}
	args = append(args, "-mode="+b.mode)
	switch {
	case b.mode == changelogMode: // needs no store
	case b.store == "s3":
		bucket, err := b.s3.NewBucket(ctx)
		if err != nil {
			return "", nil, nil, err
		}
		args = append(args, "-s3-endpoint="+b.s3.Endpoint, "-s3-bucket="+bucket)
		env = b.s3.Env()
	default:
		args = append(args, "-store-dir="+filepath.Join(b.dir, name+"-store"))
	}
	return path, append(args, strings.Fields(b.childArgs)...), env, nil
}
