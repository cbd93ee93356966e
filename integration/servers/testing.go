package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
)

// Main runs the tests of a package and ends every server that they started. Use it as
// `func TestMain(m *testing.M) { servers.Main(m) }`.
func Main(m *testing.M) {
	code := m.Run()
	if err := CloseAll(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the test servers:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

var shared struct {
	sync.Mutex
	kafka    *KafkaServer
	kafkaErr error
	s3       *S3Server
	s3Err    error
}

// RequireKafka returns the broker that all tests of the package share; the first call
// starts it. Tests that stop it, or need settings, use [RequireOwnKafka]. Without any
// way to get a broker the test is skipped; it fails where CI=true.
func RequireKafka(t testing.TB) *KafkaServer {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.kafka == nil && shared.kafkaErr == nil {
		shared.kafka, shared.kafkaErr = Kafka(context.Background(), KafkaOptions{})
	}
	require(t, shared.kafkaErr)
	return shared.kafka
}

// RequireOwnKafka starts a broker for this test alone and ends it with the test. It is
// never a running one. Skips and fails like [RequireKafka].
func RequireOwnKafka(t testing.TB, o KafkaOptions) *KafkaServer {
	t.Helper()
	o.Own = true
	k, err := Kafka(t.Context(), o)
	require(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the broker's log:\n%s", k.Log(4000))
		}
		if err := k.Close(); err != nil {
			t.Errorf("stop kafka: %v", err)
		}
	})
	return k
}

// RequireS3 returns the S3 server that all tests of the package share, with a new bucket.
// It needs nothing but Go, so it never skips.
func RequireS3(t testing.TB) (server *S3Server, bucket string) {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.s3 == nil && shared.s3Err == nil {
		shared.s3, shared.s3Err = S3(context.Background())
	}
	if shared.s3Err != nil {
		t.Fatal(shared.s3Err)
	}
	bucket, err := shared.s3.NewBucket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return shared.s3, bucket
}

// RequireOwnS3 starts an S3 server for this test alone, which may stop it.
func RequireOwnS3(t testing.TB) (server *S3Server, bucket string) {
	t.Helper()
	s, err := startS3(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the s3 server's log:\n%s", s.Log(4000))
		}
		if err := s.Close(); err != nil {
			t.Errorf("stop s3 server: %v", err)
		}
	})
	if bucket, err = s.NewBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, bucket
}

func require(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrUnavailable) && !inCI():
		t.Skipf("SKIPPED, NOT TESTED ON A REAL BROKER: %v", err)
	default:
		t.Fatal(err)
	}
}

func inCI() bool {
	ci, err := strconv.ParseBool(os.Getenv("CI"))
	return err == nil && ci
}
