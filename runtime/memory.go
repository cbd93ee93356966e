package runtime

import "math"

// Limits on memory. What an instance buffers and caches is bounded by options of
// their own, each in bytes and for all tasks together; MemoryBytes is one total
// that is divided among those that were not given.
//
//	fetched and not processed        Fetch       checked per input and request
//	waiting behind barriers          Alignment   dropped above, and read again
//	sent and not acknowledged        Produce     tasks stop above
//	waiting for their transaction    Produce     the same, of sink batches
//	write-back caches                Cache       evicted above
//	blocks of tables                 BlockCache  evicted above
//	memtables                        Memtable    writers wait above
//	uncommitted changes              Uncommitted changelog mode: commits early
//
// Beside these: an answer of each broker that is being decoded, files that are
// uploaded, and what user code holds.

// leastInput is what one input may have fetched in any case.
const leastInput = 64 << 10

// leastMemory is the smallest total that leaves something for each.
const leastMemory = 8 << 20

// part is a bound with its share of the total, in percent.
type part struct {
	bytes *int64
	share int64
	times int64 // how often the bound counts
}

// memoryParts are the bounds that the mode has.
func (c *Config) memoryParts() []part {
	list := []part{
		{&c.FetchBytes, 15, 1}, {&c.ProduceBytes, 10, 2}, {&c.BlockCacheBytes, 10, 1}, {&c.MemtableBytes, 15, 1},
	}
	if c.Mode == Changelog {
		return append(list, part{&c.CacheBytes, 25, 1}, part{&c.UncommittedBytes, 25, 1})
	}
	return append(list, part{&c.CacheBytes, 35, 1}, part{&c.AlignmentBytes, 15, 1})
}

// divideMemory divides the total among the bounds that are not given. What is
// given counts with what it says.
func (c *Config) divideMemory() {
	if c.MemoryBytes <= 0 {
		return
	}
	rest, shares := c.MemoryBytes, int64(0)
	for _, p := range c.memoryParts() {
		if *p.bytes > 0 {
			rest -= *p.bytes * p.times
		} else {
			shares += p.share
		}
	}
	for _, p := range c.memoryParts() {
		if *p.bytes == 0 && rest > 0 {
			*p.bytes = max(rest*p.share/shares/p.times, 1)
		}
	}
}

// validateMemory refuses a total that is too small for what is given.
func (c Config) validateMemory(bad func(format string, args ...any)) {
	if c.MemoryBytes == 0 {
		return
	}
	if c.MemoryBytes < leastMemory {
		bad("WithMemory(%d): want at least %d, or 0 for no total", c.MemoryBytes, leastMemory)
		return
	}
	sum := int64(0)
	for _, p := range c.memoryParts() {
		if *p.bytes > math.MaxInt64/4 {
			sum = math.MaxInt64
			break
		}
		sum += *p.bytes * p.times
	}
	if sum > c.MemoryBytes {
		bad("WithMemory(%d): the bounds that other options give need %d together (what is sent counts twice: also before its transaction): raise the total, or leave some of them out", c.MemoryBytes, sum)
	}
}

// memtable is the largest memtable of one of n tasks with state; 0 is the
// engine's default. Writers wait when three are full.
func (c Config) memtable(n int) int64 {
	if c.MemtableBytes == 0 {
		return 0
	}
	return max(c.MemtableBytes/3/int64(max(n, 1)), 1)
}

// turnBytes is what one of n tasks may hand over before it is looked whether
// too much waits: all together about once more what may wait.
func (c Config) turnBytes(n int) int {
	return int(min(max(c.ProduceBytes/int64(max(n, 1)), 64<<10), 1<<20))
}
