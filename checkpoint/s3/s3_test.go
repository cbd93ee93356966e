package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/storetest"
	"github.com/tidegate/tidegate/internal/ids"
)

const bucket = "tidegate-test"

// fake starts an S3 server in this process; wrap may put something before it.
func fake(t *testing.T, wrap func(http.Handler) http.Handler) Config {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	h := gofakes3.New(backend).Server()
	if wrap != nil {
		h = wrap(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return Config{
		Bucket: bucket, Prefix: "some/prefix/", Endpoint: srv.URL, Region: "us-east-1", PathStyle: true,
		Credentials:  &Credentials{AccessKeyID: "key", SecretAccessKey: "secret"},
		StallTimeout: 5 * time.Second, PartSize: 5 << 20, MultipartFrom: 6 << 20,
	}
}

func open(t *testing.T, c Config) *Store {
	t.Helper()
	s, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, fake(t, nil)) }, storetest.Options{Large: 12 << 20})
}

// A server that refuses one request in ten is no different: the SDK repeats.
func TestConformanceFailingServer(t *testing.T) {
	storetest.Run(t, func(t *testing.T) checkpoint.Store {
		c := fake(t, failing(10))
		c.MaxAttempts = 8
		return open(t, c)
	}, storetest.Options{Large: 12 << 20})
}

// failing answers every n-th request, drawn from a seed, with 503.
func failing(n int) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		var mu sync.Mutex
		rnd := rand.New(rand.NewPCG(1, 2))
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			fail := rnd.IntN(n) == 0
			mu.Unlock()
			if fail {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
}

func TestCheckSaysWhatToDo(t *testing.T) {
	ignoring := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("If-None-Match")
			h.ServeHTTP(w, r)
		})
	}
	refusing := func(method string, status int, code string) func(http.Handler) http.Handler {
		return func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != method {
					h.ServeHTTP(w, r)
					return
				}
				w.WriteHeader(status)
				_, _ = fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>no</Message></Error>`, code)
			})
		}
	}
	missing := fake(t, nil)
	missing.Bucket = "no-such-bucket"
	down := fake(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	})
	down.MaxAttempts = 1
	for _, c := range []struct {
		name string
		cfg  Config
		kind error
		say  string
	}{
		{"missing bucket", missing, checkpoint.ErrInvalid, `create the bucket "no-such-bucket"`},
		{"ignores put-if-absent", fake(t, ignoring), checkpoint.ErrInvalid, "ignores put-if-absent"},
		{"may not list", fake(t, refusing("GET", 403, "AccessDenied")), checkpoint.ErrDenied, "s3:ListBucket"},
		{"may not write", fake(t, refusing("PUT", 403, "AccessDenied")), checkpoint.ErrDenied, "s3:PutObject"},
		{"may not delete", fake(t, refusing("POST", 403, "AccessDenied")), checkpoint.ErrDenied, "s3:DeleteObject"},
		{"wrong key", fake(t, refusing("GET", 403, "InvalidAccessKeyId")), checkpoint.ErrDenied, "wrong or expired"},
		{"other region", fake(t, refusing("GET", 301, "PermanentRedirect")), checkpoint.ErrInvalid, "set the region"},
		{"put-if-absent refused with 501", fake(t, refusing("PUT", 501, "NotImplemented")), checkpoint.ErrInvalid, "does not support"},
		{"server down", down, checkpoint.ErrUnavailable, "is the server running"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := open(t, c.cfg).Check(t.Context())
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.say) || !strings.Contains(err.Error(), "s3://"+c.cfg.Bucket) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []Config{
		{}, {Bucket: "ab"}, {Bucket: "abc", Prefix: "a/../b"}, {Bucket: "abc", Endpoint: "127.0.0.1:9000"},
		{Bucket: "abc", PartSize: 1}, {Bucket: "abc", PartSize: 10 << 20, MultipartFrom: 6 << 20},
	} {
		if _, err := New(t.Context(), c); !errors.Is(err, checkpoint.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The answer to a put is lost after it was stored; the repetition finds the
// object, which PutManifest recognises as its own (R17).
func TestManifestStoredThoughAnswerLost(t *testing.T) {
	var lost int
	s := open(t, fake(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "PUT" && lost < 2 {
				lost++
				h.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			h.ServeHTTP(w, r)
		})
	}))
	names := checkpoint.Names{App: "app", Life: 1}
	cat := checkpoint.NewCatalog(s, names, checkpoint.Retry{Base: time.Millisecond})
	m := checkpoint.Manifest{App: "app", Life: 1, Checkpoint: 5, Term: 2}
	key, err := cat.PutManifest(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := cat.Load(t.Context(), key); err != nil || got.Checkpoint != ids.CheckpointID(5) {
		t.Fatal(got, err)
	}
	m.Topology = "another"
	if _, err := cat.PutManifest(t.Context(), m); !errors.Is(err, checkpoint.ErrExists) {
		t.Fatal(err)
	}
}

// A server that accepts a connection and then says nothing is noticed.
func TestStall(t *testing.T) {
	release := make(chan struct{})
	c := fake(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })
	})
	t.Cleanup(func() { close(release) }) // before the server closes
	c.StallTimeout, c.MaxAttempts = 100*time.Millisecond, 1
	err := open(t, c).PutIfAbsent(t.Context(), "a", []byte("x"))
	if !checkpoint.Retriable(err) {
		t.Fatal(err)
	}
}

// A body that flows slowly but steadily is not a stall.
func TestSlowBodyIsNoStall(t *testing.T) {
	b := make([]byte, 1000)
	c := fake(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			for i := range 10 {
				if i > 0 {
					select {
					case <-r.Context().Done():
					case <-time.After(50 * time.Millisecond):
					}
				}
				_, _ = w.Write(b[:100])
				w.(http.Flusher).Flush()
			}
		})
	})
	c.StallTimeout, c.MaxAttempts = 300*time.Millisecond, 1
	got, err := checkpoint.Get(t.Context(), open(t, c), "a")
	if err != nil || !bytes.Equal(got, b) {
		t.Fatal(len(got), err)
	}
}

func TestUnfinishedUploads(t *testing.T) {
	s := open(t, fake(t, nil))
	names := checkpoint.Names{App: "app", Life: 1}
	key := names.File(checkpoint.Writer{Checkpoint: 7}, "1.sst")
	up, err := s.client.CreateMultipartUpload(t.Context(), &awss3.CreateMultipartUploadInput{Bucket: &s.cfg.Bucket, Key: s.key(key)})
	if err != nil {
		t.Fatal(err)
	}
	cleaner := checkpoint.NewCleaner(checkpoint.NewCatalog(s, names, checkpoint.Retry{}))
	for _, step := range []struct {
		readTo ids.CheckpointID
		want   int
	}{{7, 0}, {8, 1}, {8, 0}} {
		done, err := cleaner.Clean(t.Context(), checkpoint.CleanRequest{ReadTo: step.readTo})
		if err != nil || done.Aborted != step.want {
			t.Fatalf("log read to %d: aborted %d, want %d: %v", step.readTo, done.Aborted, step.want, err)
		}
	}
	if err := s.AbortIncomplete(t.Context(), checkpoint.Upload{Key: key, ID: aws.ToString(up.UploadId)}); err != nil {
		t.Fatal("an upload that is gone:", err)
	}
}

// A cancelled multipart upload is aborted and leaves nothing.
func TestCancelledMultipart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := open(t, fake(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("partNumber") == "2" {
				cancel()
				_, _ = io.Copy(io.Discard, r.Body)
				return
			}
			h.ServeHTTP(w, r)
		})
	}))
	err := s.Put(ctx, "big", checkpoint.BytesSource(make([]byte, 20<<20)))
	if !errors.Is(err, context.Canceled) || checkpoint.Retriable(err) {
		t.Fatal(err)
	}
	for u, err := range s.ListIncomplete(t.Context(), "") {
		t.Fatal("left behind:", u, err)
	}
	if _, err := checkpoint.Get(t.Context(), s, "big"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatal(err)
	}
}
