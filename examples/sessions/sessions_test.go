package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

var morning = time.Date(2024, time.May, 6, 9, 0, 0, 0, time.UTC)

// minute is the event time of a view.
func minute(n int) tidegatetest.PipeOption {
	return tidegatetest.AtTime(morning.Add(time.Duration(n) * time.Minute))
}

func TestAVisitEndsAfterAPause(t *testing.T) {
	topology, err := Topology()
	require.NoError(t, err)
	driver := tidegatetest.New(t, topology)
	views := driver.Input("views", serde.String(), serde.String())
	visits := driver.Output("visits", serde.String(), serde.JSON[Visit]())

	views.Pipe("ann", "/home", minute(0))
	views.Pipe("ann", "/cart", minute(20))
	driver.Restart() // the visit that has begun is kept
	views.Pipe("ann", "/pay", minute(40))
	require.Zero(t, visits.Len(), "the visit may go on")

	// 30 minutes of pause and a minute of grace after the last view.
	driver.AdvanceStreamTime(morning.Add(72 * time.Minute).UnixMilli())
	require.Equal(t, []tidegatetest.KeyValue[string, Visit]{
		tidegatetest.KV("ann", Visit{
			Begin: morning, End: morning.Add(40 * time.Minute),
			Pages: []string{"/home", "/cart", "/pay"},
		}),
	}, visits.ReadKeyValues())
}

func TestALateViewMakesOneVisitOfTwo(t *testing.T) {
	topology, err := Topology()
	require.NoError(t, err)
	driver := tidegatetest.New(t, topology)
	views := driver.Input("views", serde.String(), serde.String())
	visits := driver.Output("visits", serde.String(), serde.JSON[Visit]())

	views.Pipe("ann", "/home", minute(0))
	views.Pipe("ann", "/pay", minute(31)) // one minute too many: another visit
	views.Pipe("ann", "/cart", minute(15))

	driver.AdvanceStreamTime(morning.Add(2 * time.Hour).UnixMilli())
	got := visits.ReadAll()
	require.Len(t, got, 1)
	require.ElementsMatch(t, []string{"/home", "/pay", "/cart"}, got[0].Value.Pages)
	require.Equal(t, morning.Add(31*time.Minute), got[0].Value.End)
}

func TestAViewAfterTheEndOfItsVisitIsDropped(t *testing.T) {
	topology, err := Topology()
	require.NoError(t, err)
	driver := tidegatetest.New(t, topology)
	views := driver.Input("views", serde.String(), serde.String())

	views.Pipe("ann", "/home", minute(0))
	views.Pipe("bob", "/home", minute(120))
	views.Pipe("ann", "/cart", minute(10))
	require.Equal(t, int64(1), driver.Late())

	got := driver.Output("visits", serde.String(), serde.JSON[Visit]()).ReadAll()
	require.Len(t, got, 1)
	require.Equal(t, []string{"/home"}, got[0].Value.Pages)
}
