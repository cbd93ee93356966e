package review_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// failing is a testing.TB that remembers how it failed.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Fatal(args ...any)                 { f.TB.Helper(); f.fail(args...) }
func (f *failing) Fatalf(format string, args ...any) { f.fail(append([]any{format}, args...)...) }

func (f *failing) fail(args ...any) {
	for _, a := range args {
		switch a := a.(type) {
		case error:
			f.text += a.Error()
		case string:
			f.text += a
		}
	}
	panic(errFailed)
}

var errFailed = errors.New("the test failed")

// What New says of a topology whose function makes no processor.
func TestProcessorThatIsNil(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).Process("nothing", func() proc { return nil }).As(serde.String(), str).To("out")
	top, err := b.Build()
	require.NoError(t, err)
	f := &failing{TB: t}
	require.PanicsWithValue(t, errFailed, func() { tidegatetest.New(f, top) })
	require.Contains(t, f.text, "nothing")
}
