package operators

import (
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// OpenList opens a user's list store in Init.
func OpenList[K, V any](p *ProcessorCore, name string, ks serde.Serde[K], vs serde.Serde[V]) (*state.ListStore[K, V], error) {
	return userStore(p, name, func(kv state.KV, opts []state.StoreOption) (*state.ListStore[K, V], error) {
		return state.NewListStore(name, kv, ks, vs, p.b.g.cache, opts...), nil
	})
}
