package main

import (
	"flag"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func parsed(t *testing.T, args ...string) (s settings, err error) {
	t.Helper()
	f := flag.NewFlagSet("compare", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	s.define(f)
	require.NoError(t, f.Parse(args))
	return s, s.check()
}

func TestListsAreRefusedWithWhatToDo(t *testing.T) {
	for _, c := range []struct{ flag, value, want string }{
		{"-recovery", "1000000,many", `-recovery: "many" is not a number of keys, e.g. 1000000: separate several by commas, and give -recovery= for none`},
		{"-recovery", "-5", `"-5" is not a number of keys`},
		{"-restore", "1e6", `-restore: "1e6" is not`},
		{"-intervals", "25ms,100", `-intervals: "100" is not a time of at least 1ms`},
		{"-skews", "flat", `-skews: "flat" is not a number above 0`},
		{"-checkpoint-change", "2", "give a share above 0 and up to 1"},
		{"-systems", "barrier,kafka-stream", `there is no "kafka-stream": choose among floor, barrier`},
		{"-workloads", "count,q9", `-workloads: there is no "q9": choose among bigstate, count`},
		{"-latency", "p5", `-latency: there is no "p5"`},
		{"-rounds", "0", "-rounds 0: give at least 1"},
		{"-systems", "", "-systems: give at least one"},
		{"-systems", "floor,barrier,floor", `-systems: "floor" is there twice`},
		{"-systems", "floor", "none of -systems floor runs q8"},
		{"-threads", "0", "-threads 0: give at least 1"},
		{"-warmup", "-1s", "-warmup -1s: give at least 0s"},
		{"-interval", "0s", "-interval 0s: give at least 1ms"},
	} {
		_, err := parsed(t, c.flag, c.value)
		require.ErrorContains(t, err, c.want)
	}
	s, err := parsed(t, "-recovery", "100000,1000000,", "-latency=", "-workloads=")
	require.NoError(t, err)
	require.Equal(t, []int64{100_000, 1_000_000}, s.recoveryKeys)
}

func TestARunWithoutMeasurementsIsRefused(t *testing.T) {
	_, err := parsed(t, "-workloads=", "-latency=", "-recovery=")
	require.ErrorContains(t, err, "there is nothing to measure: give one of -workloads")
}
