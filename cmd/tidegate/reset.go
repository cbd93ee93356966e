package main

import (
	"context"
	"fmt"
	"io"

	"github.com/tidegate/tidegate/runtime"
)

// reset deletes what an application keeps in Kafka, or shows what it would.
func reset(args []string, out io.Writer) int {
	c := command{name: "reset", out: out}
	if !c.parse(args, true) {
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandFor)
	defer cancel()
	cluster, err := c.cluster()
	if err != nil {
		return c.fail(err)
	}
	plan, err := runtime.PlanReset(ctx, cluster, c.application, c.log())
	if err != nil {
		return c.fail(err)
	}
	defer plan.Close()
	if err := c.take(plan); err != nil {
		return c.fail(err)
	}
	c.show(plan)
	if err := c.showObjects(ctx, plan); err != nil {
		return c.fail(err)
	}
	if !c.execute {
		fmt.Fprintln(out, "Nothing was deleted. If all of that is this application's, and all instances are stopped, say --execute.")
		return 0
	}
	if err := plan.Execute(ctx); err != nil {
		return c.fail(err)
	}
	fmt.Fprintln(out, "deleted; the application begins as if it had never run")
	return 0
}

// showObjects adds the objects of the store to what is to be deleted.
func (c *command) showObjects(ctx context.Context, plan *runtime.Reset) error {
	if c.checkpoints == "" {
		fmt.Fprintln(c.out, "Left alone: checkpoints, with which barrier mode does not begin anew; if it ran in that mode, add: --checkpoints DIR|s3://BUCKET/PREFIX")
		return nil
	}
	store, err := c.store(ctx)
	if err != nil {
		return err
	}
	objects, err := plan.AddStore(ctx, store)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "  %d objects of %s\n", objects, c.checkpoints)
	return nil
}
