package tidegatetest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/tidegatetest"
)

// A join of tables costs the same however many rows they have: a change looks up
// the other side's row.
func TestTableJoinCostsTheSameWhateverTheTablesHold(t *testing.T) {
	for _, change := range []string{"l", "r"} {
		var before cost
		for _, size := range []int{10, 3000} {
			b := tidegate.NewBuilder()
			l, r := b.Table("l", "lt", str, str), b.Table("r", "rt", str, str)
			l.Join(r, func(l, r string) string { return l + r }, str).ToStream().To("out")
			d, c := countedDriver(t, b)
			for _, topic := range []string{"l", "r"} {
				in := d.Input(topic, str, str)
				for i := range size {
					in.Queue(fmt.Sprint("key", i), "v", tidegatetest.At(int64(i)))
				}
			}
			d.Run()
			d.Output("out", str, str).ReadAll()
			*c = cost{}
			d.Input(change, str, str).Pipe("key3", "x", tidegatetest.At(5000))
			require.Equal(t, 1, d.Output("out", str, str).Len(), change)
			require.LessOrEqual(t, c.gets, 2, "%s with %d rows: %+v", change, size, *c)
			require.Zero(t, c.scans, "%s with %d rows: %+v", change, size, *c)
			if before != (cost{}) {
				require.Equal(t, before, *c, "%s: the same whatever the stores hold", change)
			}
			before = *c
		}
	}
}

// A foreign-key join costs the same however many rows refer to other keys: a
// change of the right row reads its own subscriptions, one of a left row none.
func TestForeignKeyJoinCostsTheSameWhateverTheTablesHold(t *testing.T) {
	for _, change := range []string{"left", "right", "moved"} {
		var before cost
		for _, size := range []int{10, 3000} {
			b := tidegate.NewBuilder()
			l, r := b.Table("l", "lt", str, str), b.Table("r", "rt", str, str)
			l.JoinForeignKey("fk", r, func(_, v string) (string, bool) { return v, true },
				func(l, r string) string { return l + r }, str).ToStream().To("out")
			d, c := countedDriver(t, b)
			left, right := d.Input("l", str, str), d.Input("r", str, str)
			for i := range size { // keys before and behind, and those that begin alike
				right.Queue(fmt.Sprint("r", i), "v", tidegatetest.At(int64(i)))
				left.Queue(fmt.Sprint("other", i), fmt.Sprint("r5", i), tidegatetest.At(int64(i)))
			}
			for i := range 3 {
				left.Queue(fmt.Sprint("match", i), "r5", tidegatetest.At(int64(i)))
			}
			d.Run()
			d.Output("out", str, str).ReadAll()
			*c = cost{}
			results := 1
			switch change {
			case "left":
				left.Pipe("match1", "r5", tidegatetest.At(5000))
			case "moved":
				left.Pipe("match1", "r6", tidegatetest.At(5000))
			case "right":
				right.Pipe("r5", "x", tidegatetest.At(5000))
				results = 3
			}
			require.Equal(t, results, d.Output("out", str, str).Len(), change)
			require.LessOrEqual(t, c.scanned, results, "%s with %d rows: %+v", change, size, *c)
			require.LessOrEqual(t, c.gets, 5*results, "%s with %d rows: %+v", change, size, *c)
			if before != (cost{}) {
				require.Equal(t, before, *c, "%s: the same whatever the stores hold", change)
			}
			before = *c
		}
	}
}
