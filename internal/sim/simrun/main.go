// Command simrun runs the seeded simulation of the checkpoint protocol:
//
//	go run ./internal/sim/simrun -seeds 1000             many seeds
//	go run ./internal/sim/simrun -seed 17                one seed; a failure prints its trace
//	go run ./internal/sim/simrun -mutate all             rules removed in turn: each must be found
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/sim"
)

// defaultTail is enough to see what the violated check is about.
const defaultTail = 60

func main() {
	seeds := flag.Int("seeds", 1000, "number of seeds")
	from := flag.Uint64("from", 1, "first seed")
	seed := flag.String("seed", "", "run this seed only")
	mutate := flag.String("mutate", "", "remove a rule (R6, R18/no-order-wait, …) or, with all, each in turn")
	steps := flag.Int("steps", sim.DefaultSteps, "steps with faults per seed, at least 500")
	tail := flag.Int("tail", defaultTail, "lines of trace that a failing seed prints; more than the default prints them in any case")
	flag.Parse()
	if err := run(*seeds, *from, *seed, *mutate, max(*steps, 500), *tail); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

func run(seeds int, from uint64, seed, mutate string, steps, tail int) error {
	var one *uint64
	if seed != "" {
		n, err := strconv.ParseUint(seed, 10, 64)
		if err != nil {
			return fmt.Errorf("seed %q: want a number", seed)
		}
		one = &n
	}
	if mutate != "" {
		return runMutants(seeds, one, mutate, steps, tail)
	}
	if one != nil {
		r := sim.Run(*one, sim.Options{Steps: steps, Trace: true})
		fmt.Printf("seed %d: %s\n", *one, r.Plan)
		printTotals(1, r.Stats, 0)
		return report(r, tail)
	}
	start := time.Now()
	var total sim.Stats
	for n := range seeds {
		r := sim.Run(from+uint64(n), sim.Options{Steps: steps})
		total.Add(r.Stats)
		if r.Err != nil {
			printTotals(n+1, total, time.Since(start))
			again := sim.Run(r.Seed, sim.Options{Steps: steps, Trace: true})
			fmt.Printf("replay: make sim SEED=%d (or -seed %d -steps %d)\n%s\n", r.Seed, r.Seed, steps, again.Plan)
			return report(again, tail)
		}
	}
	printTotals(seeds, total, time.Since(start))
	return nil
}

// report prints the end of a failing seed's trace.
func report(r sim.Result, tail int) error {
	if r.Err == nil {
		fmt.Printf("seed %d passes, hash %016x\n", r.Seed, r.Hash)
	}
	if r.Err != nil || tail > defaultTail {
		for _, line := range r.Trace[max(0, len(r.Trace)-tail):] {
			fmt.Println(line)
		}
	}
	if r.Err == nil {
		return nil
	}
	return fmt.Errorf("seed %d: %w", r.Seed, r.Err)
}

func printTotals(seeds int, s sim.Stats, d time.Duration) {
	fmt.Printf("seeds %d steps %d crashes %d stalls %d starts %d clean stops %d triggers %d completes %d aborts %d rollbacks %d restores %d\n",
		seeds, s.Steps, s.Crashes, s.Stalls, s.Starts, s.CleanStops, s.Triggers, s.Completes, s.Aborts, s.Rollbacks, s.Restores)
	fmt.Printf("handovers %d moved tasks %d task failures %d partial rollbacks %d checkpoints that carry tasks over %d\n", s.Handovers, s.MovedTasks, s.TaskFailures, s.Partial, s.CarryingOver)
	fmt.Printf("log records read again %d written while two lead %d EndTxn unanswered %d InitProducerId unanswered %d restores while tasks move %d tasks followed %d\n",
		s.Rereads, s.TwoLeaders, s.UnansweredEnds, s.UnansweredInits, s.RestoredMoves, s.Followed)
	fmt.Printf("snapshots %d trims %d starts from a snapshot %d driven out by a trim %d lost transactions given up %d\n", s.Snapshots, s.Trims, s.Sought, s.TrimmedOut, s.Forfeits)
	fmt.Printf("zombie writes %d late requests %d broker transaction timeouts %d lost by timeout %d dropped and read again %d cuts with in-flight records %d outputs checked %d\n",
		s.ZombieWrites, s.LateRequests, s.TxnTimeouts, s.LostByTimeout, s.Drops, s.InFlightCuts, s.Outputs)
	if d > 0 {
		fmt.Printf("time per seed %.1f ms, steps per seed %d\n", float64(d.Microseconds())/1000/float64(seeds), s.Steps/seeds)
	}
}

func runMutants(seeds int, one *uint64, name string, steps, tail int) error {
	mutants, err := sim.FindMutants(name)
	if err != nil {
		return err
	}
	survived := 0
	for _, m := range mutants {
		if one != nil {
			r := sim.Run(*one, sim.Options{Steps: steps, Rules: m.Rules, Trace: true})
			fmt.Printf("%s: ", m.Name)
			if err := report(r, tail); err != nil {
				fmt.Println(err)
			}
			continue
		}
		start := time.Now()
		r, found := sim.Hunt(m, seeds, steps)
		if !found {
			survived++
			fmt.Printf("%-22s NOT FOUND in %d seeds (%.1f s)\n", m.Name, seeds, time.Since(start).Seconds())
			continue
		}
		fmt.Printf("%-22s found by seed %d (%.1f s): %v\n", m.Name, r.Seed, time.Since(start).Seconds(), r.Err)
	}
	if survived > 0 {
		return fmt.Errorf("%d mutants were not found", survived)
	}
	return nil
}
