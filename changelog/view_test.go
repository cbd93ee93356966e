package changelog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidegate/tidegate/changelog"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/memory"
	"github.com/tidegate/tidegate/state/pebblestore"
)

// A view has what is committed when it is taken, and stays so; it has no stores
// that are not the topology's.
func TestView(t *testing.T) {
	for name, open := range map[string]state.OpenFunc{
		"memory": func(dir string) (state.Engine, error) { return memory.Open(dir) },
		"pebble": func(dir string) (state.Engine, error) {
			return pebblestore.Open(pebblestore.NewShared(pebblestore.SharedOptions{}), dir, pebblestore.Options{Kept: true})
		},
	} {
		below, err := open(t.TempDir() + "/data")
		require.NoError(t, err, name)
		e, err := changelog.NewEngine(below, []changelog.StoreSpec{{Name: "s", Unlogged: true}})
		require.NoError(t, err)
		e.Attach(changelog.Log{NewBatch: func(ids.TopicPartition) *kafka.Builder { panic("not logged") }, Now: time.Now})
		kv, err := e.Store("s")
		require.NoError(t, err)
		value := func(v state.View) string {
			s, ok := v.Store("s")
			require.True(t, ok)
			got, _, err := s.Get([]byte("k"))
			require.NoError(t, err)
			return string(got)
		}
		take := func() state.View {
			v, err := e.View()
			require.NoError(t, err)
			return v
		}
		require.NoError(t, kv.Set([]byte("k"), []byte("1")))
		before := take()
		_, err = e.Snapshot("")
		require.NoError(t, err)
		sealed := take()
		require.NoError(t, e.Apply(nil))
		require.NoError(t, kv.Set([]byte("k"), []byte("2")))
		after := take()
		require.Equal(t, []string{"", "", "1"}, []string{value(before), value(sealed), value(after)}, name)
		_, ok := after.Store("~changelog")
		require.False(t, ok)
		require.NoError(t, before.Close())
		require.NoError(t, e.Close())
		s, _ := after.Store("s")
		_, _, err = s.Get([]byte("k"))
		require.ErrorIs(t, err, state.ErrViewClosed)
	}
}
