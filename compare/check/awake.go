package check

import "time"

// Awake tells, of so many partitions, when the first and when the last of them
// said something for the first time after a moment. ok is false while one was
// silent since.
func (r *Resume) Awake(since time.Time, partitions int) (first, all time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	heard := 0
	for _, list := range r.parts {
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].at.Before(since) {
				list = list[i+1:]
				break
			}
		}
		if len(list) == 0 || list[0].at.Before(since) {
			continue
		}
		heard++
		d := list[0].at.Sub(since)
		if heard == 1 || d < first {
			first = d
		}
		all = max(all, d)
	}
	return first, all, heard >= partitions
}
