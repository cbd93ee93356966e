package tidegate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

func globalJoins(t *testing.T, keys serde.Serde[tidegate.Opt[string]]) *tidegate.Topology {
	t.Helper()
	b := tidegate.NewBuilder()
	g := b.GlobalTable("planes", "planes-store", keys, serde.String())
	s := b.Stream("flights", serde.String(), serde.String())
	tail := func(_, v string) tidegate.Opt[string] {
		if v == "-" {
			return tidegate.None[string]()
		}
		return tidegate.Some(v)
	}
	s.JoinGlobal(g, tail, func(v, p string) string { return v + " is a " + p }, serde.String()).To("inner")
	s.LeftJoinGlobal(g, tail, func(v string, p tidegate.Opt[string]) string { return v + " is a " + p.Or("?") }, serde.String()).To("left")
	top, err := b.Build()
	require.NoError(t, err)
	require.Contains(t, top.Describe(), "Global tables\n  planes-store: topic planes")
	return top
}

func keyed(out *tidegatetest.Output[string, string]) (got []string) {
	for _, r := range out.ReadAll() {
		k := r.Key
		if r.NullKey {
			k = "null"
		}
		got = append(got, fmt.Sprintf("%s=%s@%d", k, r.Value, r.Timestamp))
	}
	return got
}

func TestGlobalTableJoins(t *testing.T) {
	for _, restart := range []bool{false, true} {
		d := tidegatetest.New(t, globalJoins(t, serde.Nullable(serde.String())), tidegatetest.WithPartitions(3), tidegatetest.WithTopic("planes", 2))
		planes, flights := d.Input("planes", serde.String(), serde.String()), d.Input("flights", serde.String(), serde.String())
		inner, left := d.Output("inner", serde.String(), serde.String()), d.Output("left", serde.String(), serde.String())
		planes.Pipe("N1", "Boeing", tidegatetest.At(900))
		planes.Pipe("", "nothing", tidegatetest.NullKey())
		for i, r := range []string{"N1", "N2", "-"} {
			flights.Pipe("k", r, tidegatetest.At(int64(i)), tidegatetest.Partition(int32(i)))
		}
		if restart {
			d.Restart()
		}
		flights.Pipe("", "N1", tidegatetest.At(5), tidegatetest.NullKey())
		flights.Pipe("k", "", tidegatetest.At(6), tidegatetest.Tombstone())
		planes.Pipe("N1", "Airbus")
		flights.Pipe("k", "N1", tidegatetest.At(7))
		planes.Pipe("N1", "", tidegatetest.Tombstone())
		flights.Pipe("k", "N1", tidegatetest.At(8))
		require.ElementsMatch(t, []string{"k=N1 is a Boeing@0", "null=N1 is a Boeing@5", "k=N1 is a Airbus@7"}, keyed(inner))
		require.ElementsMatch(t, []string{
			"k=N1 is a Boeing@0", "k=N2 is a ?@1", "k=- is a ?@2", "null=N1 is a Boeing@5", "k=N1 is a Airbus@7", "k=N1 is a ?@8",
		}, keyed(left))
		require.EqualValues(t, 4, d.NullDropped(), "a null row key, a null from key, and a tombstone at both joins")
	}
}

type planeReader struct {
	planes *tidegate.GlobalTable[string, string]
	rows   *tidegate.GlobalRows[string, string]
	ctx    *tidegate.ProcessorContext[string, string]
}

func (p *planeReader) Init(ctx *tidegate.ProcessorContext[string, string]) (err error) {
	p.ctx = ctx
	p.rows, err = ctx.Global(p.planes)
	return err
}

func (p *planeReader) Process(k string, v tidegate.Opt[string]) error {
	row, ok, err := p.rows.Get(v.Or(""))
	if err != nil {
		return err
	}
	return p.ctx.Forward(k, fmt.Sprintf("%s %v %d", row, ok, p.rows.Len()))
}

func TestProcessorReadsGlobalTable(t *testing.T) {
	b := tidegate.NewBuilder()
	g := b.GlobalTable("planes", "planes", serde.String(), serde.String())
	b.Stream("in", serde.String(), serde.String()).
		Process("p", func() tidegate.Processor[string, string, string, string] { return &planeReader{planes: g} }).
		As(serde.String(), serde.String()).To("out")
	top, err := b.Build()
	require.NoError(t, err)
	d := tidegatetest.New(t, top)
	d.Input("planes", serde.String(), serde.String()).Pipe("N1", "Boeing")
	in := d.Input("in", serde.String(), serde.String())
	in.Pipe("k", "N1")
	in.Pipe("k", "N2")
	require.Equal(t, []string{"k=Boeing true 1@0", "k= false 1@0"}, keyed(d.Output("out", serde.String(), serde.String())))
}

// A topology may fill its own global table.
func TestGlobalTableOfAnOwnSink(t *testing.T) {
	b := tidegate.NewBuilder()
	g := b.GlobalTable("latest", "latest", serde.String(), serde.String())
	s := b.Stream("in", serde.String(), serde.String())
	s.LeftJoinGlobal(g, func(k, _ string) string { return k }, func(v string, old tidegate.Opt[string]) string { return old.Or("nothing") + ">" + v }, serde.String()).To("out")
	s.To("latest")
	top, err := b.Build()
	require.NoError(t, err)
	d := tidegatetest.New(t, top)
	in := d.Input("in", serde.String(), serde.String())
	in.Pipe("k", "a")
	in.Pipe("k", "b")
	require.Equal(t, []string{"k=nothing>a@0", "k=a>b@0"}, keyed(d.Output("out", serde.String(), serde.String())))
}

func TestGlobalTableMistakes(t *testing.T) {
	b := tidegate.NewBuilder()
	g := b.GlobalTable[string, string]("t", "n", nil, serde.String())
	b.GlobalTable("no such/topic", "n", serde.String(), serde.String())
	b.Table("other", "n", serde.String(), serde.String())
	s := b.Stream("in", serde.String(), serde.String())
	s.JoinGlobal(g, nil, func(a, _ string) string { return a }, serde.String()).To("x")
	s.LeftJoinGlobal(tidegate.NewBuilder().GlobalTable("t", "n", serde.String(), serde.String()),
		func(k, _ string) string { return k }, func(a string, _ tidegate.Opt[string]) string { return a }, serde.String()).To("y")
	s.JoinGlobal(g, func(k, _ string) string { return k }, func(a, _ string) int64 { return 0 }).To("z")
	_, err := b.Build()
	for _, want := range []string{
		"the key serde is nil", `topic name "no such/topic"`, `store name "n" is already used at`, "JoinGlobal: a function is nil",
		"LeftJoinGlobal: the global table is nil or comes from another Builder", "JoinGlobal changes the value to int64",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestUnreadableGlobalRecords(t *testing.T) {
	b := tidegate.NewBuilder()
	g := b.GlobalTable("t", "n", serde.String(), serde.Int64())
	b.Stream("in", serde.String(), serde.String()).
		JoinGlobal(g, func(k, _ string) string { return k }, func(_ string, n int64) int64 { return n }, serde.Int64()).To("out")
	top, err := b.Build()
	require.NoError(t, err)
	err = tidegatetest.New(t, top).Input("t", serde.String(), serde.String()).TryPipe("k", "short")
	require.ErrorContains(t, err, "globaltable_test.go:")
	require.ErrorContains(t, err, `step "global-table n" cannot decode record t-0@`)
	d := tidegatetest.New(t, top, tidegatetest.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Skip }))
	d.Input("t", serde.String(), serde.Int64()).Pipe("k", 7)
	d.Input("t", serde.String(), serde.String()).Pipe("k", "short")
	d.Input("in", serde.String(), serde.String()).Pipe("k", "v")
	require.Len(t, d.Skipped(), 1)
	r, ok := d.Output("out", serde.String(), serde.Int64()).Read()
	require.True(t, ok, "the old row stays")
	require.EqualValues(t, 7, r.Value)
}

// Two instances over a broker: each reads all partitions before its first
// record, follows the topic, and reads it anew after a restart; what cannot be
// read is skipped, once per instance.
func TestGlobalTableEndToEnd(t *testing.T) {
	c := newCluster(t, map[string]int32{"flights": 4, "planes": 3, "inner": 1, "left": 1})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	plane := func(kind string) {
		var list []testkit.Message
		for i := range 300 {
			list = append(list, testkit.Message{Partition: int32(i % 3), Key: fmt.Appendf(nil, "N%d", i), Value: []byte(kind)})
		}
		require.NoError(t, c.client.Produce(ctx, "planes", list))
	}
	flight := func(n int) {
		var list []testkit.Message
		for i := range n {
			list = append(list, testkit.Message{Partition: int32(i % 4), Key: []byte("k"), Value: fmt.Appendf(nil, "N%d", i%300), Timestamp: 1})
		}
		require.NoError(t, c.client.Produce(ctx, "flights", list))
	}
	out, err := c.client.Read("left", 1, true)
	require.NoError(t, err)
	defer out.Close()
	read := 0
	await := func(n int, kind string) {
		t.Helper()
		require.NoError(t, out.Await(ctx, func() bool { return out.Count() >= read+n }))
		for _, m := range out.All()[0][read:] {
			require.Contains(t, string(m.Value), "is a "+kind)
		}
		read += n
	}
	top := globalJoins(t, serde.Nullable(serde.String()))
	plane("Boeing")
	flight(1000)
	a, b := c.app(top, "a"), c.app(top, "b")
	stopA, stopB := c.run(a), c.run(b)
	await(1000, "Boeing")

	plane("Airbus")
	require.Eventually(t, func() bool { // the tail is read beside the tasks
		flight(4)
		require.NoError(t, out.Await(ctx, func() bool { return out.Count() >= read+4 }))
		last := out.All()[0][read:]
		read += 4
		for _, m := range last {
			if string(m.Value[len(m.Value)-6:]) != "Airbus" {
				return false
			}
		}
		return true
	}, 30*time.Second, 10*time.Millisecond)
	stopA()
	stopB()
	plane("Cessna")
	flight(600)
	c.run(c.app(top, "a"))
	await(600, "Cessna")
}

func TestGlobalTopicMustExist(t *testing.T) {
	c := newCluster(t, map[string]int32{"flights": 1, "inner": 1, "left": 1})
	err := c.app(globalJoins(t, serde.Nullable(serde.String())), "a").Run(t.Context())
	require.ErrorContains(t, err, `topic "planes", which is read as a global table here, does not exist`)
}

// A record that cannot be read ends the application unless the handler skips
// it, while the table is loaded as well as later.
func TestUnreadableGlobalRecordsEndToEnd(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 1, "t": 1, "out": 1})
	b := tidegate.NewBuilder()
	g := b.GlobalTable("t", "n", serde.String(), serde.Int64())
	b.Stream("in", serde.String(), serde.String()).
		JoinGlobal(g, func(k, _ string) string { return k }, func(_ string, n int64) int64 { return n }, serde.Int64()).To("out")
	top, err := b.Build()
	require.NoError(t, err)
	bad := []testkit.Message{{Key: []byte("k"), Value: []byte("short")}}
	running := c.app(top, "a")
	done := make(chan error, 1)
	go func() { done <- running.Run(t.Context()) }()
	require.Eventually(t, func() bool { return running.State() == tidegate.Running }, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, c.client.Produce(t.Context(), "t", bad))
	const want = `step "global-table n" cannot decode record t-0@0`
	require.ErrorContains(t, <-done, want)
	require.ErrorContains(t, c.app(top, "a").Run(t.Context()), want)

	skipping := c.app(top, "a", tidegate.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Skip }))
	c.run(skipping)
	require.Eventually(t, func() bool { return skipping.State() == tidegate.Running }, 30*time.Second, 10*time.Millisecond)
	require.EqualValues(t, 1, skipping.Health().Skipped)
}
