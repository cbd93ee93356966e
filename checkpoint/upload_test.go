package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/storetest"
	"github.com/tidegate/tidegate/internal/ids"
)

// R15: checkpoint 1 {1.sst}; checkpoint 2 writes 2.sst, crash; restore from 1;
// checkpoint 3 writes a different 2.sst and restores with its own content.
func TestSameLocalNameAfterRestore(t *testing.T) {
	w := newWorld(t, nil)
	e := newEngine()
	e.write("1.sst", large, 1)
	first := w.take(e, 1, ids.NoCheckpoint)
	e.write("2.sst", large, 2)
	w.upload(e, 2, 1) // and a crash: never completed

	e = w.restore(first)
	e.write("2.sst", large, 3) // same name and size, other bytes
	third := w.take(e, 3, 1)
	w.same(w.restore(third), e)

	w.clean(checkpoint.CleanRequest{ReadTo: 4, Retained: []checkpoint.CheckpointRef{third}})
	w.same(w.restore(third), e)
}

func TestIncremental(t *testing.T) {
	w := newWorld(t, nil)
	e := newEngine()
	e.write("1.sst", large, 1)
	e.write("2.sst", small, 1)
	e.write("MANIFEST", small, 1)
	first := w.take(e, 10, ids.NoCheckpoint)

	// Nothing changed: only the mutable small file, in one pack.
	out := w.upload(e, 20, 10)
	if out.Objects != 1 || out.Bytes != small || out.Referenced != large+small || out.Base != 10 {
		t.Errorf("%+v", out)
	}
	// Told so: nothing at all.
	req := w.request(e, 30, 10, 0)
	req.Files, req.Unchanged = nil, true
	puts := len(w.mem.Puts())
	out, err := w.up.Upload(t.Context(), req)
	w.ok(err)
	if out.Objects != 0 || out.Bytes != 0 || len(out.Files) != 3 || len(w.mem.Puts()) != puts {
		t.Errorf("%+v", out)
	}
	w.same(w.restore(w.finish(30, out.Files)), e)
	e.table.Completed(30, 30)

	// The base may be a checkpoint that uploaded nothing.
	e.write("3.sst", large, 1)
	out = w.upload(e, 40, 30)
	if out.Objects != 2 || out.Bytes != large+small || out.Referenced != large+small {
		t.Errorf("%+v", out)
	}
	w.same(w.restore(w.finish(40, out.Files)), e)
	_ = first
}

func TestUnchangedWithoutBase(t *testing.T) {
	w := newWorld(t, nil)
	e := newEngine()
	req := w.request(e, 30, 10, 0)
	req.Files, req.Unchanged = nil, true
	if _, err := w.up.Upload(t.Context(), req); !errors.Is(err, checkpoint.ErrNoBase) {
		t.Fatal(err)
	}
	e.write("1.sst", large, 1)
	req = w.request(e, 30, 10, 0)
	req.Unchanged = true
	if out, err := w.up.Upload(t.Context(), req); err != nil || out.Objects != 1 || out.Base != ids.NoCheckpoint {
		t.Fatal(out, err)
	}
}

// What an undecided or aborted checkpoint uploaded is never referenced: it may
// be deleted once that checkpoint is decided.
func TestTwoInFlight(t *testing.T) {
	w := newWorld(t, nil)
	e := newEngine()
	e.write("1.sst", large, 1)
	base := w.take(e, 10, ids.NoCheckpoint)
	e.write("2.sst", large, 1)
	w.upload(e, 20, 10)
	e.write("3.sst", large, 1)
	out := w.upload(e, 30, 10) // 20 is undecided: 2.sst again
	if out.Bytes != 2*large {
		t.Errorf("%+v", out)
	}
	if wrong := w.upload(e, 31, 20); wrong.Base != ids.NoCheckpoint || wrong.Referenced != 0 {
		t.Errorf("an undecided checkpoint was taken for a base: %+v", wrong)
	}
	e.table.Aborted(20)
	w.clean(checkpoint.CleanRequest{
		ReadTo: 32, Undecided: []ids.CheckpointID{30},
		Retained: []checkpoint.CheckpointRef{base}, Bases: []checkpoint.CheckpointRef{base},
	})
	for _, key := range w.mem.Keys() {
		if strings.Contains(key, "/0000000000000000020/") {
			t.Errorf("left of the aborted checkpoint: %s", key)
		}
	}
	third := w.finish(30, out.Files)
	e.table.Completed(30, 30)
	w.clean(checkpoint.CleanRequest{ReadTo: 33, Retained: []checkpoint.CheckpointRef{third}}) // 10 is retired
	w.same(w.restore(third), e)
}

// With the older of two completed while the newer still uploads, the newer's
// base stays what it was at its Trigger.
func TestBaseIsOfTrigger(t *testing.T) {
	w := newWorld(t, nil)
	e := newEngine()
	e.write("1.sst", large, 1)
	w.take(e, 10, ids.NoCheckpoint)
	e.write("2.sst", large, 1)
	w.upload(e, 20, 10)
	e.table.Completed(20, 10)
	out := w.upload(e, 30, 10)
	if out.Base != 10 || out.Referenced != large {
		t.Errorf("%+v", out)
	}
	if out = w.upload(e, 40, 20); out.Base != 20 || out.Referenced != 2*large {
		t.Errorf("%+v", out)
	}
	e.table.Completed(30, 30)
	if out = w.upload(e, 50, 20); out.Base != ids.NoCheckpoint || out.Referenced != 0 {
		t.Errorf("a forgotten base: %+v", out)
	}
}

// A life started from another's checkpoint writes its first in full (R30).
func TestForeignBase(t *testing.T) {
	w := newWorld(t, nil)
	e := newEngine()
	e.write("1.sst", large, 1)
	ref := w.take(e, 10, ids.NoCheckpoint)
	e = w.restore(ref)
	req := w.request(e, 20, 10, 0)
	req.Names.Life = 0xb2
	out, err := w.up.Upload(t.Context(), req)
	w.ok(err)
	if out.Referenced != 0 || out.Base != ids.NoCheckpoint || !req.Names.Owns(out.Files[0].Key) {
		t.Errorf("%+v", out)
	}
}

func TestPackOfMostlyDeadIsRepacked(t *testing.T) {
	w := newWorld(t, nil)
	e := newEngine()
	for i := range 10 {
		e.write(fmt.Sprintf("%d.sst", i), small, 1)
	}
	w.take(e, 10, ids.NoCheckpoint)
	for i := range 5 {
		delete(e.files, fmt.Sprintf("%d.sst", i))
	}
	if out := w.upload(e, 20, 10); out.Bytes != 0 || out.Referenced != 5*small {
		t.Errorf("half alive: %+v", out)
	}
	delete(e.files, "5.sst")
	out := w.upload(e, 30, 10)
	if out.Bytes != 4*small || out.Referenced != 0 || out.Objects != 1 {
		t.Errorf("mostly dead: %+v", out)
	}
	w.same(w.restore(w.finish(30, out.Files)), e)
}

func TestOddSnapshots(t *testing.T) {
	w := newWorld(t, nil)
	e := newEngine()
	if out := w.upload(e, 10, ids.NoCheckpoint); out.Objects != 0 {
		t.Errorf("%+v", out)
	}
	w.same(w.restore(w.take(e, 11, 10)), e)
	e.write("empty.sst", 0, 1) // only an empty file
	w.same(w.restore(w.take(e, 12, 11)), e)
	for i := range 300 {
		e.write(fmt.Sprintf("%03d", i), 300, 1) // several packs
	}
	w.same(w.restore(w.take(e, 13, 12)), e)

	req := w.request(e, 14, 13, 0)
	req.Files[5].Size++
	if _, err := w.up.Upload(t.Context(), req); err == nil || !strings.Contains(err.Error(), "the snapshot says") {
		t.Error(err)
	}
	req = w.request(e, 14, 13, 0)
	req.Files = append(req.Files, req.Files[3])
	if _, err := w.up.Upload(t.Context(), req); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Error(err)
	}
	e.write("big", large, 1)
	req = w.request(e, 14, 13, 0)
	i := slices.IndexFunc(req.Files, func(f checkpoint.LocalFile) bool { return f.Name == "big" })
	if err := os.Truncate(req.Files[i].Path, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := w.up.Upload(t.Context(), req); err == nil || !strings.Contains(err.Error(), "the snapshot says") {
		t.Error(err)
	}
}

// A checkpoint cancelled in mid-upload leaves no garbage after cleaning ran.
func TestCancelledUpload(t *testing.T) {
	w := newWorld(t, nil)
	e := newEngine()
	for i := range 20 {
		e.write(fmt.Sprintf("%d.sst", i), large, 1)
	}
	first := w.take(e, 10, ids.NoCheckpoint)
	before := w.mem.Keys()
	for i := range 20 {
		e.write(fmt.Sprintf("x%d.sst", i), large, 1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	up := checkpoint.NewUploader(cancelAfter{Memory: w.mem, cancel: cancel, at: len(w.mem.Puts()) + 5}, testUpload)
	if _, err := up.Upload(ctx, w.request(e, 20, 10, 0)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if len(w.mem.Keys()) < len(before)+5 {
		t.Fatal("nothing was cancelled in the middle")
	}
	// Not yet decided: all stays. Decided: all of it goes.
	for _, undecided := range [][]ids.CheckpointID{{20}, nil} {
		out := w.clean(checkpoint.CleanRequest{ReadTo: 21, Undecided: undecided, Retained: []checkpoint.CheckpointRef{first}})
		if (out.Deleted > 0) != (undecided == nil) {
			t.Errorf("%+v", out)
		}
	}
	if after := w.mem.Keys(); !slices.Equal(after, before) {
		t.Errorf("left: %v", after)
	}
}

type cancelAfter struct {
	*storetest.Memory
	cancel func()
	at     int
}

func (c cancelAfter) Put(ctx context.Context, key string, src checkpoint.Source) error {
	err := c.Memory.Put(ctx, key, src)
	if len(c.Memory.Puts()) >= c.at {
		c.cancel()
	}
	return err
}

func TestUploadErrorStopsTheRest(t *testing.T) {
	w := newWorld(t, &storetest.Faults{Down: true})
	e := newEngine()
	for i := range 20 {
		e.write(fmt.Sprintf("%d.sst", i), large, 1)
	}
	_, err := w.up.Upload(t.Context(), w.request(e, 20, 10, 0))
	if !checkpoint.Retriable(err) || !strings.Contains(err.Error(), "task 1_2 for checkpoint 20") {
		t.Fatal(err)
	}
}
