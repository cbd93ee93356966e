package barrier

import (
	"strconv"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidegate/tidegate/internal/ids"
)

// TestMachineStories plays the stories in testdata/machine. Commands:
//
//	world tasks=4 [tolerated=1] [retain=2]
//	boot a b [as=x]   start processes (with another stable name)
//	run ms=100        let time pass; prints records and effects
//	skip ms=100       … without printing
//	crash a | pause a | resume a | shutdown a
//	evict a           the group drops a (its session timed out)
//	hold KIND         hold back answers of a kind; release KIND
//	fail a | decline a | restore a n=5 [duplicates] | lost a | ids a count=6
//	deaf a | hears a  a cannot read the log
//	age ms=100        of transactions in later acks
//	evidence a        a finds that the log was lost
//	other             processes booted from now on have another topology
//	loglost a         the log is shorter than what a read
//	log               print the records
func TestMachineStories(t *testing.T) {
	datadriven.Walk(t, "testdata/machine", func(t *testing.T, path string) {
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "world" {
				w = newWorld(intArg(d, "tasks", 4), Rules{})
				w.cfg.ToleratedAborts = intArg(d, "tolerated", 1)
				w.cfg.Retain = intArg(d, "retain", 2)
				return ""
			}
			w.trace.Reset()
			w.command(t, d)
			return w.trace.String()
		})
	})
}

func intArg(d *datadriven.TestData, key string, def int) int {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) == 1 {
			n, err := strconv.Atoi(a.Vals[0])
			if err != nil {
				panic(err)
			}
			return n
		}
	}
	return def
}

func (w *world) command(t *testing.T, d *datadriven.TestData) {
	var names []string
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			names = append(names, a.Key)
		}
	}
	var n *node
	if len(names) > 0 && len(names[0]) == 1 {
		n = w.node(names[0])
	}
	switch d.Cmd {
	case "boot":
		for _, a := range d.CmdArgs {
			if a.Key == "as" {
				w.node(names[0]).stable = a.Vals[0]
			}
		}
		for _, name := range names {
			w.boot(name)
		}
	case "run":
		w.run(int64(intArg(d, "ms", 100)))
	case "skip":
		w.quiet = true
		w.run(int64(intArg(d, "ms", 100)))
		w.quiet = false
	case "crash":
		for _, name := range names {
			w.crash(name)
		}
	case "pause":
		n.paused = true
	case "resume":
		n.paused = false
	case "evict":
		w.leave(n)
	case "shutdown":
		for _, name := range names {
			w.step(w.node(name), EvShutdown{})
		}
	case "hold":
		w.hold[names[0]] = true
	case "release":
		w.release(names[0])
	case "fail":
		w.step(n, EvTaskFailed{Incarnation: n.m.log.start.incOf(n.m.part.tasks[0]), Tasks: n.m.part.tasks[:1], Error: "user error"})
	case "decline":
		w.step(n, EvDeclined{N: w.fold.undecided.n, Reason: DeclineUpload, Detail: "disk full"})
	case "restore":
		w.step(n, EvRestore{N: ids.CheckpointID(intArg(d, "n", 0)), AllowDuplicates: len(names) > 1})
	case "lost":
		c := w.fold.last()
		w.step(n, EvCommitLost{N: c.ref.N, Owner: n.self, Handle: c.acks[0].Ack.Txns[0].Handle, LogEnd: int64(len(w.log)), Detail: "INVALID_TXN_STATE"})
	case "forfeit":
		w.cfg.ForfeitAll = true
	case "ids":
		w.step(n, EvWantIDs{Count: intArg(d, "count", 0)})
	case "deaf", "hears":
		n.deaf = d.Cmd == "deaf"
	case "age":
		w.age = int64(intArg(d, "ms", 100))
	case "evidence":
		w.step(n, EvLossLooked{Evidence: "group offsets carry the tag 0000000000000007/99"})
	case "loglost":
		w.step(n, EvLogLost{Detail: "end 3, read 9"})
	case "other":
		w.cfg.Fingerprint = "f2"
	case "log":
		for i, r := range w.log {
			w.printf("[%d] %s#%d %s", i, shortID(r.Instance), r.Seq, describeBody(r.Body))
		}
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
}
