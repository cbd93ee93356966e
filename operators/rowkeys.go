package operators

import (
	"fmt"

	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// KeyScanner goes over the keys of a table whose serialised form is in [from, to);
// nil bounds are open.
type KeyScanner[K any] func(from, to []byte, reverse bool, yield func(K) (bool, error)) error

// keyed is a store that knows its keys.
type keyed[K any] interface {
	EachKey(from, to []byte, reverse bool, yield func(K) (bool, error)) error
}

var _ keyed[int] = (*state.KVStore[int, string])(nil)

// OpenRowKeys returns the keys of a table that the step reads and whose rows it
// has opened. A table that computes its values from another one's has some of the
// other one's keys: its look-up says which.
func OpenRowKeys[K any](p *ProcessorCore, table *topology.Node) KeyScanner[K] {
	n := table
	for n.View && len(n.Parents) == 1 {
		n = n.Parents[0]
	}
	for _, name := range n.Stores {
		if s, ok := p.b.stores[name].(keyed[K]); ok && len(n.Stores) == 1 {
			return s.EachKey
		}
	}
	return func([]byte, []byte, bool, func(K) (bool, error)) error {
		return fmt.Errorf("table %q cannot be scanned: it has no key-value store; give it one with Materialize, and read that table", table.Label())
	}
}
