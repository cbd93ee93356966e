package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"
)

// KafkaImage is the broker's image. `make image` makes sure that the engine has it.
const KafkaImage = "apache/kafka:4.4.0"

const (
	containerPort     = "9092/tcp"
	dockerSocket      = "/var/run/docker.sock"
	ownerLabel        = "tidegate.test.owner" // process id of the test
	engineTimeout     = 20 * time.Second
	dockerStopTimeout = 30 * time.Second
)

// dockerBroker is a container of the broker, run through testcontainers.
type dockerBroker struct {
	options   KafkaOptions
	port      int
	container *testcontainers.DockerContainer // nil before the first start
	callOff   func()                          // ends the watchdog
}

func newDockerBroker(ctx context.Context, o KafkaOptions, port int) (broker, error) {
	if err := dockerAvailable(ctx); err != nil {
		return nil, err
	}
	return &dockerBroker{options: o, port: port, callOff: func() {}}, nil
}

// engineHost is where the engine listens, without asking it. Only this machine's engines
// are used: a container elsewhere has no loopback address here.
func engineHost() (string, error) {
	host := os.Getenv("DOCKER_HOST")
	if host == "" {
		host = "unix://" + dockerSocket
	}
	u, err := url.Parse(host)
	if err != nil {
		return "", fmt.Errorf("DOCKER_HOST: %w", err)
	}
	if u.Scheme != "unix" {
		if err := CheckLoopback(u.Host); err != nil {
			return "", fmt.Errorf("DOCKER_HOST: %w", err)
		}
		return host, nil
	}
	if _, err := os.Stat(u.Path); err != nil {
		return "", fmt.Errorf("no docker engine (%w): %w", err, ErrUnavailable)
	}
	return host, nil
}

// prepareTestcontainers sets what testcontainers reads once per process. The gateway
// address that it guesses inside a container is not loopback; its reaper is an image
// that cannot be pulled everywhere, and the watchdog does its work.
var prepareTestcontainers = sync.OnceFunc(func() {
	_ = os.Setenv("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")
	_ = os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
})

// dockerAvailable finds out whether an engine answers and has, or can pull, the image.
func dockerAvailable(ctx context.Context) error {
	host, err := engineHost()
	if err != nil {
		return err
	}
	prepareTestcontainers()
	if os.Getenv("DOCKER_HOST") == "" {
		_ = os.Setenv("DOCKER_HOST", host)
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	engine, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return fmt.Errorf("docker engine at %s does not answer: %w: %w", host, err, ErrUnavailable)
	}
	defer engine.Close()
	sweepContainers(ctx, engine)
	if _, err := engine.ImageInspect(ctx, KafkaImage); err == nil {
		return nil
	}
	return makeImage(ctx)
}

// makeImage lets the script pull or build the image.
func makeImage(ctx context.Context) error {
	root, err := repository()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(root, "scripts", "kafka-image.sh")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("docker engine without image %s, and it cannot be made: %s: %w: %w",
			KafkaImage, strings.TrimSpace(string(out)), err, ErrUnavailable)
	}
	return nil
}

// sweepContainers removes containers whose test is gone, should a watchdog have died too.
func sweepContainers(ctx context.Context, engine *testcontainers.DockerClient) {
	filters := make(client.Filters).Add("label", ownerLabel)
	found, err := engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return
	}
	for _, c := range found.Items {
		pid, err := strconv.Atoi(c.Labels[ownerLabel])
		if err == nil && processGone(pid) {
			_, _ = engine.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		}
	}
}

// environment are the broker's settings as variables: "." becomes "_", "-" "___", "_" "__".
func (b *dockerBroker) environment() map[string]string {
	properties := singleNode()
	// Transactions hang when the broker must reach itself by an address that exists only
	// outside of the container, so traffic between brokers has a listener of its own.
	properties["listeners"] = "EXTERNAL://0.0.0.0:9092,INTERNAL://127.0.0.1:19092,CONTROLLER://127.0.0.1:9093"
	properties["advertised.listeners"] = "EXTERNAL://127.0.0.1:" + strconv.Itoa(b.port) + ",INTERNAL://127.0.0.1:19092"
	properties["controller.quorum.voters"] = "1@127.0.0.1:9093"
	properties["log.dirs"] = "/tmp/kraft-combined-logs"
	for key, value := range b.options.Config {
		properties[key] = value
	}
	env := map[string]string{"KAFKA_HEAP_OPTS": "-Xmx" + strconv.Itoa(b.options.HeapMB) + "m"}
	name := strings.NewReplacer("_", "__", "-", "___", ".", "_")
	for key, value := range properties {
		env["KAFKA_"+strings.ToUpper(name.Replace(key))] = value
	}
	return env
}

func (b *dockerBroker) start(ctx context.Context) error {
	if b.container != nil {
		return b.container.Start(ctx)
	}
	// Chosen here and not by the engine, so that the port survives stop and start.
	bind := func(h *container.HostConfig) {
		h.PortBindings = network.PortMap{
			network.MustParsePort(containerPort): {{
				HostIP:   netip.AddrFrom4([4]byte{127, 0, 0, 1}),
				HostPort: strconv.Itoa(b.port),
			}},
		}
	}
	c, err := testcontainers.Run(ctx, KafkaImage,
		testcontainers.WithEnv(b.environment()),
		testcontainers.WithExposedPorts(containerPort),
		testcontainers.WithHostConfigModifier(bind),
		testcontainers.WithLabels(map[string]string{ownerLabel: strconv.Itoa(os.Getpid())}),
		testcontainers.WithLogger(tclog.Default()),
		// A log line would be found again after a restart before the broker is up.
		testcontainers.WithWaitStrategyAndDeadline(b.options.StartTimeout,
			wait.ForListeningPort(containerPort).SkipInternalCheck()),
	)
	if c != nil {
		b.container = c
		if _, err := exec.LookPath("docker"); err == nil {
			b.callOff = watchdog(`exec docker rm -f -v "$0" >/dev/null 2>&1`, c.GetContainerID())
		}
	}
	return err
}

func (b *dockerBroker) stop(ctx context.Context) error {
	timeout := dockerStopTimeout
	return b.container.Stop(ctx, &timeout)
}

func (b *dockerBroker) kill(ctx context.Context) error {
	err := b.engine(ctx, func(e *testcontainers.DockerClient, id string) error {
		_, err := e.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "SIGKILL"})
		return err
	})
	if err != nil {
		return err
	}
	return poll(ctx, 20*time.Millisecond, func(ctx context.Context) error {
		state, err := b.container.State(ctx)
		if err == nil && state.Running {
			err = errors.New("still running")
		}
		return err
	})
}

func (b *dockerBroker) pause(ctx context.Context) error {
	return b.engine(ctx, func(e *testcontainers.DockerClient, id string) error {
		_, err := e.ContainerPause(ctx, id, client.ContainerPauseOptions{})
		return err
	})
}

func (b *dockerBroker) resume(ctx context.Context) error {
	return b.engine(ctx, func(e *testcontainers.DockerClient, id string) error {
		_, err := e.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
		return err
	})
}

func (b *dockerBroker) engine(ctx context.Context, f func(*testcontainers.DockerClient, string) error) error {
	e, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	return f(e, b.container.GetContainerID())
}

func (b *dockerBroker) ended(ctx context.Context) bool {
	if b.container == nil {
		return true
	}
	state, err := b.container.State(ctx)
	return err == nil && !state.Running
}

func (b *dockerBroker) log(limit int) string {
	if b.container == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	logs, err := b.container.Logs(ctx)
	if err != nil {
		return err.Error()
	}
	defer logs.Close()
	data, _ := io.ReadAll(logs)
	if len(data) > limit {
		data = data[len(data)-limit:]
	}
	return string(data)
}

func (b *dockerBroker) close() error {
	defer b.callOff()
	if b.container == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	// Removed by force: an orderly stop of a broker whose data goes away is wasted time.
	return b.engine(ctx, func(e *testcontainers.DockerClient, id string) error {
		_, err := e.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return err
	})
}
