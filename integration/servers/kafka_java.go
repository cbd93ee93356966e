package servers

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
)

// javaBroker is a process of the broker's jars: one KRaft node.
type javaBroker struct {
	libs, dir string
	heapMB    int
	formatted bool
	member    bool // of a cluster whose voters the settings name
	process   *Process
}

func newJavaBroker(ctx context.Context, o KafkaOptions, port int) (broker, error) {
	libs, err := javaAvailable(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := scratchDir("kafka")
	if err != nil {
		return nil, err
	}
	internal, err := FreePort()
	if err != nil {
		return nil, err
	}
	controller, err := FreePort()
	if err != nil {
		return nil, err
	}
	b := &javaBroker{libs: libs, dir: dir, heapMB: o.HeapMB}
	properties := singleNode()
	external := "EXTERNAL://127.0.0.1:" + strconv.Itoa(port)
	inner := "INTERNAL://127.0.0.1:" + strconv.Itoa(internal)
	control := "127.0.0.1:" + strconv.Itoa(controller)
	properties["listeners"] = external + "," + inner + ",CONTROLLER://" + control
	properties["advertised.listeners"] = external + "," + inner
	properties["controller.quorum.bootstrap.servers"] = control
	properties["log.dirs"] = filepath.Join(dir, "data")
	for key, value := range o.Config {
		properties[key] = value
	}
	if err := os.WriteFile(b.propertiesPath(), []byte(propertiesText(properties)), 0o644); err != nil {
		return nil, fmt.Errorf("write broker settings: %w", err)
	}
	return b, nil
}

// javaAvailable returns the folder of the broker's jars where Java is there to run them.
func javaAvailable(ctx context.Context) (string, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", fmt.Errorf("no java on the path: %w", ErrUnavailable)
	}
	return brokerJars(ctx)
}

// brokerJars is the folder with the broker's jars, fetched once by Maven.
func brokerJars(ctx context.Context) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "scripts", "kafka-jars.sh"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("fetch the broker's jars: %s: %w: %w", strings.TrimSpace(stderr.String()), err, ErrUnavailable)
	}
	return strings.TrimSpace(string(out)), nil
}

func propertiesText(properties map[string]string) string {
	lines := make([]string, 0, len(properties))
	for key, value := range properties {
		lines = append(lines, key+"="+value+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func (b *javaBroker) propertiesPath() string { return filepath.Join(b.dir, "server.properties") }
func (b *javaBroker) logPath() string        { return filepath.Join(b.dir, "broker.log") }

func (b *javaBroker) command(heapMB int, main string, args ...string) Command {
	flags := []string{
		"-Xmx" + strconv.Itoa(heapMB) + "m",
		"-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:+ExitOnOutOfMemoryError",
		"-Djava.net.preferIPv4Stack=true",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-cp", filepath.Join(b.libs, "*"), main,
	}
	return Command{Path: "java", Args: append(flags, args...), Dir: b.dir, LogPath: b.logPath()}
}

func (b *javaBroker) start(ctx context.Context) error {
	if b.process != nil && b.process.Alive() {
		return nil
	}
	if err := b.format(ctx); err != nil {
		return err
	}
	p, err := StartProcess(b.command(b.heapMB, "kafka.Kafka", b.propertiesPath()))
	if err != nil {
		return err
	}
	b.process = p
	return nil
}

// format gives the data folder its cluster id, once: a restart keeps the data.
func (b *javaBroker) format(ctx context.Context) error {
	if b.formatted {
		return nil
	}
	args := []string{"format", "--cluster-id", "tidegate-test-cluster0", "--config", b.propertiesPath()}
	if !b.member {
		args = append(args, "--standalone")
	}
	p, err := StartProcess(b.command(256, "kafka.tools.StorageTool", args...))
	if err != nil {
		return err
	}
	if err := p.Wait(ctx); err != nil {
		_ = p.Kill()
		return fmt.Errorf("format the data folder: %w:\n%s", err, b.log(4000))
	}
	b.formatted = true
	return nil
}

func (b *javaBroker) stop(context.Context) error {
	if b.process == nil {
		return nil
	}
	return b.process.Stop(30 * time.Second)
}

func (b *javaBroker) kill(context.Context) error {
	if b.process == nil {
		return nil
	}
	return b.process.Kill()
}

func (b *javaBroker) pause(context.Context) error  { return b.process.Pause() }
func (b *javaBroker) resume(context.Context) error { return b.process.Resume() }
func (b *javaBroker) ended(context.Context) bool   { return b.process == nil || !b.process.Alive() }
func (b *javaBroker) log(limit int) string         { return tail(b.logPath(), limit) }

// close kills: nobody reads the data again.
func (b *javaBroker) close() error {
	err := b.kill(context.Background())
	_ = os.RemoveAll(b.dir)
	return err
}
