// Package review_test tests what only shows where steps of the DSL meet.
package review_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

const ms = time.Millisecond

var str = serde.String()

type table = tidegate.Table[string, string]

// start builds and starts a topology.
func start(t *testing.T, b *tidegate.Builder, opts ...tidegatetest.Option) *tidegatetest.Driver {
	t.Helper()
	top, err := b.Build()
	require.NoError(t, err)
	return tidegatetest.New(t, top, opts...)
}

// What is computed from a versioned table row by row looks back in time as the
// table does, and waits where the table waits.
func TestViewsOfVersionedTables(t *testing.T) {
	for name, test := range map[string]struct {
		view func(*table) *table
		want string
	}{
		"Filter":    {func(t *table) *table { return t.Filter(func(_, v string) bool { return v != "b" }) }, "a"},
		"FilterNot": {func(t *table) *table { return t.FilterNot(func(_, v string) bool { return v == "b" }) }, "a"},
		"MapValues": {func(t *table) *table { return t.MapValues(func(v string) string { return v + v }, str) }, "aa"},
		"MapValuesWithKey": {
			func(t *table) *table { return t.MapValuesWithKey(func(k, v string) string { return k + v }, str) }, "ka",
		},
	} {
		for _, waits := range []string{"no", "before", "after"} {
			t.Run(fmt.Sprintf("%s/waits=%s", name, waits), func(t *testing.T) {
				b := tidegate.NewBuilder()
				rows := b.VersionedTable("rows", "rows", time.Minute, str, str)
				if waits == "before" {
					rows = rows.JoinGrace(10 * ms)
				}
				seen := test.view(rows)
				if waits == "after" {
					seen = seen.JoinGrace(10 * ms)
				}
				b.Stream("in", str, str).LeftJoinTable("j", seen, func(v string, row tidegate.Opt[string]) string {
					return v + "-" + row.Or("none")
				}, str).To("out")
				d := start(t, b)
				in, table, out := d.Input("in", str, str), d.Input("rows", str, str), d.Output("out", str, str)
				table.Pipe("k", "a", tidegatetest.At(100))
				table.Pipe("k", "b", tidegatetest.At(200))
				in.Pipe("k", "x", tidegatetest.At(195))
				d.Restart()
				if waits != "no" {
					require.Zero(t, out.Len(), "stream time is 200, the record waits until 205")
				}
				d.AdvanceStreamTime(205)
				require.Equal(t, []string{"x-" + test.want}, out.ReadValues())
			})
		}
	}
}
