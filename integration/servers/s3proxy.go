package servers

import (
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"
)

// StoreFaults say what is wrong with an object store. The zero value is nothing.
type StoreFaults struct {
	// Delay is added before each request is carried out.
	Delay time.Duration
	// FailPercent of the requests are answered with 503 and not carried out.
	FailPercent int
	// Down ends every connection without an answer.
	Down bool
	// LosePercent of the puts are carried out and not answered: the connection
	// ends instead.
	LosePercent int
}

// StoreProxy stands in front of an S3 server and behaves badly on demand.
type StoreProxy struct {
	// Endpoint is the URL to use instead of the server's.
	Endpoint string

	server *http.Server
	pass   *httputil.ReverseProxy

	mu       sync.Mutex
	faults   StoreFaults
	rng      *rand.Rand
	requests int
	failed   int
	lost     int
}

// NewStoreProxy puts a proxy in front of a server. Which requests fail depends on
// the seed and the order in which they come.
func NewStoreProxy(t testing.TB, s *S3Server, seed uint64) *StoreProxy {
	t.Helper()
	target, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // it lives as long as the test
	if err != nil {
		t.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = LoopbackDialer{}.DialContext
	p := &StoreProxy{
		Endpoint: "http://" + listener.Addr().String(),
		rng:      rand.New(rand.NewPCG(seed, 1)),
		pass: &httputil.ReverseProxy{
			Transport: transport,
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				r.Out.Host = r.In.Host // it is signed
			},
			ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		},
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = p.server.Close()
		<-done
		transport.CloseIdleConnections()
	})
	return p
}

// Set changes what is wrong, from the next request on.
func (p *StoreProxy) Set(f StoreFaults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
}

// Counts returns how many requests came, how many were refused, and how many
// puts were carried out without an answer.
func (p *StoreProxy) Counts() (requests, failed, lost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests, p.failed, p.lost
}

// decide chooses what happens to a request.
func (p *StoreProxy) decide(r *http.Request) (f StoreFaults, fail, lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	f = p.faults
	fail = f.Down || p.rng.IntN(100) < f.FailPercent
	lose = !fail && r.Method == http.MethodPut && p.rng.IntN(100) < f.LosePercent
	switch {
	case fail:
		p.failed++
	case lose:
		p.lost++
	}
	return f, fail, lose
}

// ServeHTTP implements http.Handler.
func (p *StoreProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, fail, lose := p.decide(r)
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
		}
	}
	switch {
	case f.Down:
		panic(http.ErrAbortHandler)
	case fail:
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>reduce your request rate</Message></Error>`))
	case lose:
		p.pass.ServeHTTP(discard{http.Header{}}, r)
		panic(http.ErrAbortHandler)
	default:
		p.pass.ServeHTTP(w, r)
	}
}

// discard is an answer that nobody gets.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}
