package tidegate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

var totals = tidegate.KeyValueStore("totals", serde.String(), serde.Int64())

// totaler adds values up by key and sends all totals when a minute begins.
type totaler struct {
	ctx    *tidegate.ProcessorContext[string, int64]
	totals *tidegate.KV[string, int64]
}

func (p *totaler) Init(ctx *tidegate.ProcessorContext[string, int64]) (err error) {
	p.ctx = ctx
	if p.totals, err = ctx.Store(totals); err != nil {
		return err
	}
	_, err = ctx.Schedule(time.Minute, tidegate.StreamTime, p.send)
	return err
}

func (p *totaler) Process(k string, v tidegate.Opt[int64]) error {
	total, _, err := p.totals.Get(k)
	if err != nil {
		return err
	}
	return p.totals.Put(k, total+v.Or(0))
}

func (p *totaler) send(int64) (err error) {
	scan := p.totals.All(func(k string, total int64) bool {
		err = p.ctx.Forward(k, total)
		return err == nil
	})
	if err != nil {
		return err
	}
	return scan
}

// A processor with a store and a timer.
func ExampleStream_Process() {
	b := tidegate.NewBuilder()
	b.Stream("amounts", serde.String(), serde.Int64()).
		Process("totals", func() tidegate.Processor[string, int64, string, int64] { return &totaler{} }, totals).
		As(serde.String(), serde.Int64()).
		To("totals")
	top, err := b.Build()
	if err != nil {
		panic(err)
	}

	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		in := d.Input("amounts", serde.String(), serde.Int64())
		in.Pipe("ann", 2, tidegatetest.At(1_000)) // the first minute begins
		in.Pipe("bob", 5, tidegatetest.At(2_000))
		d.Restart()
		in.Pipe("ann", 3, tidegatetest.At(3_000))
		d.AdvanceStreamTime(60_000)
		for _, r := range d.Output("totals", serde.String(), serde.Int64()).ReadAll() {
			fmt.Println(r.Key, r.Value)
		}
	})
	// Output:
	// ann 2
	// ann 5
	// bob 5
}
