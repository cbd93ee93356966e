package upgrade_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/runtime"
)

// The control log is lost, and again before the life that followed completed a
// checkpoint of its own: "last" still finds the state.
func TestRepairTwice(t *testing.T) {
	s := newStage(t)
	r := s.start(first)
	s.write(100)
	s.await(r)
	r.close()
	for range 2 {
		require.NoError(t, s.plan().Execute(s.ctx))
		r = s.start(first, tidegate.StartFrom("last"), tidegate.WithCheckpointInterval(30*time.Second), tidegate.WithShutdownDeadline(time.Millisecond))
		require.Eventually(t, func() bool {
			return r.app.State() == tidegate.Running && len(r.app.Health().Restoring) == 0
		}, 30*time.Second, 5*time.Millisecond)
		r.close()
	}
	require.NoError(t, s.plan().Execute(s.ctx))
	r = s.start(first, tidegate.StartFrom("last"))
	s.write(100)
	s.await(r)
	r.close()
	s.once()
}

// A command that was interrupted is repeated, from wherever it stopped, and the
// application does not begin by accident between.
func TestUpgradeInterrupted(t *testing.T) {
	s := newStage(t)
	r := s.start(first)
	s.write(100)
	s.await(r)
	require.ErrorContains(t, s.plan().Execute(s.ctx), "app", "while it runs nothing is deleted")
	s.write(10)
	s.await(r)
	r.close()
	admin := s.client.K.Admin()
	require.NoError(t, admin.DeleteGroup(s.ctx, app))
	require.ErrorContains(t, s.start(more, tidegate.StartFrom("last")).fails(), "tidegate upgrade")
	r = s.start(first) // it was not meant to be
	s.write(10)
	s.await(r)
	r.close()
	require.NoError(t, admin.DeleteGroup(s.ctx, app))
	require.NoError(t, admin.DeleteTopics(s.ctx, app+"-control"))
	require.ErrorContains(t, s.start(more).fails(), "the log was lost")
	require.NoError(t, admin.DeleteTopics(s.ctx, app+"-control"))
	r = s.start(first, tidegate.StartFrom("last")) // the repartition topics are those of before
	s.write(10)
	s.await(r)
	r.close()
	require.NoError(t, s.plan().Execute(s.ctx))
	require.NoError(t, s.plan().Execute(s.ctx), "once more")
	r = s.start(more, tidegate.StartFrom("last"))
	s.write(100)
	s.await(r)
	r.close()
	s.once()
}

// One damaged or missing description among the checkpoints hides none of the
// others; where it may be the newest's, somebody has to say which one to begin with.
func TestRepairWithDamagedCheckpoint(t *testing.T) {
	s := newStage(t)
	for range 3 {
		r := s.start(first)
		s.write(100)
		s.await(r)
		r.close()
	}
	good := s.plan().Checkpoints
	require.GreaterOrEqual(t, len(good), 3)
	good = good[len(good)-3:]
	store := filepath.Join(s.folder, "store", app)
	hurt := func(n int, what string) (back func()) {
		life, at, _ := strings.Cut(good[n].Name, "/")
		path := filepath.Join(store, "marked", life, fmt.Sprintf("%019s", at))
		if what != "marker" {
			path = filepath.Join(store, life, "manifest", fmt.Sprintf("%019s", at))
			list, err := os.ReadDir(path)
			require.NoError(t, err)
			path = filepath.Join(path, list[0].Name())
		}
		was, err := os.ReadFile(path)
		require.NoError(t, err)
		if what == "no manifest" {
			require.NoError(t, os.Remove(path))
		} else {
			require.NoError(t, os.WriteFile(path, was[:len(was)/2], 0o600))
		}
		return func() { require.NoError(t, os.WriteFile(path, was, 0o600)) }
	}
	require.NoError(t, s.plan().Execute(s.ctx))
	for _, what := range []string{"marker", "no manifest"} {
		back := hurt(2, what)
		p := s.plan()
		at := slices.IndexFunc(p.Checkpoints, func(c runtime.RepairPoint) bool { return c.Name == good[2].Name })
		require.GreaterOrEqual(t, at, 0)
		require.NotEmpty(t, p.Checkpoints[at].Unusable)
		newest, ok := p.Newest()
		require.True(t, ok)
		require.Equal(t, good[1].Name, newest.Name)
		require.ErrorContains(t, s.start(first, tidegate.StartFrom("last")).fails(), good[2].Name+" may be the newest")
		require.NoError(t, p.Execute(s.ctx))
		back()
	}
	hurt(0, "marker")
	hurt(1, "manifest")
	require.NoError(t, s.plan().Execute(s.ctx))
	r := s.start(first, tidegate.StartFrom("last"))
	s.write(100)
	s.await(r)
	r.close()
	s.once()
}
