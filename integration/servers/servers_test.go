package servers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
)

func TestCheckLoopback(t *testing.T) {
	for _, ok := range []string{
		"127.0.0.1:9092", "127.0.0.1", "127.8.9.1:1", "localhost:1", "[::1]:9092", "::1",
		"http://127.0.0.1:7070", "https://localhost/", "http://[::1]:80/path",
	} {
		if err := CheckLoopback(ok); err != nil {
			t.Errorf("%s refused: %v", ok, err)
		}
	}
	for _, bad := range []string{
		"", "10.0.0.1:9092", "kafka:9092", "192.168.1.1", "0.0.0.0:9092", ":9092", "[::]:9092",
		"http://example.org", "http://127.0.0.1.example.org:80", "http://127.0.0.1@10.0.0.1:80",
		"localhost.example.org:1", "172.17.0.1:32768", "tcp://10.1.2.3:2375",
	} {
		if err := CheckLoopback(bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

func TestRefusedBeforeDialling(t *testing.T) {
	t.Setenv("TIDEGATE_KAFKA_BROKERS", "127.0.0.1:1, 10.255.255.1:9092")
	t.Setenv("TIDEGATE_KAFKA", "")
	t.Setenv("TIDEGATE_S3_ENDPOINT", "http://10.255.255.1:9000")
	began := time.Now()
	if _, err := Kafka(t.Context(), KafkaOptions{}); err == nil || errors.Is(err, ErrUnavailable) {
		t.Errorf("kafka elsewhere: %v", err)
	}
	if _, err := S3(t.Context()); err == nil {
		t.Error("s3 elsewhere accepted")
	}
	if _, err := (LoopbackDialer{}).Dial("tcp", "10.255.255.1:9092"); err == nil {
		t.Error("dialled")
	}
	t.Setenv("DOCKER_HOST", "tcp://10.255.255.1:2375")
	if _, err := Kafka(t.Context(), KafkaOptions{From: Docker}); err == nil || errors.Is(err, ErrUnavailable) {
		t.Errorf("docker elsewhere: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v: something was dialled", took)
	}
}

func TestUnknownSource(t *testing.T) {
	if _, err := Kafka(t.Context(), KafkaOptions{From: "podman"}); err == nil || !strings.Contains(err.Error(), "podman") {
		t.Fatalf("got %v", err)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	seen := make(map[int]bool)
	for range 50 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Fatalf("port %d twice", port)
		}
		seen[port] = true
		var lc net.ListenConfig
		l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}

func TestS3KeepsObjectsOverKill(t *testing.T) {
	server, bucket := RequireOwnS3(t)
	api := server.Client()
	put := func(ctx context.Context, body string) error {
		_, err := api.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &bucket, Key: aws.String("a/b"), Body: strings.NewReader(body), IfNoneMatch: aws.String("*"),
		})
		return err
	}
	if err := put(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	var refused smithy.APIError
	if err := put(t.Context(), "second"); !errors.As(err, &refused) || refused.ErrorCode() != "PreconditionFailed" {
		t.Fatalf("put-if-absent on a present object: %v", err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t.Context(), api, bucket); err == nil {
		t.Fatal("a killed server answered")
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if body, err := get(t.Context(), api, bucket); err != nil || body != "first" {
		t.Fatalf("got %q, %v", body, err)
	}
}

func TestPausedS3Stalls(t *testing.T) {
	server, bucket := RequireOwnS3(t)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := get(ctx, server.Client(), bucket); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	var missing smithy.APIError
	if _, err := get(t.Context(), server.Client(), bucket); !errors.As(err, &missing) || missing.ErrorCode() != "NoSuchKey" {
		t.Fatalf("after the pause: %v", err)
	}
}

func TestRunningServersAreNotOurs(t *testing.T) {
	managed, _ := RequireOwnS3(t)
	t.Setenv("TIDEGATE_S3_ENDPOINT", managed.Endpoint)
	t.Setenv("AWS_ACCESS_KEY_ID", managed.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", managed.SecretKey)
	running, err := S3(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if running.Managed() {
		t.Fatal("a running server is managed")
	}
	for _, act := range []func() error{running.Stop, running.Kill, running.Pause, running.Resume} {
		if err := act(); !errors.Is(err, ErrNotOurs) {
			t.Fatalf("got %v", err)
		}
	}
	if err := running.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := running.NewBucket(t.Context()); err != nil {
		t.Fatalf("after Close of a running server: %v", err)
	}
}

func get(ctx context.Context, api *s3.Client, bucket string) (string, error) {
	out, err := api.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("a/b")},
		func(o *s3.Options) { o.RetryMaxAttempts = 1 })
	if err != nil {
		return "", err
	}
	defer out.Body.Close()
	var body bytes.Buffer
	_, err = io.Copy(&body, out.Body)
	return body.String(), err
}

func TestMain(m *testing.M) { Main(m) }
