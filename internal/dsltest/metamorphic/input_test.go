package metamorphic

import (
	"fmt"
	"math/rand/v2"
)

// Times of the input, in milliseconds.
const (
	begin = 10_000
	step  = 30 // the largest distance of two records
	back  = 60 // how far a record may lie behind those before it
	// burst is how many records a driver's Run may take at once.
	burst = 6
	// tick is how far time is moved on at once where no records come.
	tick = 100
	// slack is how far a record of a source may lie behind stream time: back, and
	// what a burst that is taken task by task adds.
	slack = back + burst*step + tick
)

var (
	streamTopics = []string{"s0", "s1", "s2"}
	tableTopics  = []string{"t0", "t1"}
	// fixedTopics are read before anything else comes.
	fixedTopics = []string{"f0", "f1"}
)

// message is a record of an input topic.
type message struct {
	topic string
	rec
}

// input is what a run reads, in this order: the first fixed records are those of
// the fixed topics.
type input struct {
	all   []message
	fixed int
	end   int64 // the largest timestamp
}

func (in *input) of(topic string) (out []rec) {
	for _, m := range in.all {
		if m.topic == topic {
			out = append(out, m.rec)
		}
	}
	return out
}

func newInput(rnd *rand.Rand, n int) *input {
	in := &input{}
	keys := 2 + rnd.IntN(9)
	value := func(topic string, ts int64) message {
		return message{topic, rec{
			k: fmt.Sprint("k", rnd.IntN(keys)), v: int64(rnd.IntN(50)), ts: ts, null: rnd.IntN(8) == 0,
		}}
	}
	for range n / 8 {
		in.all = append(in.all, value(fixedTopics[rnd.IntN(2)], int64(rnd.IntN(1000))))
	}
	in.fixed = len(in.all)
	now := int64(begin)
	for range n {
		now += int64(rnd.IntN(step))
		topic := streamTopics[rnd.IntN(3)]
		if rnd.IntN(3) == 0 {
			topic = tableTopics[rnd.IntN(2)]
		}
		in.all = append(in.all, value(topic, now-int64(rnd.IntN(back))))
	}
	in.end = now
	return in
}
