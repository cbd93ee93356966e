package load

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/integration/measure"
)

func TestPermuteIsAPermutation(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 10, 1000, 4096, 4097} {
		seen := make([]bool, n)
		moved := 0
		for x := range n {
			y := permute(x, n, 7)
			require.Less(t, y, n)
			require.False(t, seen[y], "%d of %d came twice", y, n)
			seen[y] = true
			if x != y {
				moved++
			}
		}
		if n > 100 {
			require.Greater(t, moved, int(n)*9/10)
		}
	}
}

func TestUniformRepeatsNoKeyWithinAPass(t *testing.T) {
	const keys = 10_000
	src := Uniform("t", 1000, 500, 3*keys, keys, 1)
	count := map[string]int{}
	low := 0
	for i := range int64(3 * keys) {
		key, _, at := src.At(i)
		count[string(key)]++
		require.Equal(t, 1000+i*2, at)
		if i < keys/10 && binary.BigEndian.Uint64(key) < keys/2 {
			low++
		}
	}
	require.Len(t, count, keys)
	for _, n := range count {
		require.Equal(t, 3, n)
	}
	require.InDelta(t, keys/20, low, keys/100, "the first tenth is spread evenly")
}

func TestEverywhereReachesEveryPartition(t *testing.T) {
	const partitions = 6
	src := Everywhere("t", 0, 10, 600, 1000, partitions)
	for i := range int64(600) {
		key, _, at := src.At(i)
		require.EqualValues(t, i%partitions, measure.Murmur2(key)&0x7fffffff%partitions)
		require.Less(t, binary.BigEndian.Uint64(key), uint64(1000))
		require.Equal(t, i/partitions*100, at)
	}
}

func TestSkewedFollowsZipf(t *testing.T) {
	const keys, n = 1000, 200_000
	for skew, most := range map[float64]float64{0.5: 0.016, 1: 0.134, 1.5: 0.4} { // what a key 0 gets, about
		src := Skewed("t", 0, 1000, n, 1, keys, skew)
		count := make([]int, keys)
		input := map[uint64]bool{}
		for i := range int64(n) {
			key, _, _ := src.At(i)
			x := binary.BigEndian.Uint64(key)
			input[x] = true
			count[x%keys]++
		}
		require.Greater(t, len(input), n*9/10, "keys of the input repeat")
		require.Greater(t, count[0], count[1])
		require.Greater(t, count[1], count[10])
		require.InDelta(t, most, float64(count[0])/n, most/2, "skew %g", skew)
		require.NotZero(t, count[keys-1])
	}
}
