package barrier

// minTree is a tournament over a fixed number of values: an update touches one
// path and stops where the minimum stays.
type minTree struct {
	n     int
	nodes []int64 // leaves at n..2n-1, parent of i at i/2, the winner at 1
}

func newMinTree(n int) minTree {
	m := minTree{n: n, nodes: make([]int64, 2*max(n, 1))}
	for i := range m.nodes {
		m.nodes[i] = silent
	}
	return m
}

func (m *minTree) set(i int, v int64) {
	i += m.n
	if m.nodes[i] == v {
		return
	}
	m.nodes[i] = v
	for i >>= 1; i >= 1; i >>= 1 {
		w := min(m.nodes[2*i], m.nodes[2*i+1])
		if m.nodes[i] == w {
			return
		}
		m.nodes[i] = w
	}
}

func (m *minTree) min() int64 { return m.nodes[1] }
