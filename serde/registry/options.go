package registry

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Option configures a Client.
type Option func(*config)

type config struct {
	user, password string
	basicAuth      bool
	header         http.Header
	tls            *tls.Config
	client         *http.Client
	timeout        time.Duration
	attempts       int
	pause          time.Duration
	normalize      bool
}

// maxPause bounds the pause between two attempts.
const maxPause = 5 * time.Second

// WithBasicAuth sends a user name and a password. They may also be part of the
// URL.
func WithBasicAuth(user, password string) Option {
	return func(c *config) { c.user, c.password, c.basicAuth = user, password, true }
}

// WithHeader sends a header with every request, for example a bearer token.
func WithHeader(name, value string) Option {
	return func(c *config) { c.header.Add(name, value) }
}

// WithTLS sets certificates for https. It excludes WithHTTPClient, whose
// transport has its own.
func WithTLS(t *tls.Config) Option { return func(c *config) { c.tls = t } }

// WithHTTPClient replaces the HTTP client: for a proxy, for tracing, for tests.
func WithHTTPClient(h *http.Client) Option { return func(c *config) { c.client = h } }

// WithTimeout bounds one attempt; the default is 10 s.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// WithAttempts sets how often a request is made that fails with a network error,
// a status of 500 and above or 429, and the pause after the first failure, which
// doubles up to 5 s. The default is 5 attempts and 200 ms. Of several URLs each
// attempt takes the next.
func WithAttempts(n int, pause time.Duration) Option {
	return func(c *config) { c.attempts, c.pause = n, pause }
}

// WithNormalization lets the registry compare schemas in a normal form, so that
// the order of attributes in their text makes no difference.
func WithNormalization() Option { return func(c *config) { c.normalize = true } }

func configOf(opts []Option) (*config, error) {
	c := &config{header: http.Header{}, timeout: 10 * time.Second, attempts: 5, pause: 200 * time.Millisecond}
	for _, o := range opts {
		o(c)
	}
	var errs []error
	if c.timeout <= 0 {
		errs = append(errs, fmt.Errorf("WithTimeout(%v): must be positive", c.timeout))
	}
	if c.attempts < 1 || c.pause < 0 {
		errs = append(errs, fmt.Errorf("WithAttempts(%d, %v): at least one attempt and a pause that is not negative are needed", c.attempts, c.pause))
	}
	if c.tls != nil && c.client != nil {
		errs = append(errs, errors.New("WithTLS and WithHTTPClient exclude each other: set TLSClientConfig of the client's transport"))
	}
	if c.client == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		if c.tls != nil {
			transport.TLSClientConfig = c.tls.Clone()
		}
		c.client = &http.Client{Transport: transport}
	}
	return c, errors.Join(errs...)
}

// bases parses a comma-separated list of URLs, and takes the user of the first
// that names one.
func (c *config) bases(urls string) ([]*url.URL, error) {
	var out []*url.URL
	for part := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		switch {
		case err != nil:
			// The text of err has the whole URL in it, password included.
			return nil, errors.New("the URL of the schema registry cannot be parsed: want http://host:port or https://host:port")
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			return nil, fmt.Errorf("%q is not the URL of a schema registry: want http://host:port or https://host:port", u.Redacted())
		case u.RawQuery != "" || u.Fragment != "":
			return nil, fmt.Errorf("%q: the URL of a schema registry has no query and no fragment", u.Redacted())
		}
		if u.User != nil && !c.basicAuth {
			password, _ := u.User.Password()
			c.user, c.password, c.basicAuth = u.User.Username(), password, true
		}
		u.User, u.Path, u.RawPath = nil, strings.TrimRight(u.Path, "/"), ""
		if u.Scheme == "http" && c.tls != nil {
			return nil, fmt.Errorf("%q: WithTLS needs https", u)
		}
		out = append(out, u)
	}
	return slices.Clip(out), nil
}
