package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/tidegate/tidegate/runtime"
)

// repair shows, or makes room for, a new life of an application that begins with a
// checkpoint of the earlier one. repair and upgrade do the same for different
// reasons: what was in Kafka is lost, or the topology changes.
func repair(name string, args []string, out io.Writer) int {
	c := command{name: name, out: out}
	if !c.parse(args, false) {
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandFor)
	defer cancel()
	store, err := c.store(ctx)
	if err != nil {
		return c.fail(err)
	}
	cluster, err := c.cluster()
	if err != nil {
		return c.fail(err)
	}
	plan, err := runtime.PlanRepair(ctx, cluster, c.application, store, c.log())
	if err != nil {
		return c.fail(err)
	}
	defer plan.Close()
	if err := c.take(plan.Reset); err != nil {
		return c.fail(err)
	}
	newest, ok := c.showCheckpoints(plan)
	if !ok {
		return c.fail(fmt.Errorf("no checkpoint in %s can begin a new life of application %q", store, plan.Application))
	}
	c.show(plan.Reset)
	if !c.execute {
		fmt.Fprintln(out, "Nothing was deleted. With all instances stopped, say --execute.")
		return 0
	}
	if err := plan.Execute(ctx); err != nil {
		return c.fail(err)
	}
	fmt.Fprintf(out, "deleted; start the application with tidegate.StartFrom(%q)\n", newest.Name)
	return 0
}

// showCheckpoints says what there is, and what a new life that begins with the
// newest of them would write again.
func (c *command) showCheckpoints(plan *runtime.Repair) (newest runtime.RepairPoint, ok bool) {
	for _, p := range plan.Checkpoints {
		fmt.Fprintf(c.out, "checkpoint %s", p.Name)
		if !p.Created.IsZero() {
			fmt.Fprintf(c.out, " taken %s, topology %s", p.Created.Format(time.RFC3339), p.Topology)
		}
		if p.Unusable != "" {
			fmt.Fprintf(c.out, ", not usable: %s", p.Unusable)
		}
		fmt.Fprintln(c.out)
	}
	if newest, ok = plan.Newest(); !ok {
		return newest, false
	}
	switch {
	case plan.Tag == "":
		fmt.Fprintf(c.out, "The consumer group has no offsets of tidegate's: how much was committed behind checkpoint %s is not known. That output is written a second time.\n", newest.Name)
	case len(plan.Ahead) > 0:
		fmt.Fprintf(c.out, "The consumer group's offsets were written by checkpoint %s. Behind checkpoint %s the output of this input is written a second time:\n", plan.Tag, newest.Name)
		for _, a := range plan.Ahead {
			fmt.Fprintf(c.out, "  %s\n", a)
		}
	default:
		fmt.Fprintf(c.out, "The consumer group's offsets were written by checkpoint %s: no input behind checkpoint %s is known to be committed.\n", plan.Tag, newest.Name)
	}
	fmt.Fprintln(c.out, "No input is left out. Output that was written and not committed stays hidden, and is written again.")
	return newest, true
}
