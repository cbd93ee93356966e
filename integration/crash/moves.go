package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// movePhases are where an instance stands in a handover: its tasks are about to
// stop behind the barrier, or the handover is decided and is carried out.
var movePhases = []string{"halting", "moved"}

// join starts one instance more and stops it cleanly after a while: tasks move
// there and back.
func (h *harness) join(ctx context.Context) {
	if err := h.extra.start(); err != nil {
		fmt.Println(err)
		return
	}
	h.pause(ctx, 3000, 5000)
	h.stop(ctx, h.extra)
}

// stop ends a process with SIGTERM and waits for its end.
func (h *harness) stop(ctx context.Context, i *instance) {
	i.signal(syscall.SIGTERM)
	select {
	case <-i.wait():
	case <-time.After(40 * time.Second):
		fmt.Printf("instance %s did not stop in 40s after SIGTERM\n", i.name)
		h.kill(i)
	case <-ctx.Done():
	}
}

// killInMove lets an instance leave and kills it, or one that gets its tasks,
// in the middle of the handover.
func (h *harness) killInMove(ctx context.Context) {
	leaving, victim := h.random(), h.random()
	h.restart(leaving)
	h.restart(victim)
	victim.arm(movePhases[h.rng.IntN(len(movePhases))])
	leaving.signal(syscall.SIGTERM)
	select {
	case <-ctx.Done():
		return
	case <-victim.wait():
	case <-time.After(15 * time.Second):
		victim.arm("") // the handover did not touch it
	}
	if leaving != victim {
		h.stop(ctx, leaving)
	}
	h.restart(leaving)
	h.restart(victim)
}

// moves counts, over the logs of all instances, how often tasks were handed
// over.
func (h *harness) moves() (n int) {
	for _, s := range append(h.slots, h.extra) {
		b, err := os.ReadFile(filepath.Join(h.dir, s.name+".log"))
		if err == nil {
			n += strings.Count(string(b), "tasks moved to other instances")
		}
	}
	return n
}
