package breaker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/tidegatetest"
)

// What fails for a record that waited is skipped alone, not together with the
// record that moved time.
func TestWaitingRowFailsAlone(t *testing.T) {
	joiner := func(a string, b tidegate.Opt[string]) string {
		if a == "bad" {
			panic(a)
		}
		return a + "+" + b.Or("-")
	}
	for name, below := range map[string]func(l, r stream){
		"left join": func(l, r stream) { l.LeftJoinStream("j", r, tidegate.JoinWithin(10*ms), joiner, str).To("out") },
		"grace join": func(l, r stream) {
			l.LeftJoinTable("j", r.ToVersionedTable("v", 60*ms).JoinGrace(10*ms), joiner, str).To("out")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := tidegate.NewBuilder()
			below(b.Stream("l", str, str), b.Stream("r", str, str))
			top, err := b.Build()
			require.NoError(t, err)
			d := tidegatetest.New(t, top, tidegatetest.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Skip }))
			l, out := d.Input("l", str, str), d.Output("out", str, str)
			for i, v := range []string{"a", "bad", "b", "bad", "c"} {
				l.Pipe("k", v, tidegatetest.At(int64(i)))
			}
			l.Pipe("k", "d", tidegatetest.At(100))
			l.Pipe("k", "e", tidegatetest.At(200))
			l.Pipe("k", "f", tidegatetest.At(300))
			require.Equal(t, []string{"a+-", "b+-", "c+-", "d+-", "e+-"}, out.ReadValues())
			require.Len(t, d.Skipped(), 2)
			require.ErrorContains(t, d.Skipped()[0], "a punctuation")
		})
	}
}
