package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResume(t *testing.T) {
	t0 := time.Now().Add(-time.Minute)
	at := func(sec, due float64) arrival {
		return arrival{t0.Add(time.Duration(sec * float64(time.Second))), t0.Add(time.Duration(due * float64(time.Second))).UnixMilli()}
	}
	var steady []arrival
	for s := range 60 {
		steady = append(steady, at(float64(s)-5, float64(s)-5.5))
	}
	r := NewResume(nil)
	r.parts[0] = steady
	r.parts[1] = []arrival{at(-1, -1.5), at(0.5, 0), at(12, 2), at(13, 8), at(14, 13.5), at(15, 14)}
	r.parts[2] = []arrival{at(-1, -1.5), at(11, 1), at(12, 6), at(16, 15.5)}
	s, ok := r.After(t0, 4*time.Second, time.Second)
	require.True(t, ok)
	require.Equal(t, Silence{Partitions: 2, First: 11 * time.Second, Full: 16 * time.Second}, s)

	r.parts[2] = r.parts[2][:3]
	_, ok = r.After(t0, 4*time.Second, time.Second)
	require.False(t, ok, "not as young as asked yet")
	r.parts[2] = r.parts[2][:1]
	s, ok = r.After(t0, 4*time.Second, time.Second)
	require.False(t, ok, "still silent")
	require.NotZero(t, s.Partitions)
}

func TestAwake(t *testing.T) {
	t0 := time.Now().Add(-time.Minute)
	at := func(sec float64) arrival { return arrival{at: t0.Add(time.Duration(sec * float64(time.Second)))} }
	r := NewResume(nil)
	r.parts[0] = []arrival{at(-2), at(-1), at(3), at(4)}
	r.parts[1] = []arrival{at(-2)}
	first, _, ok := r.Awake(t0, 2)
	require.False(t, ok)
	require.Equal(t, 3*time.Second, first)
	r.parts[1] = append(r.parts[1], at(5), at(6))
	first, all, ok := r.Awake(t0, 2)
	require.True(t, ok)
	require.Equal(t, 3*time.Second, first)
	require.Equal(t, 5*time.Second, all)
	r.parts = map[int32][]arrival{0: {at(1)}, 2: {at(2)}}
	_, all, ok = r.Awake(t0, 2)
	require.True(t, ok)
	require.Equal(t, 2*time.Second, all)
}
