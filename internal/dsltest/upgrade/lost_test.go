package upgrade_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/dir"
	"github.com/tidegate/tidegate/runtime"
)

// A repartition topic is deleted while nothing runs: a start is refused and names
// the command, behind which the application goes on, with every output once.
func TestRepairOfRepartitionTopic(t *testing.T) {
	s := newStage(t)
	r := s.start(first)
	s.write(100)
	s.await(r)
	r.close()
	require.NoError(t, s.client.K.Admin().DeleteTopics(s.ctx, app+"-again-repartition"))
	err := s.start(first).fails()
	require.ErrorContains(t, err, "made anew")
	require.ErrorContains(t, err, "tidegate repair --brokers "+s.broker.Addr())

	require.NoError(t, s.plan().Execute(s.ctx))
	r = s.start(first, tidegate.StartFrom("last"))
	s.write(100)
	s.await(r)
	r.close()
	s.once()
}

// The newest checkpoint cannot be read: the plan says so, goes on with the one
// before, and compares the group's offsets with that one.
func TestRepairBesideADamagedCheckpoint(t *testing.T) {
	s := newStage(t)
	r := s.start(first)
	s.write(40)
	s.await(r)
	r.close()
	kept := s.plan()
	older, ok := kept.Newest()
	require.True(t, ok)
	r = s.start(first, tidegate.WithRetainedCheckpoints(50))
	s.write(60)
	s.await(r)
	r.close()
	before := s.plan()
	require.Empty(t, before.Ahead)
	store, err := dir.New(s.folder + "/store")
	require.NoError(t, err)
	marked, err := checkpoint.ListAllMarked(s.ctx, store, app, checkpoint.Retry{})
	require.NoError(t, err)
	damaged := 0
	for _, m := range marked { // all behind the older one
		if m.Checkpoint == 0 || slices.ContainsFunc(kept.Checkpoints, func(p runtime.RepairPoint) bool { return p.Name == runtime.MarkedName(m.Life, m.Checkpoint) }) {
			continue
		}
		require.NoError(t, store.Delete(s.ctx, []string{m.Manifest}))
		require.NoError(t, store.Put(s.ctx, m.Manifest, checkpoint.BytesSource([]byte("no manifest"))))
		damaged++
	}
	require.Positive(t, damaged)

	p := s.plan()
	newest, ok := p.Newest()
	require.True(t, ok)
	require.Equal(t, older.Name, newest.Name)
	unusable := 0
	for _, c := range p.Checkpoints {
		if c.Unusable != "" {
			require.Contains(t, c.Unusable, "corrupted")
			unusable++
		}
	}
	require.Equal(t, damaged, unusable)
	require.Equal(t, []string{"in-0: offsets 20 to 49", "in-1: offsets 20 to 49"}, p.Ahead)

	shown := s.out.Count()
	require.NoError(t, p.Execute(s.ctx))
	r = s.start(first, tidegate.StartFrom(newest.Name))
	require.Eventually(t, func() bool { return s.out.Count() == shown+60 }, time.Minute, 20*time.Millisecond)
	s.await(r)
	r.close()
}
