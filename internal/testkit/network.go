package testkit

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/IBM/sarama"
)

// Network is the way of one instance to its brokers. Cut, it is to them as if the
// instance had been killed: nothing of it arrives any more, not even that it
// leaves.
type Network struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// Config returns client settings that go through the network, for
// tidegate.WithSarama.
func (n *Network) Config() *sarama.Config {
	c := sarama.NewConfig()
	c.Net.Proxy.Enable, c.Net.Proxy.Dialer = true, n
	return c
}

var errCut = errors.New("the network is cut")

// Dial implements proxy.Dialer.
func (n *Network) Dial(network, address string) (net.Conn, error) {
	n.mu.Lock()
	cut := n.cut
	n.mu.Unlock()
	if cut {
		return nil, errCut
	}
	conn, err := (&net.Dialer{}).DialContext(context.Background(), network, address) // the interface has no context
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut {
		_ = conn.Close()
		return nil, errCut
	}
	n.conns = append(n.conns, conn)
	return conn, nil
}

// Cut ends all connections and lets none come about.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = true
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

// Mend lets connections come about again.
func (n *Network) Mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = false
}
