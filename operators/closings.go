package operators

import (
	"errors"
	"fmt"
	"math"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// closings are the windows of keys that are still to be sent when they close, by
// their ends. Windows of which the store's order does not tell it need them:
// sessions and sliding windows.
type closings[K any] struct {
	name string
	kv   state.KV
	ks   serde.Serde[K]
	// wait is how far stream time must be behind a window's end.
	wait int64
	// first is not above the end of the first window: math.MaxInt64 when there is
	// none.
	first int64
	out   func(c *Context, k K, start, end int64) error
	buf   []byte
}

var errClosing = errors.New("the key of a window to close is cut short")

// closingStore is the definition of the store of closings.
func closingStore(name string, key topology.Serde, site topology.Site) topology.Store {
	empty := topology.Serde{Fingerprint: "empty", Accepts: func(fp string) bool { return fp == "empty" }}
	return topology.Store{Name: closingName(name), Format: FormatClosing, Key: key, Value: empty, Site: site}
}

func closingName(name string) string { return name + "-closing" }

func openClosings[K any](
	b *Build, name string, ks serde.Serde[K], wait int64, out func(c *Context, k K, start, end int64) error,
) (*closings[K], error) {
	kv, err := b.g.env.Store(closingName(name))
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", closingName(name), err)
	}
	p := &closings[K]{name: closingName(name), kv: kv, ks: ks, wait: wait, out: out}
	if err := p.findFirst(); err != nil {
		return nil, err
	}
	b.g.timers.closeBefore(p)
	return p, nil
}

func (p *closings[K]) key(k K, start, end int64) (err error) {
	p.buf, err = p.ks.Append(appendTime(appendTime(p.buf[:0], end), start), k)
	if err != nil {
		return p.fail("encode a key", err)
	}
	return nil
}

// splitClosing takes the key of a closing apart.
func splitClosing(b []byte) (key []byte, start, end int64, err error) {
	if len(b) < 2*timeSize {
		return nil, 0, 0, errClosing
	}
	return b[2*timeSize:], timeOf(b[timeSize:]), timeOf(b), nil
}

// add lets a window be sent when it closes.
func (p *closings[K]) add(c *Context, k K, start, end int64) error {
	if err := p.key(k, start, end); err != nil {
		return err
	}
	if err := p.kv.Set(p.buf, nil); err != nil {
		return p.fail("put", err)
	}
	if end < p.first {
		p.first = end
		c.g.timers.findDue()
	}
	return nil
}

// remove forgets a window that is no more.
func (p *closings[K]) remove(k K, start, end int64) error {
	if err := p.key(k, start, end); err != nil {
		return err
	}
	if err := p.kv.Delete(p.buf); err != nil {
		return p.fail("delete", err)
	}
	return nil
}

// due is the stream time at which send has something to do.
func (p *closings[K]) due() int64 {
	if p.first == math.MaxInt64 {
		return p.first
	}
	return p.first + p.wait + 1
}

// send sends the windows that stream time closed, by end, start and serialised
// key.
func (p *closings[K]) send(c *Context, streamTime int64) error {
	upTo := clampTime(streamTime) - p.wait
	if p.first >= upTo {
		return nil
	}
	ts, h := c.Timestamp, c.Headers
	defer func() { c.Timestamp, c.Headers = ts, h }()
	if err := p.sendBefore(c, appendTime(nil, upTo)); err != nil {
		return err
	}
	if err := p.findFirst(); err != nil {
		return err
	}
	c.g.timers.findDue()
	return nil
}

func (p *closings[K]) sendBefore(c *Context, upTo []byte) (err error) {
	it := p.kv.Scan(nil, upTo, false)
	defer closeIterator(it, &err)
	sending := false
	defer func() {
		if sending {
			// A step below panicked. If that is skipped, the next call goes on
			// behind this window; if the store fails too, it comes again.
			_ = p.kv.DeleteRange(nil, append(append([]byte{}, it.Key()...), 0))
		}
	}()
	for it.Next() {
		b, start, end, err := splitClosing(it.Key())
		if err != nil {
			return p.fail("decode", err)
		}
		k, err := p.ks.Decode(b)
		if err != nil {
			return p.fail("decode a key", err)
		}
		sending = true
		c.Timestamp, c.Headers = end, nil
		if err := p.out(c, k, start, end); err != nil {
			return err
		}
		sending = false
	}
	if err := it.Err(); err != nil {
		return p.fail("scan", err)
	}
	if err := p.kv.DeleteRange(nil, upTo); err != nil {
		return p.fail("delete", err)
	}
	return nil
}

func (p *closings[K]) findFirst() (err error) {
	p.first = math.MaxInt64
	it := p.kv.Scan(nil, nil, false)
	defer closeIterator(it, &err)
	if it.Next() {
		if _, _, p.first, err = splitClosing(it.Key()); err != nil {
			return p.fail("decode", err)
		}
	}
	if err := it.Err(); err != nil {
		return p.fail("look for the first window", err)
	}
	return nil
}

func (p *closings[K]) fail(what string, err error) error {
	return fmt.Errorf("store %q: %s: %w", p.name, what, err)
}
