package operators

import (
	"math"

	"github.com/tidegate/tidegate/state"
)

// dueKeys are keys of a store that is ordered by time, read some at once: so the
// store may change while they are gone through, without an iterator that would
// have to keep its old content, and one scan also finds the time of what is left.
type dueKeys struct {
	buf, from []byte
	ends      []int
}

// mostDue is how many keys are read at once where many may be due.
const mostDue = 64

// read reads the keys with times in [first, last], at most so many, and returns
// the time of the next key, also of one behind last; math.MaxInt64 when there is
// none. malformed is the error of a key without a time.
func (d *dueKeys) read(kv state.KV, first, last int64, most int, malformed error) (next int64, err error) {
	d.buf, d.ends = d.buf[:0], d.ends[:0]
	d.from = appendTime(d.from[:0], first)
	it := kv.Scan(d.from, nil, false)
	defer closeIterator(it, &err)
	for it.Next() {
		key := it.Key()
		if len(key) < timeSize {
			return 0, malformed
		}
		if at := timeOf(key); at > last || len(d.ends) == most {
			return at, nil
		}
		d.buf = append(d.buf, key...)
		d.ends = append(d.ends, len(d.buf))
	}
	return math.MaxInt64, it.Err()
}

// key returns the i-th key.
func (d *dueKeys) key(i int) []byte {
	begin := 0
	if i > 0 {
		begin = d.ends[i-1]
	}
	return d.buf[begin:d.ends[i]]
}
