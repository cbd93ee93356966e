package tidegate

import (
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/topology"
)

// Split divides a stream into branches (Kafka Streams' BranchedKStream). A
// record goes to the first branch whose predicate is true, else to the default
// branch, else nowhere. A tombstone of a plain V goes to every branch, since
// any of them may hold the value that it deletes.
type Split[K, V any] struct {
	s        *Stream[K, V]
	n        *topology.Node
	branches *operators.Branches[K, V]
	names    map[string]bool
}

// Split begins a division into branches.
func (s *Stream[K, V]) Split() *Split[K, V] {
	branches := &operators.Branches[K, V]{Default: -1}
	n := s.stateless("split", here(), false, operators.Split(branches)).n
	return &Split[K, V]{s: s, n: n, branches: branches, names: map[string]bool{}}
}

// Branch returns the stream of the records that no earlier branch took and for
// which f is true. The name is for descriptions and errors.
func (sp *Split[K, V]) Branch(name string, f func(K, V) bool) *Stream[K, V] {
	site := here()
	if f == nil {
		sp.s.b.t.Errorf(site, "Branch(%q): the function is nil", name)
	}
	return sp.branch(site, name, f, nil)
}

// BranchCtx is Branch with context and error.
func (sp *Split[K, V]) BranchCtx(name string, f func(*RecordContext, K, V) (bool, error)) *Stream[K, V] {
	site := here()
	if f == nil {
		sp.s.b.t.Errorf(site, "BranchCtx(%q): the function is nil", name)
	}
	return sp.branch(site, name, nil, f)
}

// Default returns the stream of the records that no branch takes. It may be
// called before or after the branches are described, once.
func (sp *Split[K, V]) Default() *Stream[K, V] {
	site := here()
	if sp.branches.Default >= 0 {
		sp.s.b.t.Errorf(site, "Default: this split has a default branch already")
	}
	sp.branches.Default = len(sp.branches.Preds)
	return sp.branch(site, "default", nil, nil)
}

func (sp *Split[K, V]) branch(
	site topology.Site, name string, f func(K, V) bool, ctx func(*RecordContext, K, V) (bool, error),
) *Stream[K, V] {
	if name == "" || sp.names[name] {
		sp.s.b.t.Errorf(site, "Branch: the name %q is empty or used twice in one split", name)
	}
	sp.names[name] = true
	sp.branches.Preds = append(sp.branches.Preds, f)
	sp.branches.Ctx = append(sp.branches.Ctx, ctx)
	from := sp.s.from
	from.n = sp.s.b.t.Add(topology.Node{
		Op: "branch", Name: name, Site: site, Parents: []*topology.Node{sp.n}, Factory: operators.Merge[K, V](),
	})
	return sp.s.same(from)
}
