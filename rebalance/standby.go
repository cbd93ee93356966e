package rebalance

import (
	"cmp"
	"hash/fnv"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// Followers returns the n+1 members that follow a task's state, so that n do
// beside its owner: those with the highest hash of member and task. Every member
// computes the same from the list of members alone, and where one comes or goes
// only its own tasks get another follower. The stable name counts, so that a
// restarted instance follows what it followed.
func Followers(members []ids.InstanceID, t ids.TaskID, n int) []ids.InstanceID {
	if n <= 0 {
		return nil
	}
	type ranked struct {
		id   ids.InstanceID
		rank uint64
	}
	list := make([]ranked, len(members))
	for i, m := range members {
		h := fnv.New64a()
		_, _ = h.Write([]byte(m.Name + "/" + t.String()))
		list[i] = ranked{m, mix(h.Sum64())}
	}
	slices.SortFunc(list, func(a, b ranked) int { return cmp.Or(cmp.Compare(b.rank, a.rank), a.id.Compare(b.id)) })
	out := make([]ids.InstanceID, 0, n+1)
	for _, r := range list[:min(n+1, len(list))] {
		out = append(out, r.id)
	}
	return out
}

// mix spreads what a short text changes over all bits.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
