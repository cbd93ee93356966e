package measure

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
)

func TestSlopeFollowsBursts(t *testing.T) {
	var samples []Sample
	for s := range 40 { // 1000 a second, visible once a second, after a slow start
		if s >= 5 {
			samples = append(samples, Sample{time.Duration(s) * time.Second, int64(s-5)*1000 + 1})
		}
	}
	rate, window := Slope(samples, 5*time.Second, 20*time.Second)
	require.InDelta(t, 1000, rate, 20)
	require.Equal(t, 20*time.Second, window)
	_, window = Slope(samples, 5*time.Second, time.Minute)
	require.Equal(t, 29*time.Second, window)
	rate, _ = Slope(nil, 0, time.Second)
	require.Zero(t, rate)
}

func TestCounterNoticesLostAndDoubled(t *testing.T) {
	record := func(c *Counter, key, count uint64) {
		c.Record(0, 0, binary.BigEndian.AppendUint64(nil, key), binary.BigEndian.AppendUint64(nil, count))
	}
	c := NewCounter(10)
	for n := range uint64(3) {
		record(c, 1, n+1)
	}
	require.NoError(t, c.Verdict())
	record(c, 1, 3)
	record(c, 2, 3)
	record(c, 2, 4)
	require.EqualError(t, c.Verdict(), "2 records lost, 1 doubled; first: key 1: count 3 came where 4 was due")
	c = NewCounter(10)
	record(c, 10, 1)
	require.ErrorContains(t, c.Verdict(), "output record with key")
}

// TestReaderDecodesBatches decodes what sarama encodes, transactions included.
func TestReaderDecodesBatches(t *testing.T) {
	r := &Reader{topic: "t", next: map[int32]int64{0: 1}}
	var set []byte
	add := func(base, pid int64, transactional, control bool, n int) {
		b := randomBatch(rand.New(rand.NewPCG(uint64(base), 0)), n)
		for i := range b.Records {
			b.Records[i].Key = binary.BigEndian.AppendUint64(nil, uint64(base)+uint64(i))
		}
		b.FirstOffset, b.ProducerID, b.IsTransactional, b.Control = base, pid, transactional, control
		set = append(set, encodeBatch(b)...)
	}
	add(0, -1, false, false, 3)     // offset 0 is below the position
	add(3, 7, true, false, 2)       // aborted
	add(5, 8, true, false, 2)       // committed
	add(7, 7, true, true, 1)        // the marker
	add(8, 7, true, false, 1)       // the next transaction of the same producer
	set = append(set, set[0:40]...) // cut off

	var answer []byte
	answer = appendInt32(answer, 0)
	answer = append(answer, 0, 0)
	answer = append(answer, make([]byte, 24)...)
	answer = appendInt32(answer, 1)
	answer = binary.BigEndian.AppendUint64(answer, 7)
	answer = binary.BigEndian.AppendUint64(answer, 3)
	answer = appendInt32(answer, -1)
	answer = appendInt32(answer, int32(len(set)))
	answer = append(answer, set...)
	var got []uint64
	require.NoError(t, r.partition(&wire{b: answer}, func(_ int32, _ int64, key, value []byte) {
		got = append(got, binary.BigEndian.Uint64(key))
		require.Len(t, value, valueBytes)
	}))
	require.Equal(t, []uint64{1, 2, 5, 6, 8}, got)
	require.Equal(t, int64(9), r.next[0])
}

// encodeBatch writes a record batch of format 2 by hand: sarama's encoder is
// not exported.
func encodeBatch(b *sarama.RecordBatch) []byte {
	var body []byte
	attributes := uint16(0)
	if b.IsTransactional {
		attributes |= 16
	}
	if b.Control {
		attributes |= 32
	}
	body = binary.BigEndian.AppendUint16(body, attributes)
	body = appendInt32(body, b.LastOffsetDelta)
	body = append(body, make([]byte, 16)...)
	body = binary.BigEndian.AppendUint64(body, uint64(b.ProducerID))
	body = append(body, make([]byte, 6)...)
	body = appendInt32(body, int32(len(b.Records)))
	for _, r := range b.Records {
		rec := []byte{0}
		rec = binary.AppendVarint(rec, 0)
		rec = binary.AppendVarint(rec, r.OffsetDelta)
		rec = append(binary.AppendVarint(rec, int64(len(r.Key))), r.Key...)
		rec = append(binary.AppendVarint(rec, int64(len(r.Value))), r.Value...)
		rec = binary.AppendVarint(rec, 0)
		body = append(binary.AppendVarint(body, int64(len(rec))), rec...)
	}
	out := binary.BigEndian.AppendUint64(nil, uint64(b.FirstOffset))
	out = appendInt32(out, int32(len(body))+9)
	out = appendInt32(out, 0)
	out = append(out, 2)
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(out, body...)
}
