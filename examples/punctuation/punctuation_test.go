package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// minute is the event time of a reading.
func minute(n int) tidegatetest.PipeOption {
	return tidegatetest.At((time.Duration(n) * time.Minute).Milliseconds())
}

func TestASilentSensorIsReportedOnce(t *testing.T) {
	topology, err := Topology()
	require.NoError(t, err)
	driver := tidegatetest.New(t, topology)
	readings := driver.Input("readings", serde.String(), serde.String())
	alerts := driver.Output("alerts", serde.String(), serde.String())

	readings.Pipe("attic", "21.0", minute(1))
	for n := 1; n < 6; n++ {
		readings.Pipe("cellar", "14.5", minute(n))
		driver.Restart() // the timer goes on, and nobody is forgotten
	}
	require.Zero(t, alerts.Len())

	readings.Pipe("cellar", "14.5", minute(6))
	require.Equal(t, []tidegatetest.KeyValue[string, string]{
		tidegatetest.KV("attic", "is silent since 00:01:00"),
	}, alerts.ReadKeyValues())

	readings.Pipe("cellar", "14.5", minute(7))
	require.Zero(t, alerts.Len(), "it was reported before")

	readings.Pipe("attic", "20.5", minute(8))
	require.Equal(t, []tidegatetest.KeyValue[string, string]{
		tidegatetest.KV("attic", "is back"),
	}, alerts.ReadKeyValues())
}

func TestAllSensorsFallSilentWhenTimeJumps(t *testing.T) {
	topology, err := Topology()
	require.NoError(t, err)
	driver := tidegatetest.New(t, topology)
	readings := driver.Input("readings", serde.String(), serde.String())

	readings.Pipe("b", "1", minute(0))
	readings.Pipe("a", "1", minute(0))
	driver.AdvanceStreamTime(time.Hour.Milliseconds())
	require.Equal(t, []tidegatetest.KeyValue[string, string]{
		tidegatetest.KV("a", "is silent since 00:00:00"),
		tidegatetest.KV("b", "is silent since 00:00:00"),
	}, driver.Output("alerts", serde.String(), serde.String()).ReadKeyValues())
}

func TestALateReadingChangesNothing(t *testing.T) {
	topology, err := Topology()
	require.NoError(t, err)
	driver := tidegatetest.New(t, topology)
	readings := driver.Input("readings", serde.String(), serde.String())

	readings.Pipe("attic", "21.0", minute(4))
	readings.Pipe("attic", "20.0", minute(0))
	readings.Pipe("cellar", "14.5", minute(6))
	require.Zero(t, driver.Output("alerts", serde.String(), serde.String()).Len())
}
