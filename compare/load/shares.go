package load

import (
	"encoding/binary"
	"math/bits"

	"github.com/tidegate/tidegate/integration/measure"
)

// Everywhere reaches every one of so many partitions with each of n/partitions
// rounds of records, perSecond rounds a second: what a partition answers shows
// when it works. Keys are below keys and repeat.
func Everywhere(topic string, start, perSecond, n, keys int64, partitions int) Source {
	of := keysOf(keys, partitions)
	return Source{topic, n, func(i int64) ([]byte, []byte, int64) {
		round := i / int64(partitions)
		mine := of[i%int64(partitions)]
		key := binary.BigEndian.AppendUint64(make([]byte, 0, 8), mine[round%int64(len(mine))])
		return key, make([]byte, CountValueSize), start + round*1000/perSecond
	}}
}

// keysOf finds keys of every partition. With fewer keys than partitions some have
// none, and get the others' keys.
func keysOf(keys int64, partitions int) [][]uint64 {
	const each = 256
	out := make([][]uint64, partitions)
	for k := range min(uint64(keys), uint64(each*partitions*4)) {
		p := int(measure.Murmur2(binary.BigEndian.AppendUint64(nil, k))&0x7fffffff) % partitions
		if len(out[p]) < each {
			out[p] = append(out[p], k)
		}
	}
	for p := range out {
		if len(out[p]) == 0 {
			out[p] = []uint64{0}
		}
	}
	return out
}

// Uniform are records whose keys are drawn from keys at random so that any keys
// records in a row from a multiple of keys on, and thus any part of them, hold no
// key twice.
func Uniform(topic string, start, perSecond, n, keys int64, seed uint64) Source {
	return Source{topic, n, func(i int64) ([]byte, []byte, int64) {
		pass, at := uint64(i/keys), uint64(i%keys)
		key := binary.BigEndian.AppendUint64(make([]byte, 0, 8), permute(at, uint64(keys), mix(seed<<32+pass)))
		return key, make([]byte, CountValueSize), start + i*1000/perSecond
	}}
}

// permute is a permutation of the numbers below n that looks random: four rounds
// of mixing one half of the bits into the other, repeated while the result is not
// below n.
func permute(x, n, seed uint64) uint64 {
	half := max((bits.Len64(n-1)+1)/2, 1)
	mask := uint64(1)<<half - 1
	for {
		l, r := x>>half, x&mask
		for round := range uint64(4) {
			l, r = r, l^mix(r+seed+round<<56)&mask
		}
		if x = l<<half | r; x < n {
			return x
		}
	}
}
