package servers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// S3Server is one S3 server.
type S3Server struct {
	// Endpoint is its URL; requests are path style.
	Endpoint string
	// Region is what requests are signed with.
	Region string
	// AccessKey and SecretKey may do everything.
	AccessKey, SecretKey string

	mu      sync.Mutex
	gateway *gateway // nil for a running one
}

// gateway is a versitygw process that keeps objects as files.
type gateway struct {
	binary, dir string
	port        int
	process     *Process
}

// S3 finds or starts an S3 server and returns when it answers. TIDEGATE_S3_ENDPOINT names
// a running one; its keys are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, its region
// AWS_REGION (default us-east-1).
func S3(ctx context.Context) (*S3Server, error) {
	if endpoint := os.Getenv("TIDEGATE_S3_ENDPOINT"); endpoint != "" {
		return runningS3(ctx, endpoint)
	}
	return startS3(ctx)
}

func startS3(ctx context.Context) (*S3Server, error) {
	binary, err := versitygw(ctx)
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := scratchDir("s3")
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{"data", "sidecar"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, fmt.Errorf("make folder of the s3 server: %w", err)
		}
	}
	s := &S3Server{
		Endpoint:  "http://127.0.0.1:" + strconv.Itoa(port),
		Region:    "us-east-1",
		AccessKey: "tidegate-test",
		SecretKey: hexString(20),
		gateway:   &gateway{binary: binary, dir: dir, port: port},
	}
	remember(s)
	if err := s.Start(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func runningS3(ctx context.Context, endpoint string) (*S3Server, error) {
	if err := CheckLoopback(endpoint); err != nil {
		return nil, fmt.Errorf("TIDEGATE_S3_ENDPOINT: %w", err)
	}
	s := &S3Server{
		Endpoint:  strings.TrimSuffix(endpoint, "/"),
		Region:    "us-east-1",
		AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"),
		SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
	}
	if region := os.Getenv("AWS_REGION"); region != "" {
		s.Region = region
	}
	if s.AccessKey == "" || s.SecretKey == "" {
		return nil, errors.New("TIDEGATE_S3_ENDPOINT needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	if err := s.waitReady(ctx); err != nil {
		return nil, fmt.Errorf("server of TIDEGATE_S3_ENDPOINT: %w", err)
	}
	return s, nil
}

// Managed reports whether the server may be stopped, killed and paused.
func (s *S3Server) Managed() bool { return s.gateway != nil }

// Client is a client of the server.
func (s *S3Server) Client() *s3.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = LoopbackDialer{}.DialContext
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(s.Endpoint),
		Region:       s.Region,
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
		HTTPClient:   &http.Client{Transport: transport},
	})
}

// Env are the variables by which the ordinary credential chain of an AWS SDK finds the
// keys and the region.
func (s *S3Server) Env() []string {
	return []string{
		"AWS_ACCESS_KEY_ID=" + s.AccessKey,
		"AWS_SECRET_ACCESS_KEY=" + s.SecretKey,
		"AWS_REGION=" + s.Region,
		"AWS_ENDPOINT_URL_S3=" + s.Endpoint, // never the real one
		"AWS_EC2_METADATA_DISABLED=true",
	}
}

// NewBucket makes an empty bucket with a name of its own.
func (s *S3Server) NewBucket(ctx context.Context) (string, error) {
	name := "tidegate-" + hexString(6)
	if _, err := s.Client().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(name)}); err != nil {
		return "", fmt.Errorf("create bucket %s: %w", name, err)
	}
	return name, nil
}

// Start starts a stopped or killed server on the same port with the same objects.
func (s *S3Server) Start(ctx context.Context) error {
	if err := s.act(func(g *gateway) error { return g.start(s) }); err != nil {
		return fmt.Errorf("start s3 server: %w", err)
	}
	if err := s.waitReady(ctx); err != nil {
		return fmt.Errorf("start s3 server: %w; end of its log:\n%s", err, s.Log(4000))
	}
	return nil
}

// Stop ends the server: connections are refused until Start.
func (s *S3Server) Stop() error {
	return s.act(func(g *gateway) error { return g.process.Stop(5 * time.Second) })
}

// Kill is kill -9.
func (s *S3Server) Kill() error {
	return s.act(func(g *gateway) error { return g.process.Kill() })
}

// Pause stops the server in its tracks: connections are accepted, nothing answers.
func (s *S3Server) Pause() error {
	return s.act(func(g *gateway) error { return g.process.Pause() })
}

// Resume lets a paused server go on.
func (s *S3Server) Resume() error {
	return s.act(func(g *gateway) error { return g.process.Resume() })
}

// Log returns the end of the server's log; empty for a running server.
func (s *S3Server) Log(limit int) string {
	if s.gateway == nil {
		return ""
	}
	return tail(s.gateway.logPath(), limit)
}

// Close ends the server and removes its objects. A running one is left alone.
func (s *S3Server) Close() error {
	forget(s)
	if s.gateway == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.gateway.process != nil {
		err = s.gateway.process.Kill()
	}
	_ = os.RemoveAll(s.gateway.dir)
	return err
}

func (s *S3Server) act(f func(*gateway) error) error {
	if s.gateway == nil {
		return ErrNotOurs
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return f(s.gateway)
}

// waitReady returns when the server lists buckets for its keys.
func (s *S3Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	api := s.Client()
	return poll(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		_, err := api.ListBuckets(ctx, &s3.ListBucketsInput{}, func(o *s3.Options) { o.RetryMaxAttempts = 1 })
		return err
	})
}

func (g *gateway) logPath() string { return filepath.Join(g.dir, "s3.log") }

func (g *gateway) start(s *S3Server) error {
	if g.process != nil && g.process.Alive() {
		return nil
	}
	args := []string{"--port", "127.0.0.1:" + strconv.Itoa(g.port), "--quiet", "posix"}
	data := filepath.Join(g.dir, "data")
	if !supportsXattr(data) {
		args = append(args, "--sidecar", filepath.Join(g.dir, "sidecar"))
	}
	p, err := StartProcess(Command{
		Path:    g.binary,
		Args:    append(args, data),
		Env:     []string{"ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey, "VGW_REGION=" + s.Region},
		Dir:     g.dir,
		LogPath: g.logPath(),
	})
	if err != nil {
		return err
	}
	g.process = p
	return nil
}

// versitygw is the program in ./bin, built from tools/go.mod when it is not there.
func versitygw(ctx context.Context) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(root, "bin", "versitygw")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	// Built beside and renamed: another test process may be at it too.
	fresh := binary + "." + strconv.Itoa(os.Getpid())
	cmd := exec.CommandContext(ctx, "go", "build", "-o", fresh, "github.com/versity/versitygw/cmd/versitygw")
	cmd.Dir = filepath.Join(root, "tools")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build versitygw from tools/go.mod: %w:\n%s", err, out)
	}
	if err := os.Rename(fresh, binary); err != nil {
		return "", fmt.Errorf("build versitygw: %w", err)
	}
	return binary, nil
}

func hexString(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
