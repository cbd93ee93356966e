package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/record"
)

func TestWindowString(t *testing.T) {
	w := record.Windowed[string]{Key: "k", Window: record.Window{Start: -5, End: 10}}
	require.Equal(t, "[k@-5/10]", w.String())
	require.Equal(t, "-5/10", w.Window.String())
}
