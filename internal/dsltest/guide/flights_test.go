package guide

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

func TestDeparturesPerHour(t *testing.T) {
	topology, err := Topology()
	require.NoError(t, err)
	driver := tidegatetest.New(t, topology)
	airlines := driver.Input("airlines", serde.String(), serde.String())
	flights := driver.Input("flights", serde.String(), serde.JSON[Flight]())
	out := driver.Output("departures-per-hour", serde.Windowed(serde.String(), time.Hour), serde.Int64())

	airlines.Pipe("UA", "United", tidegatetest.At(0))
	flights.Pipe("UA1", Flight{Carrier: "UA"}, tidegatetest.At(1_000))
	flights.Pipe("UA2", Flight{Carrier: "UA", Cancelled: true}, tidegatetest.At(2_000))
	driver.Restart()
	flights.Pipe("UA3", Flight{Carrier: "UA"}, tidegatetest.At(3_000))
	require.Zero(t, out.Len(), "the hour is not over")

	driver.AdvanceStreamTime(2 * time.Hour.Milliseconds())
	r, ok := out.Read()
	require.True(t, ok)
	require.Equal(t, "United", r.Key.Key)
	require.Equal(t, int64(2), r.Value)
	require.Zero(t, out.Len())
}

// The migration guide shows the code that is compiled and tested here.
func TestMigrationGuideShowsThisCode(t *testing.T) {
	page, err := os.ReadFile("../../../docs/guide/migrating-from-kafka-streams.md")
	require.NoError(t, err)
	blocks := goBlocks(string(page))
	for _, name := range []string{"flights.go", "flights_test.go"} {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		found := false
		for _, block := range blocks {
			found = found || strings.Contains(string(source), block)
		}
		require.True(t, found, "no block of the page is in %s", name)
	}
}

// goBlocks are the Go blocks of a page.
func goBlocks(page string) (blocks []string) {
	for {
		_, rest, ok := strings.Cut(page, "```go\n")
		if !ok {
			return blocks
		}
		block, after, _ := strings.Cut(rest, "```\n")
		blocks, page = append(blocks, block), after
	}
}
