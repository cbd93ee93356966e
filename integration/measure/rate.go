package measure

import "time"

// Sample is the progress at a moment.
type Sample struct {
	At    time.Duration // since the reading began
	Total int64
}

const grid = 100 * time.Millisecond

// Slope returns records per second, from warmup after the first record to the end
// of the window, and the window's length. Output that appears in bursts, one per
// checkpoint, is followed step by step on a grid, so that neither end of the
// window needs to meet a burst.
func Slope(samples []Sample, warmup, window time.Duration) (float64, time.Duration) {
	if len(samples) == 0 {
		return 0, 0
	}
	from := samples[0].At + warmup
	to := min(from+window, samples[len(samples)-1].At)
	var n, sumT, sumN, sumTT, sumTN float64
	i := 0
	for at := from; at <= to; at += grid {
		for i+1 < len(samples) && samples[i+1].At <= at {
			i++
		}
		t, total := at.Seconds(), float64(samples[i].Total)
		n, sumT, sumN, sumTT, sumTN = n+1, sumT+t, sumN+total, sumTT+t*t, sumTN+t*total
	}
	if n < 2 {
		return 0, 0
	}
	return (n*sumTN - sumT*sumN) / (n*sumTT - sumT*sumT), to - from
}
