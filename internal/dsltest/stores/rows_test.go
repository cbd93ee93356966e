package stores_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/tidegatetest"
)

// A processor goes over the rows of tables, also of those that are computed.
func TestTableRowScans(t *testing.T) {
	onEngines(t, func(t *testing.T, opts []tidegatetest.Option) {
		b := tidegate.NewBuilder()
		table := b.Table("t", "rows", str, str)
		view := table.Filter(func(_, v string) bool { return v != "hide" }).
			MapValues(strings.ToUpper, str)
		var rows, views *tidegate.TableRows[string, string]
		b.Stream("in", str, str).Process("p", func() strProc {
			return &inline{
				open: func(c *strCtx) (err error) {
					if rows, err = c.Rows(table); err != nil {
						return err
					}
					views, err = c.Rows(view)
					return err
				},
				f: func(c *strCtx, k, _ string) error {
					var all []string
					take := func(k, v string, at int64) bool { all = append(all, fmt.Sprint(k, v, at)); return len(all) < 20 }
					require.NoError(t, rows.All(take))
					require.NoError(t, views.All(take, tidegate.Descending))
					require.NoError(t, rows.Range("b", "c", take))
					require.NoError(t, views.Prefix("a", str, take))
					return c.Forward(k, strings.Join(all, " "))
				},
			}
		}, table, view).As(str, str).To("out")
		top, err := b.Build()
		require.NoError(t, err)
		d := tidegatetest.New(t, top, opts...)
		in := d.Input("t", str, str)
		for i, kv := range []string{"a x", "ab y", "b hide", "c z", "d w"} {
			k, v, _ := strings.Cut(kv, " ")
			in.Pipe(k, v, tidegatetest.At(int64(i)))
		}
		in.Pipe("d", "", tidegatetest.Tombstone(), tidegatetest.At(9))
		d.Restart()
		d.Input("in", str, str).Pipe("k", "", tidegatetest.At(10))
		require.Equal(t, []string{"ax0 aby1 bhide2 cz3 cZ3 abY1 aX0 bhide2 aX0 abY1"}, d.Output("out", str, str).ReadValues())
	})
}
