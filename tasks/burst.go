package tasks

// burst bounds what a task may hand over in one turn, in bytes. What waits for
// acknowledgement is looked at between turns only, and a turn is thousands of
// records: of a step that makes much out of little they would make more than
// memory holds. So a turn ends when enough was handed over, and runs become as
// short as their output is long. The output of one record has no bound.
type burst struct {
	limit  int // bytes in a turn; 0: none
	handed int // bytes in this turn
	run    int // records that may be taken at once
}

// firstRun is how many records a task takes at once as long as nothing is known
// of their output.
const firstRun = 64

func (b *burst) begin() { b.handed = 0 }

// over reports that the turn is over.
func (b *burst) over() bool { return b.limit > 0 && b.handed >= b.limit }

// most is how many records the next run may have.
func (b *burst) most() int {
	if b.limit == 0 {
		return budget
	}
	if b.run == 0 {
		b.run = firstRun
	}
	return b.run
}

// ran learns from a run of n records, before which handed was before.
func (b *burst) ran(n, before int) {
	switch bytes := b.handed - before; {
	case b.limit == 0:
	case bytes > b.limit:
		b.run = max(1, int(int64(n)*int64(b.limit)/int64(bytes)))
	case bytes <= b.limit/2 && n >= b.run:
		b.run = min(2*b.run, budget)
	}
}
