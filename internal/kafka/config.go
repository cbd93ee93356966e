package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// Config says how to reach Kafka.
type Config struct {
	// Brokers are the addresses to start from, host:port. Required.
	Brokers []string
	// Sarama carries TLS, SASL, client id, proxy and network time-outs. It is
	// copied; its Producer, Consumer and Metadata settings are not used. nil
	// means sarama.NewConfig().
	Sarama *sarama.Config
	// Guard, when set, is asked before every dial; an error refuses it.
	Guard func(address string) error
	// Logger hears of connection trouble at Warn and Debug. nil: nobody does.
	Logger *slog.Logger
}

// Loopback is a Guard for tests: it refuses every address but loopback, without
// asking a name server.
func Loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() || host == "localhost" {
		return nil
	}
	return fmt.Errorf("%s is not a loopback address: tests connect to this machine only", address)
}

// Limits on how long one attempt to reach a broker may take. A user's shorter
// value is kept; sarama's default of 30 s would hold a whole checkpoint.
const (
	maxDialTime = 10 * time.Second
	maxReadTime = 30 * time.Second
)

func (c Config) validate() error {
	if len(c.Brokers) == 0 {
		return errors.New("no broker address: give at least one as host:port")
	}
	for _, b := range c.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			return fmt.Errorf("broker address %q: %w; write it as host:port", b, err)
		}
	}
	if c.Sarama != nil {
		if err := c.Sarama.Validate(); err != nil {
			return fmt.Errorf("sarama configuration: %w", err)
		}
	}
	return nil
}

// base returns the sarama configuration that all roles start from.
func (c Config) base() *sarama.Config {
	conf := sarama.NewConfig()
	if c.Sarama != nil {
		cp := *c.Sarama
		conf = &cp
	}
	// Versions are negotiated per connection; a configured one would only hold
	// back requests that the broker knows.
	conf.ApiVersionsRequest = true
	conf.Version = sarama.MaxVersion
	conf.MetricRegistry = nilRegistry{}
	conf.Net.DialTimeout = min(conf.Net.DialTimeout, maxDialTime)
	conf.Net.ReadTimeout = min(conf.Net.ReadTimeout, maxReadTime)
	conf.Net.MaxOpenRequests = maxPipelined
	// Settings of sarama's own producer that Validate ties to others and that
	// nothing here uses.
	conf.Producer.Idempotent = false
	conf.Producer.Transaction.ID = ""
	return conf
}

// Client owns the metadata and makes the roles. It is safe for concurrent use.
type Client struct {
	cfg  Config
	log  *slog.Logger
	conf *sarama.Config
	meta *cluster

	admin *Admin
	txns  *Transactions

	mu     sync.Mutex
	closed bool
	roles  []closer
}

type closer interface{ Close() error }

// NewClient checks the configuration. It does not connect; Admin.Ping does.
func NewClient(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, log: cfg.Logger, conf: cfg.base()}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.meta = newCluster(c)
	c.admin = &Admin{c: c, pool: c.meta.pool, coords: newCoordinators(c.meta, sarama.CoordinatorGroup)}
	c.txns = newTransactions(c)
	return c, nil
}

// Admin returns the administration requests.
func (c *Client) Admin() *Admin { return c.admin }

// Transactions returns the transaction requests.
func (c *Client) Transactions() *Transactions { return c.txns }

// Close closes every role made from the client, cuts all connections and waits
// for the goroutines behind them.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	roles := c.roles
	c.roles = nil
	c.mu.Unlock()

	var errs []error
	for i := len(roles) - 1; i >= 0; i-- {
		errs = append(errs, roles[i].Close())
	}
	c.txns.close()
	c.meta.close()
	return errors.Join(errs...)
}

// own registers a role to be closed with the client. A role made after Close is
// closed at once: its requests answer ErrClosed.
func (c *Client) own(r closer) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.roles = append(c.roles, r)
	}
	c.mu.Unlock()
	if closed {
		_ = r.Close()
	}
}

// disown forgets a role that was closed on its own, so that a long-lived client
// does not collect them.
func (c *Client) disown(r closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, o := range c.roles {
		if o == r {
			c.roles = append(c.roles[:i], c.roles[i+1:]...)
			return
		}
	}
}

func (c *Client) addresses() string { return strings.Join(c.cfg.Brokers, ", ") }
