package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// CheckLoopback returns an error unless address (host:port, host or URL) names this
// machine by its loopback interface. It resolves nothing: only "localhost" and literal
// addresses of 127.0.0.0/8 and ::1 pass.
func CheckLoopback(address string) error {
	host := address
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		host = u.Host
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%q is not a loopback address: tests use servers of this machine only", address)
}

// LoopbackDialer refuses to dial anything but loopback. Set it as the proxy dialer of
// sarama (see [SaramaConfig]) or as the DialContext of an HTTP transport: addresses that
// a server advertises are then checked too.
type LoopbackDialer struct{}

// Dial implements sarama's proxy.Dialer.
func (d LoopbackDialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext is Dial with a context.
func (LoopbackDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if err := CheckLoopback(address); err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: 5 * time.Second}
	return dialer.DialContext(ctx, network, address)
}

var handedOut struct {
	sync.Mutex
	ports map[int]bool
}

// FreePort finds a port of 127.0.0.1 that nobody listens on and that was not handed out
// before in this process. It lies below the usual range of outgoing connections, so that
// a server can be stopped and find its port free again.
func FreePort() (int, error) {
	handedOut.Lock()
	defer handedOut.Unlock()
	if handedOut.ports == nil {
		handedOut.ports = make(map[int]bool)
	}
	for range 1000 {
		port := 15000 + rand.IntN(15000)
		if handedOut.ports[port] {
			continue
		}
		var lc net.ListenConfig
		listener, err := lc.Listen(context.Background(), "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		_ = listener.Close()
		handedOut.ports[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 between 15000 and 30000")
}

// poll calls ready until it returns nil or errEnded, or ctx ends; the last error is then
// wrapped.
func poll(ctx context.Context, every time.Duration, ready func(context.Context) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil || errors.Is(err, errEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", ctx.Err(), err)
		case <-ticker.C:
		}
	}
}
