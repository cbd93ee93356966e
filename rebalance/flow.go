package rebalance

import "math"

// flow solves which member rounds up which subtopology, at the least cost: a
// minimum-cost flow from a source over subtopologies and members to a sink.
//
//	source ──extra[s]──► s ──1, cost──► member ──E/m──────────────► sink
//	                                       └──1──► spare ──E mod m──► sink
//
// With E the sum of extra, a member rounds up E/m or, through spare, one more
// subtopologies. Giving each member extra[s]/m of each subtopology is a valid
// fractional flow, so a whole-numbered one of the same size exists.
//
// Costs have four values, so the lengths of shortest paths have few, and each
// round below saturates all paths of one length.
type flow struct {
	subs, members       int
	source, spare, sink int
	edges               []edge
	from                [][]int // edge numbers by node
	steps               int
}

type edge struct {
	to, room, cost int // the reverse of edge i is edge i^1
}

func newFlow(extra []int, members, total int, cost [][]int) *flow {
	f := &flow{subs: len(extra), members: members}
	f.source, f.spare, f.sink = f.subs+members, f.subs+members+1, f.subs+members+2
	f.from = make([][]int, f.sink+1)
	for a := range members {
		for s := range extra {
			f.add(s, f.subs+a, 1, cost[a][s])
		}
	}
	for s, n := range extra {
		f.add(f.source, s, n, 0)
	}
	for a := range members {
		f.add(f.subs+a, f.sink, total/members, 0)
		f.add(f.subs+a, f.spare, 1, 0)
	}
	f.add(f.spare, f.sink, total%members, 0)
	return f
}

func (f *flow) add(from, to, room, cost int) {
	f.from[from] = append(f.from[from], len(f.edges))
	f.edges = append(f.edges, edge{to, room, cost})
	f.from[to] = append(f.from[to], len(f.edges))
	f.edges = append(f.edges, edge{from, 0, -cost})
}

// solve returns, per member and subtopology, whether it rounds up.
func (f *flow) solve() [][]bool {
	for {
		dist := f.shortest()
		if dist[f.sink] == math.MaxInt {
			break
		}
		for {
			visited := make([]bool, len(f.from))
			if !f.push(f.source, dist, visited) {
				break
			}
		}
	}
	up := make([][]bool, f.members)
	for a := range up {
		up[a] = make([]bool, f.subs)
		for s := range up[a] {
			up[a][s] = f.edges[2*(a*f.subs+s)].room == 0
		}
	}
	return up
}

// shortest returns the distances from the source over edges with room, by
// Bellman and Ford with a queue, since costs are negative.
func (f *flow) shortest() []int {
	dist := make([]int, len(f.from))
	for i := range dist {
		dist[i] = math.MaxInt
	}
	dist[f.source] = 0
	queue := []int{f.source}
	queued := make([]bool, len(f.from))
	for len(queue) > 0 {
		u := queue[0]
		queue = queue[1:]
		queued[u] = false
		for _, i := range f.from[u] {
			f.steps++
			e := f.edges[i]
			if e.room > 0 && dist[u]+e.cost < dist[e.to] {
				dist[e.to] = dist[u] + e.cost
				if !queued[e.to] {
					queued[e.to] = true
					queue = append(queue, e.to)
				}
			}
		}
	}
	return dist
}

// push sends one unit along a shortest path from u to the sink. visited keeps
// it out of circles of length 0 and of dead ends.
func (f *flow) push(u int, dist []int, visited []bool) bool {
	if u == f.sink {
		return true
	}
	visited[u] = true
	for _, i := range f.from[u] {
		f.steps++
		e := f.edges[i]
		if e.room > 0 && !visited[e.to] && dist[e.to] == dist[u]+e.cost && f.push(e.to, dist, visited) {
			f.edges[i].room--
			f.edges[i^1].room++
			return true
		}
	}
	return false
}
