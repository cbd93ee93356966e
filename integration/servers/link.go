package servers

import (
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Network is the way of one client to servers: a dialer that leads every
// connection through a Link, so that a test can make the network bad for this
// client alone. The zero value is a good network. Set it as sarama's proxy
// dialer:
//
//	config := servers.SaramaConfig()
//	config.Net.Proxy.Dialer = network
type Network struct {
	mu    sync.Mutex
	links map[string]*Link // by the server's address
	state linkState
}

// Dial implements sarama's proxy.Dialer.
func (n *Network) Dial(network, address string) (net.Conn, error) {
	l, err := n.link(address)
	if err != nil {
		return nil, err
	}
	return LoopbackDialer{}.Dial(network, l.Address())
}

func (n *Network) link(address string) (*Link, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.links[address]; l != nil {
		return l, nil
	}
	l, err := NewLink(address)
	if err != nil {
		return nil, err
	}
	l.set(n.state)
	if n.links == nil {
		n.links = map[string]*Link{}
	}
	n.links[address] = l
	return l, nil
}

// Cut ends all connections, and new ones at once.
func (n *Network) Cut() { n.set(linkState{cut: true}) }

// Stall lets nothing through: connections stay, and what is on the way arrives
// after Mend.
func (n *Network) Stall() { n.set(linkState{stalled: true}) }

// Delay makes everything take that much longer, in each direction.
func (n *Network) Delay(d time.Duration) { n.set(linkState{delay: d}) }

// Mend makes the network good again.
func (n *Network) Mend() { n.set(linkState{}) }

func (n *Network) set(s linkState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state = s
	for _, l := range n.links {
		l.set(s)
	}
}

// Close ends all links.
func (n *Network) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		l.Close()
	}
	n.links = nil
}

// linkState is how a link behaves; the zero value is good.
type linkState struct {
	cut, stalled bool
	delay        time.Duration
}

// Link is a port of this machine that leads to another one, over which a network
// between the two can be made bad.
type Link struct {
	listener net.Listener
	target   string
	pumps    sync.WaitGroup

	mu     sync.Mutex
	state  linkState
	change chan struct{} // closed at the next change of state
	conns  []net.Conn
	closed bool
}

// NewLink opens a port that leads to target, on this machine too.
func NewLink(target string) (*Link, error) {
	if err := CheckLoopback(target); err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // it lives until Close
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, target: target, change: make(chan struct{})}
	l.pumps.Go(l.accept)
	return l, nil
}

// Address is where clients dial.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Close ends the link and its connections.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	_ = l.listener.Close()
	l.set(linkState{cut: true})
	l.pumps.Wait()
}

func (l *Link) set(s linkState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	close(l.change)
	l.change = make(chan struct{})
	if s.cut {
		for _, c := range l.conns {
			_ = c.Close()
		}
		l.conns = nil
	}
}

func (l *Link) now() (linkState, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.change
}

func (l *Link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		if s, _ := l.now(); s.cut {
			_ = near.Close()
			continue
		}
		far, err := LoopbackDialer{}.Dial("tcp", l.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		if !l.keep(near, far) {
			continue
		}
		l.pumps.Go(func() {
			var both sync.WaitGroup
			both.Go(func() { l.pump(near, far) })
			both.Go(func() { l.pump(far, near) })
			both.Wait()
			l.drop(near, far)
		})
	}
}

// keep notes a pair of connections, unless the link was cut meanwhile.
func (l *Link) keep(pair ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.cut || l.closed {
		for _, c := range pair {
			_ = c.Close()
		}
		return false
	}
	l.conns = append(l.conns, pair...)
	return true
}

// parcel is what one read brought.
type parcel struct {
	data []byte
	sent time.Time
}

// pump carries bytes one way, in order. What has been read when the link stalls
// is delivered when it goes on.
func (l *Link) pump(from, to net.Conn) {
	way := make(chan parcel, 256)
	l.pumps.Go(func() {
		defer close(way)
		for {
			buf := make([]byte, 32<<10)
			n, err := from.Read(buf)
			if n > 0 {
				way <- parcel{buf[:n], time.Now()}
			}
			if err != nil {
				return
			}
		}
	})
	ok := true
	for p := range way {
		if ok = ok && l.wait(p.sent); ok {
			_, err := to.Write(p.data)
			ok = err == nil
		}
		if !ok {
			_, _ = from.Close(), to.Close() // ends the reader and the other way
		}
	}
	if tcp, is := to.(*net.TCPConn); is && ok {
		_ = tcp.CloseWrite()
	}
}

// drop closes and forgets connections that ended.
func (l *Link) drop(pair ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range pair {
		_ = c.Close()
	}
	l.conns = slices.DeleteFunc(l.conns, func(o net.Conn) bool { return slices.Contains(pair, o) })
}

// wait returns when a parcel may be delivered; false says never.
func (l *Link) wait(sent time.Time) bool {
	for {
		s, change := l.now()
		rest := s.delay - time.Since(sent)
		switch {
		case s.cut:
			return false
		case s.stalled:
			<-change
		case rest > 0:
			select {
			case <-change:
			case <-time.After(rest):
			}
		default:
			return true
		}
	}
}
