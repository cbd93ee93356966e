package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/tidegate/tidegate/runtime"
)

// resetFor bounds the command: deleting many topics takes a while.
const resetFor = 2 * time.Minute

// reset deletes what an application keeps in Kafka, or shows what it would.
func reset(args []string, out io.Writer) int {
	fs := flag.NewFlagSet("tidegate reset", flag.ContinueOnError)
	fs.SetOutput(out)
	brokers := fs.String("brokers", "", "brokers as host:port, separated by commas")
	application := fs.String("application", "", "application id")
	include := fs.String("include", "", "topics, separated by commas, that are this application's although another one could have them")
	var where storeFlags
	where.define(fs, "the checkpoint store, if the application ran in barrier mode: a directory, or s3://BUCKET/PREFIX")
	execute := fs.Bool("execute", false, "delete; without it only shown")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if *brokers == "" || *application == "" || fs.NArg() > 0 {
		fmt.Fprintln(out, "usage: tidegate reset --brokers HOST:PORT,… --application ID [--checkpoints DIR|s3://BUCKET/PREFIX] [--include TOPIC,…] [--execute]")
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), resetFor)
	defer cancel()
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	plan, err := runtime.PlanReset(ctx, strings.Split(*brokers, ","), *application, log)
	if err != nil {
		fmt.Fprintf(out, "tidegate reset: %v\n", err)
		return 1
	}
	defer plan.Close()
	objects := 0
	if where.checkpoints != "" {
		store, err := where.open(ctx)
		if err == nil {
			objects, err = plan.AddStore(ctx, store)
		}
		if err != nil {
			fmt.Fprintf(out, "tidegate reset: %v\n", err)
			return 1
		}
	}
	if *include != "" {
		if err := plan.Include(strings.Split(*include, ",")...); err != nil {
			fmt.Fprintf(out, "tidegate reset: --include: %v\n", err)
			return 1
		}
	}
	fmt.Fprintf(out, "consumer group %s with its offsets\n", plan.Application)
	for _, t := range plan.Topics {
		fmt.Fprintf(out, "topic %s\n", t)
	}
	if where.checkpoints != "" {
		fmt.Fprintf(out, "%d objects of %s\n", objects, where.checkpoints)
	} else {
		fmt.Fprintln(out, "left alone: checkpoints, with which barrier mode does not begin anew; if it ran in that mode, add: --checkpoints DIR|s3://BUCKET/PREFIX")
	}
	var left []string
	for _, a := range plan.Ambiguous {
		fmt.Fprintf(out, "left alone: topic %s can be that of application %s (%s)\n", a.Topic, a.Other, a.Trace)
		left = append(left, a.Topic)
	}
	if len(left) > 0 {
		fmt.Fprintf(out, "What of these is application %s's, add: --include %s\n", plan.Application, strings.Join(left, ","))
	}
	if !*execute {
		fmt.Fprintln(out, "Nothing was deleted. If all of that is this application's, say --execute.")
		return 0
	}
	if err := plan.Execute(ctx); err != nil {
		fmt.Fprintf(out, "tidegate reset: %v\n", err)
		return 1
	}
	fmt.Fprintln(out, "deleted; the application begins as if it had never run")
	return 0
}
