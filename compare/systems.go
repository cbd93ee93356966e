package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/compare/workload"
	"github.com/tidegate/tidegate/integration/measure"
)

// job is one start of a system.
type job struct {
	name     string // application id, and the prefix of all topics and folders
	workload string
	topics   workload.Topics
	interval time.Duration
	keys     int
	// graceMs is how late records may be where a system needs such a number.
	graceMs int64
	// instance is the number of the process, from 0.
	instance int
	session  time.Duration
	standbys int
}

// system is a contestant.
type system struct {
	name string
	// about is for the report: version and settings.
	about string
	// workloads it can run; nil means all.
	workloads []string
	// recovers: its instances share their work and take over from each other.
	recovers bool
	// checkpoints: its log tells the size of every checkpoint.
	checkpoints bool
	// prepare is called once; an error takes the system out of the run.
	prepare func(ctx context.Context) error
	command func(ctx context.Context, j job) (command, error)
}

type command struct {
	path      string
	args, env []string
}

// systems returns every contestant by name, in the order of a round.
func (r *runner) systems() []*system {
	peerLoads := []string{"passthrough", "count", "q5", "q8"}
	return []*system{
		{
			name: "floor", about: "the same bytes fetched and produced as often, no state, no transaction",
			workloads: []string{"count"}, prepare: r.buildFloor, command: r.floorCommand,
		},
		r.tidegate("barrier", "barrier mode, exactly-once, directory store", "-mode=barrier"),
		r.tidegate("barrier-s3", "barrier mode, exactly-once, S3 store", "-mode=barrier", "-s3"),
		r.tidegate("changelog", "changelog mode, exactly-once", "-mode=changelog"),
		r.tidegate("at-least-once", "barrier mode, at-least-once, directory store", "-mode=barrier", "-at-least-once"),
		r.tidegate("unprotected", "at-least-once with no checkpoint during the round", "-mode=barrier", "-at-least-once", "-never"),
		{
			name: "kafka-streams", about: "Kafka Streams 4.4.0, exactly_once_v2, RocksDB, record cache off",
			workloads: peerLoads, recovers: true, prepare: r.buildPeer("kafka-streams"), command: r.streamsCommand("--cache-bytes", "0"),
		},
		{
			name: "kafka-streams-cache", about: "Kafka Streams 4.4.0, exactly_once_v2, RocksDB, record cache of 10 MiB, which drops updates",
			workloads: []string{"q5", "q8"}, prepare: r.buildPeer("kafka-streams"), command: r.streamsCommand("--cache-bytes", "10485760"),
		},
		{
			name: "kafka-streams-transactional", about: "as kafka-streams, with enable.transactional.statestores: a crash needs no wipe of the local state",
			workloads: []string{"count"}, recovers: true, prepare: r.buildPeer("kafka-streams"), command: r.streamsCommand("--cache-bytes", "0", "--transactional-stores", "1"),
		},
		{
			name: "kafka-streams-streams-protocol", about: "as kafka-streams, with group.protocol=streams: the broker assigns tasks",
			workloads: []string{"count"}, recovers: true, prepare: r.buildPeer("kafka-streams"), command: r.streamsCommand("--cache-bytes", "0", "--streams-protocol", "1"),
		},
		{
			name: "flink", about: "Flink 2.2.1, exactly-once Kafka sink, RocksDB, incremental checkpoints, shuffle within the process",
			workloads: peerLoads, prepare: r.buildPeer("flink"), command: r.flinkCommand,
		},
	}
}

func (s *system) runs(workload string) bool {
	return s.workloads == nil || slices.Contains(s.workloads, workload)
}

func (r *runner) tidegate(name, about string, flags ...string) *system {
	s := &system{name: name, about: "tidegate, " + about, recovers: strings.HasPrefix(name, "barrier") || name == "changelog", checkpoints: strings.HasPrefix(name, "barrier")}
	s.prepare = func(ctx context.Context) error {
		if name != "barrier-s3" {
			return nil
		}
		return r.startS3(ctx)
	}
	s.command = func(ctx context.Context, j job) (command, error) {
		path, err := os.Executable()
		if err != nil {
			return command{}, fmt.Errorf("path of this program: %w", err)
		}
		instance := strconv.Itoa(j.instance)
		c := command{path: path, args: []string{
			"-child", "-workload=" + j.workload, "-brokers=" + r.cluster.brokers(), "-app=" + j.name,
			"-state=" + filepath.Join(r.dir, j.name+"-state-"+instance), "-name=" + j.name + "-" + instance,
			"-keys=" + strconv.Itoa(j.keys), "-session=" + j.session.String(), "-standbys=" + strconv.Itoa(j.standbys),
			"-grace=" + (time.Duration(j.graceMs) * time.Millisecond).String(),
			"-input=" + j.topics.Input, "-persons=" + j.topics.Persons, "-auctions=" + j.topics.Auctions,
			"-bids=" + j.topics.Bids, "-output=" + j.topics.Output,
		}}
		interval := j.interval
		for _, f := range flags {
			switch f {
			case "-s3":
				bucket, ok := r.buckets[j.name]
				if !ok {
					if bucket, err = r.s3.NewBucket(ctx); err != nil {
						return command{}, err
					}
					r.buckets[j.name] = bucket
				}
				c.args = append(c.args, "-s3-endpoint="+r.s3.Endpoint, "-s3-bucket="+bucket)
				c.env = append(c.env, r.s3.Env()...)
			case "-never":
				interval = 9 * time.Minute
			default:
				c.args = append(c.args, f)
			}
		}
		c.args = append(c.args, "-interval="+interval.String(), "-store-dir="+storeDir(r.dir, name, j))
		return c, nil
	}
	return s
}

// storeDir is the checkpoint folder of a job; "" where S3 is used.
func storeDir(dir, system string, j job) string {
	if system == "barrier-s3" {
		return ""
	}
	return filepath.Join(dir, j.name+"-store")
}

func (r *runner) buildFloor(ctx context.Context) error {
	return measure.BuildFloor(ctx, filepath.Join(r.dir, "floor"))
}

func (r *runner) floorCommand(ctx context.Context, j job) (command, error) {
	repartition := j.name + "-repartition"
	if err := r.cluster.create(ctx, repartition); err != nil {
		return command{}, err
	}
	return command{path: filepath.Join(r.dir, "floor"), args: []string{
		"-brokers=" + r.cluster.brokers(), "-input=" + j.topics.Input, "-repartition=" + repartition,
		"-output=" + j.topics.Output, "-keys=" + strconv.Itoa(j.keys),
	}}, nil
}

// buildPeer builds a Java program with Maven, once.
func (r *runner) buildPeer(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err, done := r.built[name]; done {
			return err
		}
		for _, tool := range []string{"mvn", "java"} {
			if _, err := exec.LookPath(tool); err != nil {
				return fmt.Errorf("%s is needed for this peer: install a JDK 17 and Maven: %w", tool, err)
			}
		}
		r.note("building peer %s", name)
		mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "package")
		mvn.Dir = filepath.Join("peers", name)
		out, err := mvn.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("mvn package in compare/peers/%s: %w: %s", name, err, last(strings.TrimSpace(string(out)), 2000))
		}
		r.built[name] = err
		return err
	}
}

func last(s string, n int) string {
	if len(s) > n {
		return s[len(s)-n:]
	}
	return s
}

func java(peer, main string, heap string, opts ...string) (command, error) {
	path, err := exec.LookPath("java")
	if err != nil {
		return command{}, err
	}
	dir, err := filepath.Abs(filepath.Join("peers", peer, "target"))
	if err != nil {
		return command{}, err
	}
	args := append([]string{heap, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}, opts...)
	return command{path: path, args: append(args,
		"-cp", filepath.Join(dir, "classes")+string(os.PathListSeparator)+filepath.Join(dir, "dependency", "*"), main)}, nil
}

// peerArgs are the arguments that all peers take.
func (r *runner) peerArgs(j job) []string {
	args := []string{
		"--workload", j.workload, "--brokers", r.cluster.brokers(), "--app", j.name, "--output", j.topics.Output,
		"--interval-ms", strconv.FormatInt(j.interval.Milliseconds(), 10), "--keys", strconv.Itoa(j.keys),
		"--state", filepath.Join(r.dir, j.name+"-state-"+strconv.Itoa(j.instance)),
		"--grace-ms", strconv.FormatInt(j.graceMs, 10), "--session-ms", strconv.FormatInt(j.session.Milliseconds(), 10),
		"--standbys", strconv.Itoa(j.standbys), "--threads", strconv.Itoa(r.threads),
	}
	for _, t := range [][2]string{
		{"input", j.topics.Input}, {"persons", j.topics.Persons}, {"auctions", j.topics.Auctions}, {"bids", j.topics.Bids},
	} {
		if t[1] != "" {
			args = append(args, "--"+t[0], t[1])
		}
	}
	return args
}

func (r *runner) streamsCommand(more ...string) func(context.Context, job) (command, error) {
	return func(_ context.Context, j job) (command, error) {
		c, err := java("kafka-streams", "tidegate.peer.Streams", "-Xmx2g")
		c.args = append(append(c.args, r.peerArgs(j)...), more...)
		if j.workload == "q5" {
			// Several threads read and commit their partitions apart from each other, by more
			// than a grace that is worth measuring; the records behind it would be dropped.
			c.args = append(c.args, "--threads", "1")
		}
		return c, err
	}
}

func (r *runner) flinkCommand(_ context.Context, j job) (command, error) {
	// What Flink's own start scripts open on Java 17.
	var opens []string
	for _, p := range []string{"java.lang", "java.net", "java.io", "java.nio", "java.lang.reflect", "java.text", "java.time", "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks"} {
		opens = append(opens, "--add-opens=java.base/"+p+"=ALL-UNNAMED")
	}
	c, err := java("flink", "tidegate.peer.Flink", "-Xmx2g", opens...)
	c.args = append(c.args, r.peerArgs(j)...)
	return c, err
}
