package review_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/state/pebblestore"
	"github.com/tidegate/tidegate/tidegatetest"
)

var spans = tidegate.SessionStore("spans", time.Second, str, str)

// spanner does what values say: "put 1 5 x", "del 1 5", "get 1 5", "find 1 5".
type spanner struct {
	c *tidegate.ProcessorContext[string, string]
	s *tidegate.SessionKV[string, string]
}

func (p *spanner) Init(c *tidegate.ProcessorContext[string, string]) (err error) {
	p.c = c
	p.s, err = c.SessionStore(spans)
	return err
}

func (p *spanner) Process(k string, v tidegate.Opt[string]) error {
	var do, value string
	var from, to int64
	_, _ = fmt.Sscan(v.Or(""), &do, &from, &to, &value)
	switch do {
	case "put":
		return p.s.Put(k, from, to, value)
	case "del":
		return p.s.Delete(k, from, to)
	case "get":
		v, ok, err := p.s.Get(k, from, to)
		if err != nil {
			return err
		}
		return p.c.Forward(k, fmt.Sprint(v, ok))
	}
	var found []string
	if err := p.s.Find(k, from, to, func(start, end int64, v string) bool {
		found = append(found, fmt.Sprintf("%d-%d%s", start, end, v))
		return v != "last"
	}); err != nil {
		return err
	}
	return p.c.Forward(k, strings.Join(found, " "))
}

func TestSessionStore(t *testing.T) {
	shared := pebblestore.NewShared(pebblestore.SharedOptions{})
	t.Cleanup(func() { require.NoError(t, shared.Close()) })
	for _, opts := range [][]tidegatetest.Option{nil, {tidegatetest.WithEngine(shared.OpenFunc(pebblestore.Options{}))}} {
		for _, restart := range []bool{false, true} {
			b := tidegate.NewBuilder()
			b.Stream("in", str, str).Process("p", func() proc { return &spanner{} }, spans).As(str, str).To("out")
			d := start(t, b, opts...)
			in, out := d.Input("in", str, str), d.Output("out", str, str)
			do := func(at int64, k, v string) []string {
				in.Pipe(k, v, tidegatetest.At(at))
				if restart {
					d.Restart()
				}
				return out.ReadValues()
			}
			do(0, "a", "put 0 10 one")
			do(0, "a", "put 20 20 two")
			do(0, "a", "put 30 90 last")
			do(0, "a", "put 95 99 behind")
			do(0, "b", "put 5 6 other")
			require.Equal(t, []string{"onetrue"}, do(1, "a", "get 0 10"))
			require.Equal(t, []string{"false"}, do(1, "a", "get 0 11"))
			require.Equal(t, []string{"0-10one 20-20two"}, do(1, "a", "find 10 29"))
			require.Equal(t, []string{"0-10one 20-20two 30-90last"}, do(1, "a", "find -9223372036854775808 9223372036854775807"))
			do(2, "a", "del 20 20")
			require.Equal(t, []string{"30-90last"}, do(2, "a", "find 11 94"))
			// What ended more than a second ago is not there, and cannot come back.
			require.Equal(t, []string{"0-10one"}, do(1010, "a", "find 0 10"))
			require.Equal(t, []string{""}, do(1011, "a", "find 0 10"))
			require.Equal(t, []string{"false"}, do(1011, "a", "get 0 10"))
			do(1011, "a", "put 0 10 again")
			require.Equal(t, int64(1), d.Late())
			d.AdvanceStreamTime(10_000)
			require.Empty(t, d.SessionStore("spans", str, str).All(), "dropped")
			require.ErrorContains(t, in.TryPipe("a", "put 5 4 x", tidegatetest.At(10_000)), "must not end before it begins")
		}
	}
}
