package tidegate_test

import (
	"testing"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/runtime"
)

// The default must be there before the options, since 0 is a user's choice.
func TestAbortsAreToleratedByDefault(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).To("out")
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	got := -1
	read := func(c *runtime.Config) { got = c.ToleratedAborts }
	_, _ = tidegate.New(topo, read)
	if got != 2 {
		t.Errorf("tolerates %d aborts by default, want 2", got)
	}
	_, _ = tidegate.New(topo, tidegate.WithToleratedAborts(0), read)
	if got != 0 {
		t.Errorf("tolerates %d aborts, want 0 as chosen", got)
	}
}
