package changelog

import (
	"errors"

	"github.com/tidegate/tidegate/state"
)

var _ state.Viewer = (*Engine)(nil)

// errNoViews is for engines below that cannot be read beside their task.
var errNoViews = errors.New("this state engine has no views")

// View fixes the committed state: that of the engine below. So a query sees no
// change that may yet be aborted, and what it saw is in the changelog (Kafka
// Streams' isolation level read_committed for interactive queries). It is older
// than what the task sees by a commit interval at most.
func (e *Engine) View() (state.View, error) {
	v, ok := e.below.(state.Viewer)
	if !ok {
		return nil, errNoViews
	}
	below, err := v.View()
	if err != nil {
		return nil, err
	}
	return committed{below, e}, nil
}

// committed hides what is not a store of the topology.
type committed struct {
	state.View
	e *Engine
}

func (v committed) Store(name string) (state.ReadKV, bool) {
	if v.e.stores[name] == nil { // the map is never written once it is made
		return nil, false
	}
	return v.View.Store(name)
}
