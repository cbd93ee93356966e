package kafka

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/net/proxy"
)

// maxPipelined is how many requests may be under way on one connection. Kafka
// remembers the last five batches of a producer id per partition, so more than
// five could not be told apart from duplicates after an error.
const maxPipelined = 5

// dialer dials for one connection and remembers what it dialled, so that the
// connection can be cut while a request waits in it: sarama's Broker holds its
// lock until the response arrives, and Broker.Close waits for the lock.
type dialer struct {
	guard   func(string) error
	inner   proxy.Dialer // the user's proxy, nil for none
	direct  net.Dialer
	ctx     context.Context
	cancel  context.CancelFunc
	mu      sync.Mutex
	aborted bool
	conns   []net.Conn
}

func newDialer(conf *sarama.Config, guard func(string) error) *dialer {
	d := &dialer{guard: guard, direct: net.Dialer{
		Timeout:   conf.Net.DialTimeout,
		KeepAlive: conf.Net.KeepAlive,
		LocalAddr: conf.Net.LocalAddr,
	}}
	if conf.Net.Proxy.Enable {
		d.inner = conf.Net.Proxy.Dialer
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Dial implements proxy.Dialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	if d.guard != nil {
		if err := d.guard(address); err != nil {
			return nil, &refusedError{err}
		}
	}
	conn, err := d.dial(network, address)
	if err != nil {
		return nil, &dialError{err}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.aborted {
		_ = conn.Close()
		return nil, &dialError{net.ErrClosed}
	}
	d.conns = append(d.conns, conn)
	return conn, nil
}

func (d *dialer) dial(network, address string) (net.Conn, error) {
	if d.inner == nil {
		return d.direct.DialContext(d.ctx, network, address)
	}
	if p, ok := d.inner.(proxy.ContextDialer); ok {
		ctx, cancel := context.WithTimeout(d.ctx, d.direct.Timeout)
		defer cancel()
		return p.DialContext(ctx, network, address)
	}
	return d.inner.Dial(network, address)
}

// abort cuts everything dialled and refuses further dials.
func (d *dialer) abort() {
	d.mu.Lock()
	conns := d.conns
	d.conns, d.aborted = nil, true
	d.mu.Unlock()
	d.cancel()
	for _, c := range conns {
		_ = c.Close()
	}
}

// dialError is a failure to connect: the request was certainly not sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// refusedError is a dial that Config.Guard refused.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return "refused to connect: " + e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// conn is one connection to one broker, belonging to one role.
type conn struct {
	*sarama.Broker
	node node
	dial *dialer
}

// node is a broker's id and address. Seeds have id -1.
type node struct {
	id   int32
	addr string
}

func (n node) String() string { return fmt.Sprintf("%d at %s", n.id, n.addr) }

// pool is the connections of one role, one per broker.
type pool struct {
	conf  *sarama.Config
	guard func(string) error

	mu     sync.Mutex
	closed bool
	conns  map[node]*conn
	wg     sync.WaitGroup // closing connections and abandoned requests
}

func (c *Client) newPool(readTimeout time.Duration) *pool {
	conf := *c.conf
	if readTimeout > 0 {
		conf.Net.ReadTimeout = readTimeout
	}
	return &pool{conf: &conf, guard: c.cfg.Guard, conns: map[node]*conn{}}
}

// get returns the role's connection to a broker, dialling in the background if
// there is none.
func (p *pool) get(n node) (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if c := p.conns[n]; c != nil {
		return c, nil
	}
	conf := *p.conf
	d := newDialer(&conf, p.guard)
	conf.Net.Proxy.Enable = true
	conf.Net.Proxy.Dialer = d
	c := &conn{Broker: sarama.NewBroker(n.addr), node: n, dial: d}
	if err := c.Open(&conf); err != nil {
		return nil, fmt.Errorf("open connection to broker %s: %w", n, err)
	}
	p.conns[n] = c
	return c, nil
}

// drop cuts a connection that failed. Requests under way on it fail. A second
// drop of the same connection does nothing.
//
// After a failed read sarama keeps the connection and fails everything on it,
// so every error that is not Kafka's answer ends here.
func (p *pool) drop(c *conn) {
	p.mu.Lock()
	if p.conns[c.node] != c {
		p.mu.Unlock()
		return
	}
	delete(p.conns, c.node)
	p.wg.Add(1)
	p.mu.Unlock()
	p.end(c)
}

// end cuts and closes in the background: Broker.Close waits for callbacks, and
// its caller may be one.
func (p *pool) end(c *conn) {
	c.dial.abort()
	go func() {
		defer p.wg.Done()
		_ = c.Close()
	}()
}

// close cuts all connections and waits for what used them.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	conns := p.conns
	p.conns = nil
	p.wg.Add(len(conns))
	p.mu.Unlock()
	for _, c := range conns {
		p.end(c)
	}
	p.wg.Wait()
}

// request runs one blocking request on the role's connection to n and drops the
// connection unless Kafka answered. When ctx ends first the request is left
// alone (cutting the connection would put the others on it in doubt) and the
// error is in doubt.
func request[T any](ctx context.Context, p *pool, n node, do func(*sarama.Broker) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	var none T
	c, err := p.get(n)
	if err != nil {
		return none, err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return none, ErrClosed
	}
	p.wg.Add(1)
	p.mu.Unlock()
	ch := make(chan answer, 1)
	go func() {
		defer p.wg.Done()
		v, err := do(c.Broker)
		if err != nil && !isAnswer(err) {
			p.drop(c)
			err = &transportError{node: n, err: err}
		}
		ch <- answer{v, err}
	}()
	select {
	case a := <-ch:
		return a.v, a.err
	case <-ctx.Done():
		return none, &transportError{node: n, err: context.Cause(ctx)}
	}
}
