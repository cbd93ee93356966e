package workload_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/compare/check"
	"github.com/tidegate/tidegate/compare/nexmark"
	"github.com/tidegate/tidegate/compare/workload"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// event is an input record.
type event struct {
	topic string
	key   int64
	value []byte
	at    int64
}

var gen = nexmark.Generator{Start: 1_700_000_000_123, PerSecond: 200, Seed: 5}

// bids are the first bids, and one far behind them, which closes all windows.
func bids(n int64) (out []event) {
	for i := range n {
		k, v, at := gen.AppendBid(nil, nil, i)
		out = append(out, event{"bids", int64(binary.BigEndian.Uint64(k)), v, at})
	}
	return out
}

// people are auctions and their sellers in the order of their times.
func people(auctions int64) (out []event) {
	for i := range auctions {
		if i%3 == 0 {
			k, v, at := gen.AppendPerson(nil, nil, i/3)
			out = append(out, event{"persons", int64(binary.BigEndian.Uint64(k)), v, at})
		}
		k, v, at := gen.AppendAuction(nil, nil, i)
		out = append(out, event{"auctions", int64(binary.BigEndian.Uint64(k)), v, at})
	}
	return out
}

func numbers(n int64) (out []event) {
	for i := range n {
		out = append(out, event{"input", i * 7919, make([]byte, 100), gen.Start + i})
	}
	return out
}

// TestWorkloadsAgainstTheirChecks runs every workload on three partitions, with a
// restart in the middle, and lets the comparison's own check judge the output.
func TestWorkloadsAgainstTheirChecks(t *testing.T) {
	const n, slack = 12_000, 2 * check.WindowMs // a minute and more
	checks := map[string]struct {
		in    []event
		check func(t *testing.T) check.Check
	}{
		"passthrough": {bids(n), func(*testing.T) check.Check { return check.NewPrices(gen, n, 3, nil) }},
		"q5":          {bids(n), func(*testing.T) check.Check { return check.NewHottest(gen, n, slack, nil) }},
		"q7":          {bids(n), func(*testing.T) check.Check { return check.NewMaxima(gen, n, slack, nil) }},
		"q11": {bids(n), func(t *testing.T) check.Check {
			c, err := check.NewSessions(check.SpansOf(gen, n), gen.Time(nexmark.BidEvent(n-1))-slack, nil)
			require.NoError(t, err)
			return c
		}},
		"q3":       {people(n / 10), func(*testing.T) check.Check { return check.NewLocals(gen, n/10, 1, nil) }},
		"q8":       {people(n / 10), func(*testing.T) check.Check { return check.NewSellers(gen, n/10, 1, nil) }},
		"count":    {numbers(n), func(*testing.T) check.Check { return check.NewCounts(100, n, nil) }},
		"bigstate": {numbers(n), func(*testing.T) check.Check { return check.NewCounts(100, n, nil) }},
	}
	for _, name := range workload.Names() {
		t.Run(name, func(t *testing.T) {
			c, ok := checks[name]
			require.True(t, ok, "workload %q has no check here", name)
			judge := c.check(t)
			run(t, name, c.in, judge)
			require.NoError(t, judge.Verdict())
			require.True(t, judge.Complete(), "progress %d of %d", judge.Progress(), len(c.in))
			require.Greater(t, judge.Progress(), int64(len(c.in)/3))
		})
	}
}

func run(t *testing.T, name string, in []event, judge check.Check) {
	top, err := workload.Build(name, workload.Options{Keys: 100, ValueBytes: 32, Topics: workload.Topics{
		Input: "input", Persons: "persons", Auctions: "auctions", Bids: "bids", Output: "output",
	}})
	require.NoError(t, err)
	d := tidegatetest.New(t, top, tidegatetest.WithPartitions(3))
	inputs := map[string]*tidegatetest.Input[int64, []byte]{}
	for _, topic := range workload.Reads(name) {
		inputs[topic] = d.Input(topic, serde.Int64(), serde.Bytes())
	}
	out := d.Output("output", serde.Bytes(), serde.Bytes())
	read := func() {
		for _, r := range out.ReadAll() {
			judge.Record(r.Partition, r.Timestamp, r.Key, r.Value)
		}
	}
	for i, e := range in {
		require.NotNil(t, inputs[e.topic], "%s does not read %s", name, e.topic)
		inputs[e.topic].Pipe(e.key, e.value, tidegatetest.At(e.at))
		if i == len(in)/2 {
			read()
			d.Restart()
		}
	}
	read()
	require.Zero(t, d.Late())
}
