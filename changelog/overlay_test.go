package changelog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/memory"
)

func openKV(t *testing.T) state.KV {
	t.Helper()
	e, err := memory.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	kv, err := e.Store("s")
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// An overlay with sealed and applied intervals answers as a store to which
// everything is written at once; what is dropped leaves the store as it was at
// the last apply.
func TestOverlayIsAStore(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		below, model := openKV(t), openKV(t)
		o := newOverlay(below)
		key := func() []byte { return fmt.Appendf(nil, "k%03d", rng.IntN(300)) }
		bound := func() []byte {
			if rng.IntN(4) == 0 {
				return nil
			}
			return key()
		}
		sealed := 0
		for range 400 {
			k := key()
			switch rng.IntN(12) {
			case 0, 1, 2, 3, 4:
				v := fmt.Appendf(nil, "v%d", rng.IntN(1000))
				must(t, o.Set(k, v), model.Set(k, v))
			case 5, 6:
				must(t, o.Delete(k), model.Delete(k))
			case 7:
				from, to := bound(), bound()
				must(t, o.DeleteRange(from, to), model.DeleteRange(from, to))
			case 8:
				o.seal()
				sealed++
			case 9:
				if sealed > 0 {
					must(t, o.apply())
					sealed--
				}
			case 10:
				a, okA, _ := o.Get(k)
				b, okB, _ := model.Get(k)
				if okA != okB || string(a) != string(b) {
					t.Fatalf("seed %d: get %s: %q %v, want %q %v", seed, k, a, okA, b, okB)
				}
			case 11:
				from, to, rev := bound(), bound(), rng.IntN(2) == 0
				if a, b := all(t, o.Scan(from, to, rev)), all(t, model.Scan(from, to, rev)); !slices.Equal(a, b) {
					t.Fatalf("seed %d: scan %s to %s, reverse %v:\n%v, want\n%v", seed, from, to, rev, a, b)
				}
			}
		}
		for ; sealed > 0; sealed-- {
			must(t, o.apply())
		}
		before := all(t, below.Scan(nil, nil, false))
		o.drop()
		if got := all(t, o.Scan(nil, nil, false)); !slices.Equal(got, before) {
			t.Fatalf("seed %d: after drop %v, want %v", seed, got, before)
		}
	}
}

// An iterator does not see what is written after it was made.
func TestOverlayScanIsFixed(t *testing.T) {
	o := newOverlay(openKV(t))
	for i := range 200 {
		must(t, o.Set(fmt.Appendf(nil, "%03d", i), []byte("a")))
	}
	it := o.Scan(nil, nil, false)
	must(t, o.DeleteRange(nil, nil), o.Set([]byte("000"), []byte("b")), o.Set([]byte("999"), []byte("b")))
	got := all(t, it)
	if len(got) != 200 || got[0] != "000=a" || got[199] != "199=a" {
		t.Fatalf("%d entries, %v", len(got), got)
	}
}

func all(t *testing.T, it state.Iterator) (out []string) {
	t.Helper()
	for it.Next() {
		out = append(out, string(it.Key())+"="+string(it.Value()))
	}
	must(t, it.Err(), it.Close())
	return out
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}
