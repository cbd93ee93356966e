package sim

import "github.com/tidegate/tidegate/internal/ids"

// input is a partition of an external topic. Its content is closed form, and
// its records become available as time passes.
type input struct {
	tp      ids.TopicPartition
	index   int
	records int
	every   int64
	from    int64
	frozen  bool // all records are there

	keyOf []uint8
	idxOf []int32       // position of a record among those of its key
	byKey [keys][]int64 // offsets of the records with a key
}

func newInput(tp ids.TopicPartition, index int, p *plan) *input {
	in := &input{tp: tp, index: index, records: p.records, every: p.every}
	for i := range p.records {
		k := int(scramble(uint64(index)<<32|uint64(i)) % keys)
		in.keyOf = append(in.keyOf, uint8(k))
		in.idxOf = append(in.idxOf, int32(len(in.byKey[k])))
		in.byKey[k] = append(in.byKey[k], int64(i))
	}
	return in
}

func scramble(x uint64) uint64 {
	x = (x ^ x>>31) * 0x7fb5d329728ea185
	x = (x ^ x>>27) * 0x81dadef4bc2dd44d
	return x ^ x>>33
}

// end is the offset behind the last available record.
func (in *input) end(now int64) int64 {
	if in.frozen {
		return int64(in.records)
	}
	return min(int64(in.records), max(0, (now-in.from)/in.every))
}

// time is a record's timestamp: nearly in order.
func (in *input) time(off int64) int64 {
	return 1000 + off*10 + int64(scramble(uint64(off)+77)%25)
}

// below counts the records of key k whose offset is below cut.
func (in *input) below(k int, cut int64) int32 {
	n := int32(0)
	for _, off := range in.byKey[k] {
		if off >= cut {
			break
		}
		n++
	}
	return n
}
