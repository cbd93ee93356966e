package registry_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/serde/registry"
	"github.com/tidegate/tidegate/serde/registry/registrytest"
)

var aSchema = registry.Schema{Type: registry.Avro, Text: `"string"`}

func TestRegisterLookupAndGet(t *testing.T) {
	ctx := t.Context()
	server := registrytest.New(t)
	c := server.Client(t)
	_, err := c.Lookup(ctx, "clicks-value", aSchema)
	require.ErrorContains(t, err, `look the schema up under subject "clicks-value": `+server.URL()+`/subjects/clicks-value answered 404 (40401): Subject 'clicks-value' not found.`)
	require.NotErrorIs(t, err, serde.ErrUnavailable)

	id, err := c.Register(ctx, "clicks-value", aSchema)
	require.NoError(t, err)
	require.Equal(t, 1, id)
	again, err := c.Register(ctx, "other/subject", aSchema)
	require.NoError(t, err)
	require.Equal(t, 1, again, "one schema has one id")
	require.Equal(t, []string{"clicks-value", "other/subject"}, server.Subjects())

	s, err := c.SchemaByID(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, aSchema, s)
	v, err := c.Latest(ctx, "clicks-value")
	require.NoError(t, err)
	require.Equal(t, registry.Version{Subject: "clicks-value", Version: 1, ID: 1, Schema: aSchema}, v)
	n, err := c.VersionOf(ctx, "clicks-value", aSchema)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = c.Version(ctx, "clicks-value", 7)
	require.ErrorContains(t, err, "40402")
	_, err = c.Register(ctx, "", aSchema)
	require.ErrorContains(t, err, "subject of the schema registry is empty")

	before := server.Requests()
	for range 5 {
		_, err = c.SchemaByID(ctx, 1)
		require.NoError(t, err)
		_, err = c.Register(ctx, "clicks-value", aSchema)
		require.NoError(t, err)
	}
	require.Equal(t, before, server.Requests(), "what is known is not asked for again")
}

func TestRefusedSchema(t *testing.T) {
	server := registrytest.New(t)
	server.Refuse("s", "field x has no default")
	_, err := server.Client(t).Register(t.Context(), "s", aSchema)
	require.ErrorContains(t, err, "answered 409: field x has no default: the schema is not compatible")
	require.ErrorIs(t, err, serde.ErrUnavailable)
}

func TestReferenced(t *testing.T) {
	server := registrytest.New(t)
	ref := func(name string) registry.Reference { return registry.Reference{Name: name, Subject: name, Version: 1} }
	with := func(text string, refs ...string) registry.Schema {
		s := registry.Schema{Text: text}
		for _, r := range refs {
			s.References = append(s.References, ref(r))
		}
		return s
	}
	server.Add("a", with("A"))
	server.Add("b", with("B", "a"))
	server.Add("c", with("C", "a", "b"))
	got, err := server.Client(t).Referenced(t.Context(), with("D", "c", "a"))
	require.NoError(t, err)
	var texts []string
	for _, s := range got {
		texts = append(texts, s.Text)
	}
	require.Equal(t, []string{"A", "B", "C"}, texts)
	_, err = server.Client(t).Referenced(t.Context(), with("D", "nobody"))
	require.ErrorContains(t, err, `get a version of subject "nobody"`)
}

// transport answers without a network, so that time may be a bubble's.
type transport func(*http.Request) (int, string, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body, err := f(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func withTransport(f transport) registry.Option {
	return registry.WithHTTPClient(&http.Client{Transport: f})
}

func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hosts []string
		start := time.Now()
		c, err := registry.New("http://one,http://two", withTransport(func(r *http.Request) (int, string, error) {
			hosts = append(hosts, r.URL.Host)
			body, _ := io.ReadAll(r.Body)
			require.JSONEq(t, `{"schema":"\"string\""}`, string(body), "the body goes along again")
			switch len(hosts) {
			case 1:
				return 503, "<html>", nil
			case 2:
				return 0, "", errors.New("connection refused")
			case 3:
				return 429, "{}", nil
			}
			return 200, `{"id":5}`, nil
		}))
		require.NoError(t, err)
		id, err := c.Register(t.Context(), "s", aSchema)
		require.NoError(t, err)
		require.Equal(t, 5, id)
		require.Equal(t, []string{"one", "two", "one", "two"}, hosts)
		require.GreaterOrEqual(t, time.Since(start), 700*time.Millisecond, "100, 200 and 400 ms at least")
		require.LessOrEqual(t, time.Since(start), 1400*time.Millisecond)
	})
}

func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c, err := registry.New("http://me:secret@one", withTransport(func(*http.Request) (int, string, error) {
			n++
			return 500, `{"error_code":50001,"message":"down"}`, nil
		}), registry.WithAttempts(3, time.Second))
		require.NoError(t, err)
		_, err = c.SchemaByID(t.Context(), 1)
		require.EqualError(t, err, "get the schema of id 1: http://one/schemas/ids/1 answered 500 (50001): down (3 attempts)")
		require.ErrorIs(t, err, serde.ErrUnavailable)
		var e *registry.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, 50001, e.Code)
		require.Equal(t, 3, n)
		_, err = c.SchemaByID(t.Context(), 1)
		require.Error(t, err)
		require.Equal(t, 6, n, "a failure is not kept")
	})
}

func TestNoRetryOfARefusal(t *testing.T) {
	for status, want := range map[int]string{401: "check WithBasicAuth", 422: "answered 422", 403: "check WithBasicAuth"} {
		n := 0
		c, err := registry.New("http://one", withTransport(func(*http.Request) (int, string, error) {
			n++
			return status, `{}`, nil
		}))
		require.NoError(t, err)
		_, err = c.Register(t.Context(), "s", aSchema)
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, serde.ErrUnavailable)
		require.Equal(t, 1, n)
	}
}

func TestTimeoutOfAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c, err := registry.New("http://one", withTransport(func(r *http.Request) (int, string, error) {
			if n++; n == 1 {
				<-r.Context().Done()
				return 0, "", r.Context().Err()
			}
			return 200, `{"schema":"x"}`, nil
		}), registry.WithTimeout(time.Minute))
		require.NoError(t, err)
		s, err := c.SchemaByID(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, registry.Schema{Type: registry.Avro, Text: "x"}, s)
		require.Equal(t, 2, n)
	})
}

func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := registry.New("http://one", withTransport(func(*http.Request) (int, string, error) { return 503, "", nil }),
			registry.WithAttempts(1000, time.Hour))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.SchemaByID(ctx, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "answered 503")
		require.ErrorIs(t, err, serde.ErrUnavailable)
	})
}

// One fetch for all who wait; the end of the fetcher's context is not theirs.
func TestOneFetchForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		c, err := registry.New("http://one", withTransport(func(r *http.Request) (int, string, error) {
			if n.Add(1) == 1 {
				<-r.Context().Done()
				return 0, "", r.Context().Err()
			}
			return 200, `{"schema":"x"}`, nil
		}), registry.WithTimeout(time.Hour))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			_, err := c.SchemaByID(ctx, 1)
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		for range 5 {
			all.Go(func() {
				s, err := c.SchemaByID(t.Context(), 1)
				require.NoError(t, err)
				require.Equal(t, "x", s.Text)
			})
		}
		synctest.Wait()
		early, stop := context.WithCancel(t.Context())
		stop()
		_, err = c.SchemaByID(early, 1)
		require.ErrorIs(t, err, context.Canceled, "who waits has a context of his own")
		cancel()
		all.Wait()
		require.Equal(t, int32(2), n.Load())
	})
}

func TestUnknownIDsAreRememberedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c, err := registry.New("http://one", withTransport(func(*http.Request) (int, string, error) {
			n++
			return 404, `{"error_code":40403,"message":"Schema not found"}`, nil
		}))
		require.NoError(t, err)
		for range 3 {
			_, err = c.SchemaByID(t.Context(), 1)
			require.ErrorContains(t, err, "40403")
			require.NotErrorIs(t, err, serde.ErrUnavailable, "the record has a wrong id")
		}
		require.Equal(t, 1, n)
		time.Sleep(10 * time.Second)
		_, err = c.SchemaByID(t.Context(), 1)
		require.Error(t, err)
		require.Equal(t, 2, n)
	})
}

func TestAuthenticationAndHeaders(t *testing.T) {
	var seen *http.Request
	ask := func(url string, opts ...registry.Option) {
		c, err := registry.New(url, append(opts, withTransport(func(r *http.Request) (int, string, error) {
			seen = r
			return 200, `{"schema":"x"}`, nil
		}))...)
		require.NoError(t, err)
		_, err = c.SchemaByID(t.Context(), 1)
		require.NoError(t, err)
	}
	ask("http://one/base/", registry.WithBasicAuth("me", "secret"), registry.WithHeader("X-Tenant", "t"))
	user, password, ok := seen.BasicAuth()
	require.True(t, ok)
	require.Equal(t, "me secret", user+" "+password)
	require.Equal(t, "t", seen.Header.Get("X-Tenant"))
	require.Equal(t, "/base/schemas/ids/1", seen.URL.Path)
	ask("http://you:word@one")
	user, password, _ = seen.BasicAuth()
	require.Equal(t, "you word", user+" "+password)
	require.Equal(t, "application/vnd.schemaregistry.v1+json", seen.Header.Get("Accept"))
	ask("http://one", registry.WithHeader("Authorization", "Bearer x"))
	require.Equal(t, "Bearer x", seen.Header.Get("Authorization"))
}

func TestTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"schema": "x"})
	}))
	server.Config.ErrorLog = nil
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	c, err := registry.New(server.URL, registry.WithTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}))
	require.NoError(t, err)
	s, err := c.SchemaByID(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "x", s.Text)
}

func TestOddAnswers(t *testing.T) {
	ask := func(body string) error {
		c, err := registry.New("http://one", withTransport(func(*http.Request) (int, string, error) { return 200, body, nil }))
		require.NoError(t, err)
		_, err = c.Register(t.Context(), "s", aSchema)
		return err
	}
	require.ErrorContains(t, ask("<html>"), "not a schema registry's")
	require.ErrorContains(t, ask("{}"), "the answer has no id")
	require.ErrorContains(t, ask(strings.Repeat("x", 16<<20+1)), "more than 16777216 bytes")
}

func TestOptionErrors(t *testing.T) {
	for _, c := range []struct {
		url  string
		opts []registry.Option
		want string
	}{
		{"", nil, "not the URL of a schema registry"},
		{"localhost:8081", nil, "want http://host:port"},
		{"ftp://x", nil, "want http://host:port"},
		{"http://x?y", nil, "no query"},
		{"http://me:secret@x?y", nil, "me:xxxxx@x"},
		{"http://me:secret@%zz", nil, "cannot be parsed"},
		{"http://x", []registry.Option{registry.WithTimeout(0)}, "WithTimeout(0s): must be positive"},
		{"http://x", []registry.Option{registry.WithAttempts(0, 0)}, "WithAttempts(0, 0s)"},
		{"http://x", []registry.Option{registry.WithTLS(&tls.Config{})}, "WithTLS needs https"},                                              //nolint:gosec // never used
		{"https://x", []registry.Option{registry.WithTLS(&tls.Config{}), registry.WithHTTPClient(http.DefaultClient)}, "exclude each other"}, //nolint:gosec // never used
	} {
		_, err := registry.New(c.url, c.opts...)
		require.ErrorContains(t, err, c.want, c.url)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestNormalization(t *testing.T) {
	var query string
	c, err := registry.New("http://one", registry.WithNormalization(), withTransport(func(r *http.Request) (int, string, error) {
		query = r.URL.RawQuery
		return 200, `{"id":1}`, nil
	}))
	require.NoError(t, err)
	_, err = c.Register(t.Context(), "s", aSchema)
	require.NoError(t, err)
	require.Equal(t, "normalize=true", query)
}

func TestWriter(t *testing.T) {
	require.Equal(t, "a-key a-value r a-r", strings.Join([]string{registry.KeySubject("a"), registry.ValueSubject("a"),
		registry.RecordSubject("r"), registry.TopicRecordSubject("a", "r")}, " "))
	server := registrytest.New(t)
	c := server.Client(t)
	w := c.Writer("s", aSchema, registry.LookupOnly())
	_, err := w.AppendHeader(nil)
	require.ErrorContains(t, err, "with LookupOnly the schema must be registered before")
	require.ErrorIs(t, err, serde.ErrUnavailable, "no record can be written")
	require.Empty(t, server.Subjects())

	w = c.Writer("s", aSchema)
	b, err := w.AppendHeader([]byte("x"))
	require.NoError(t, err)
	require.Equal(t, []byte{'x', 0, 0, 0, 0, 1}, b)
	require.Equal(t, 1, w.Known())
	require.Zero(t, testing.AllocsPerRun(10, func() { b, _ = w.AppendHeader(b[:0]) }))
	b, err = c.Writer("s", aSchema, registry.LookupOnly()).AppendHeader(nil)
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0, 0, 0, 1}, b)
	_, err = (*registry.Client)(nil).Writer("s", aSchema).AppendHeader(nil)
	require.ErrorContains(t, err, "client is nil")
}

func TestWire(t *testing.T) {
	id, rest, err := registry.ParseHeader([]byte{0, 0, 0, 1, 2, 9})
	require.NoError(t, err)
	require.Equal(t, 258, id)
	require.Equal(t, []byte{9}, rest)
	for in, want := range map[string]string{"": "too few", "\x00\x00\x00\x00": "too few", "{\"a\":1}": "byte 0x7b", "\x00\xff\xff\xff\xff": "out of range"} {
		_, _, err := registry.ParseHeader([]byte(in))
		require.ErrorContains(t, err, want)
	}
	for _, c := range []struct {
		path []int
		want []byte
	}{
		{[]int{0}, []byte{0}},
		{[]int{1}, []byte{2, 2}},
		{[]int{1, 0}, []byte{4, 2, 0}},
		{[]int{0, 100, 3}, []byte{6, 0, 0xc8, 1, 6}},
	} {
		b := registry.AppendIndexes(nil, c.path)
		require.Equal(t, c.want, b)
		path, rest, err := registry.ParseIndexes(append(b, 'x'))
		require.NoError(t, err)
		require.Equal(t, c.path, path)
		require.Equal(t, []byte("x"), rest)
		rest, err = registry.SkipIndexes(append(b, 'x'))
		require.NoError(t, err)
		require.Equal(t, []byte("x"), rest)
	}
	path, _, err := registry.ParseIndexes([]byte{2, 0})
	require.NoError(t, err)
	require.Equal(t, []int{0}, path, "the long form of [0]")
	for _, bad := range [][]byte{nil, {1}, {4, 2}, {0x80}, {2, 1}, {0xff, 0xff, 3}, {2, 0xff, 0xff, 0xff, 0xff, 0xff, 1}} {
		_, _, err := registry.ParseIndexes(bad)
		require.Error(t, err, "%x", bad)
		_, err = registry.SkipIndexes(bad)
		require.Error(t, err, "%x", bad)
	}
}

func FuzzWire(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 4, 2, 0, 7})
	f.Fuzz(func(t *testing.T, b []byte) {
		id, rest, err := registry.ParseHeader(b)
		if err != nil {
			return
		}
		require.Equal(t, b[:5], registry.AppendHeader(nil, id))
		path, payload, err := registry.ParseIndexes(rest)
		skipped, skipErr := registry.SkipIndexes(rest)
		require.Equal(t, err == nil, skipErr == nil)
		if err != nil {
			return
		}
		require.True(t, bytes.Equal(payload, skipped))
		again, rest, err := registry.ParseIndexes(append(registry.AppendIndexes(nil, path), payload...))
		require.NoError(t, err)
		require.Equal(t, path, again)
		require.True(t, bytes.Equal(payload, rest))
	})
}
