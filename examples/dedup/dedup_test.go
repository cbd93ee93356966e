package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// minute is the event time of a payment.
func minute(n int) tidegatetest.PipeOption {
	return tidegatetest.At((time.Duration(n) * time.Minute).Milliseconds())
}

func TestDuplicatesAreDropped(t *testing.T) {
	cases := []struct {
		name string
		at   []int // minutes of records with one id
		out  []string
	}{
		{"at once", []int{0, 0}, []string{"0"}},
		{"within the hour", []int{50, 70}, []string{"0"}},
		{"nearly an hour apart", []int{5, 64}, []string{"0"}},
		{"an hour apart", []int{5, 65}, []string{"0", "1"}},
		{"a duplicate does not lengthen the hour", []int{5, 60, 65}, []string{"0", "2"}},
		{"days later", []int{0, 10_000}, []string{"0", "1"}},
		{"out of order", []int{70, 62}, []string{"0"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			topology, err := Topology()
			require.NoError(t, err)
			driver := tidegatetest.New(t, topology)
			payments := driver.Input("payments", serde.String(), serde.String())

			for n, at := range c.at {
				payments.Pipe("p1", string(rune('0'+n)), minute(at))
				driver.Restart() // what was seen is kept
			}
			require.Equal(t, c.out, driver.Output("payments-once", serde.String(), serde.String()).ReadValues())
		})
	}
}

func TestIDsDoNotHideEachOther(t *testing.T) {
	topology, err := Topology()
	require.NoError(t, err)
	driver := tidegatetest.New(t, topology, tidegatetest.WithPartitions(3))
	payments := driver.Input("payments", serde.String(), serde.String())

	for _, id := range []string{"p1", "p2", "p1", "p3", "p2"} {
		payments.Pipe(id, "10 EUR", minute(1))
	}
	once := driver.Output("payments-once", serde.String(), serde.String())
	require.ElementsMatch(t, []tidegatetest.KeyValue[string, string]{
		tidegatetest.KV("p1", "10 EUR"), tidegatetest.KV("p2", "10 EUR"), tidegatetest.KV("p3", "10 EUR"),
	}, once.ReadKeyValues())
}

func TestOldIDsAreForgotten(t *testing.T) {
	topology, err := Topology()
	require.NoError(t, err)
	driver := tidegatetest.New(t, topology)
	payments := driver.Input("payments", serde.String(), serde.String())

	payments.Pipe("p1", "10 EUR", minute(0))
	payments.Pipe("p2", "10 EUR", minute(600))
	require.Len(t, driver.Store("seen", serde.String(), serde.Bool()).All(), 1)
}
