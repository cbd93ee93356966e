// Package stores_test tests the stores of processors through the test driver.
package stores_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/memory"
	"github.com/tidegate/tidegate/state/pebblestore"
	"github.com/tidegate/tidegate/tidegatetest"
)

const ms = time.Millisecond

var str = serde.String()

type (
	strCtx  = tidegate.ProcessorContext[string, string]
	strProc = tidegate.Processor[string, string, string, string]
)

// inline is a processor of functions.
type inline struct {
	c    *strCtx
	open func(c *strCtx) error
	f    func(c *strCtx, k, v string) error
}

func (p *inline) Init(c *strCtx) error { p.c = c; return p.open(c) }

func (p *inline) Process(k string, v tidegate.Opt[string]) error { return p.f(p.c, k, v.Or("")) }

// run is a topology of one processor between the topics "in" and "out".
type run struct {
	*testing.T
	d *tidegatetest.Driver
	i *tidegatetest.Input[string, string]
	o *tidegatetest.Output[string, string]
}

func calls(t *testing.T, f func(c *strCtx, k, v string) error, open func(c *strCtx) error, parts ...tidegate.ProcessorPart) *run {
	t.Helper()
	return callsWith(t, nil, f, open, parts...)
}

func callsWith(
	t *testing.T, opts []tidegatetest.Option, f func(c *strCtx, k, v string) error, open func(c *strCtx) error, parts ...tidegate.ProcessorPart,
) *run {
	t.Helper()
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).Process("p", func() strProc { return &inline{open: open, f: f} }, parts...).As(str, str).To("out")
	top, err := b.Build()
	require.NoError(t, err)
	d := tidegatetest.New(t, top, opts...)
	return &run{t, d, d.Input("in", str, str), d.Output("out", str, str)}
}

func (r *run) in(k, v string, at int64) {
	r.Helper()
	r.i.Pipe(k, v, tidegatetest.At(at))
}

// out renders what came out as "key=value@timestamp", joined by spaces.
func (r *run) out() string {
	var parts []string
	for _, rec := range r.o.ReadAll() {
		parts = append(parts, fmt.Sprintf("%s=%s@%d", rec.Key, rec.Value, rec.Timestamp))
	}
	return strings.Join(parts, " ")
}

// onEngines runs a test with both engines, with a cache and without.
func onEngines(t *testing.T, f func(t *testing.T, opts []tidegatetest.Option)) {
	t.Helper()
	shared := pebblestore.NewShared(pebblestore.SharedOptions{})
	t.Cleanup(func() { require.NoError(t, shared.Close()) })
	engines := map[string]state.OpenFunc{
		"memory": func(dir string) (state.Engine, error) { return memory.Open(dir) },
		"pebble": shared.OpenFunc(pebblestore.Options{}),
	}
	for name, open := range engines {
		for _, cache := range []int64{0, 1 << 20} {
			t.Run(fmt.Sprintf("%s/cache=%d", name, cache), func(t *testing.T) {
				f(t, []tidegatetest.Option{tidegatetest.WithEngine(open), tidegatetest.WithCacheBytes(cache)})
			})
		}
	}
}
