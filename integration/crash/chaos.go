package main

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// event is a kind of chaos with its weight.
type event struct {
	name   string
	weight int
	do     func(h *harness, ctx context.Context)
}

var events = []event{
	{"kill", 3, (*harness).killOne},
	{"kill in a phase", 8, (*harness).killInPhase},
	{"kill coordinator", 2, (*harness).killCoordinator},
	{"kill all", 1, (*harness).killEverybody},
	{"zombie", 2, (*harness).zombie},
	{"clean restart", 2, (*harness).cleanRestart},
	{"join and leave", 2, (*harness).join},
	{"kill in a move", 3, (*harness).killInMove},
	{"store outage", 1, (*harness).outage},
	{"broker pause", 1, (*harness).pauseBroker},
	{"broker crash", 1, (*harness).crashBroker},
}

// events are those that the mode has: changelog mode has no coordinator and no
// store.
func (h *harness) events() []event {
	if h.opts.mode == barrierMode {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), func(e event) bool {
		return e.name == "kill coordinator" || e.name == "store outage" || e.name == "kill in a move"
	})
}

// chaos makes events until the duration is over. Between two, the application
// gets time to complete a checkpoint or two.
func (h *harness) chaos(ctx context.Context) {
	end := time.After(h.opts.duration)
	progress := time.NewTicker(10 * time.Second)
	defer progress.Stop()
	total := 0
	events := h.events()
	for _, e := range events {
		total += e.weight
	}
	next := time.After(8 * time.Second)
	for {
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-progress.C:
			h.progress()
		case <-next:
			pick := h.rng.IntN(total)
			for _, e := range events {
				if pick -= e.weight; pick < 0 {
					h.mu.Lock()
					h.stats.kinds[e.name]++
					h.mu.Unlock()
					e.do(h, ctx)
					break
				}
			}
			next = time.After(time.Duration(2000+h.rng.IntN(5000)) * time.Millisecond)
		}
		if err := h.failure(); err != nil && h.opts.breaking == "" {
			fmt.Println(err)
			return
		}
	}
}

func (h *harness) progress() {
	h.oracle.mu.Lock()
	checked, lost, dup := h.oracle.checked, h.oracle.lost, h.oracle.duplicated
	h.oracle.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	kills := 0
	for _, n := range h.stats.kills {
		kills += n
	}
	fmt.Printf("%4.0fs of %.0fs: input %d, checked %d, lost %d, duplicated %d, kills %d\n",
		time.Since(h.begun).Seconds(), h.opts.duration.Seconds(), h.gen.written.Load(), checked, lost, dup, kills)
}

func (h *harness) pause(ctx context.Context, least, spread int) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(least+h.rng.IntN(spread)) * time.Millisecond):
	}
}

func (h *harness) random() *instance { return h.slots[h.rng.IntN(len(h.slots))] }

// kill ends a process with SIGKILL and waits for its end.
func (h *harness) kill(i *instance) {
	if i.alive() {
		i.signal(syscall.SIGKILL)
		<-i.wait()
	}
}

func (h *harness) restart(i *instance) {
	if !i.alive() {
		if err := i.start(); err != nil {
			fmt.Println(err)
		}
	}
}

func (h *harness) killOne(ctx context.Context) {
	i := h.random()
	h.kill(i)
	h.pause(ctx, 0, 4000)
	h.restart(i)
}

// killInPhase waits until an instance kills itself in a phase.
func (h *harness) killInPhase(ctx context.Context) {
	h.mu.Lock()
	phases := h.phases()
	least := phases[0]
	for _, p := range phases { // the phase with the fewest kills comes next
		if h.stats.kills[p] < h.stats.kills[least] {
			least = p
		}
	}
	h.mu.Unlock()
	i := h.random()
	if !i.alive() {
		h.restart(i)
		return
	}
	if least == "restoring" { // comes only at a start
		h.kill(i)
		h.restart(i)
	}
	i.arm(least)
	select {
	case <-ctx.Done():
	case <-i.wait():
	case <-time.After(10 * time.Second):
		i.arm("") // no checkpoint came so far
		return
	}
	h.pause(ctx, 0, 4000)
	h.restart(i)
}

func (h *harness) killCoordinator(ctx context.Context) {
	for _, i := range h.slots {
		if i.leads() {
			h.kill(i)
			h.pause(ctx, 0, 3000)
			h.restart(i)
			return
		}
	}
}

func (h *harness) killEverybody(ctx context.Context) {
	for _, i := range h.slots {
		i.signal(syscall.SIGKILL)
	}
	for _, i := range h.slots {
		if i.alive() {
			<-i.wait()
		}
	}
	h.pause(ctx, 0, 3000)
	for _, i := range h.slots {
		h.restart(i)
	}
}

// zombie stops an instance past its session timeout and lets it go on.
func (h *harness) zombie(ctx context.Context) {
	i := h.random()
	i.signal(syscall.SIGSTOP)
	h.pause(ctx, int(sessionTimeout.Milliseconds())+500, 4000)
	i.signal(syscall.SIGCONT)
}

func (h *harness) cleanRestart(ctx context.Context) {
	i := h.random()
	if !i.alive() {
		h.restart(i)
		return
	}
	h.stop(ctx, i)
	if ctx.Err() == nil {
		h.restart(i)
	}
}

// outage takes the S3 server away for a while.
func (h *harness) outage(ctx context.Context) {
	if !h.s3.Managed() {
		return
	}
	if err := h.s3.Kill(); err != nil {
		fmt.Println("kill s3:", err)
		return
	}
	h.pause(ctx, 2000, 5000)
	if err := h.s3.Start(ctx); err != nil {
		fmt.Println("start s3:", err)
	}
}

// pauseBroker stops the broker for a while, around the session timeout.
func (h *harness) pauseBroker(ctx context.Context) {
	h.withoutBroker(ctx, "pause the broker", h.kafka.Pause, 500, int(2*sessionTimeout.Milliseconds()), "resume the broker", h.kafka.Resume)
}

// crashBroker ends the broker with SIGKILL and starts it again.
func (h *harness) crashBroker(ctx context.Context) {
	h.withoutBroker(ctx, "kill the broker", h.kafka.Kill, 0, 2000, "start the broker", h.kafka.Start)
}

// withoutBroker takes the broker away and brings it back, also at the end of the
// run.
func (h *harness) withoutBroker(ctx context.Context, taking string, take func(context.Context) error, least, spread int, bringing string, bring func(context.Context) error) {
	if !h.kafka.Managed() {
		return
	}
	if err := take(ctx); err != nil {
		fmt.Printf("%s: %v\n", taking, err)
		return
	}
	h.pause(ctx, least, spread)
	if err := bring(context.WithoutCancel(ctx)); err != nil {
		fmt.Printf("%s: %v\n", bringing, err)
	}
}
