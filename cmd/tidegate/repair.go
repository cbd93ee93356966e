package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/dir"
	"github.com/tidegate/tidegate/checkpoint/s3"
	"github.com/tidegate/tidegate/runtime"
)

// repair shows, or makes room for, a new life of an application that begins with a
// checkpoint of the earlier one. repair and upgrade do the same for different
// reasons: the control log was lost, or the topology changes.
func repair(name string, args []string, out io.Writer) int {
	fs := flag.NewFlagSet("tidegate "+name, flag.ContinueOnError)
	fs.SetOutput(out)
	brokers := fs.String("brokers", "", "brokers as host:port, separated by commas")
	application := fs.String("application", "", "application id")
	var where storeFlags
	where.define(fs, "the checkpoint store: a directory, or s3://BUCKET/PREFIX")
	include := fs.String("include", "", "as in tidegate reset")
	execute := fs.Bool("execute", false, "delete what must go; without it only shown")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if *brokers == "" || *application == "" || where.checkpoints == "" || fs.NArg() > 0 {
		fmt.Fprintf(out, "usage: tidegate %s --brokers HOST:PORT,… --application ID --checkpoints DIR|s3://BUCKET/PREFIX [--execute]\n", name)
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), resetFor)
	defer cancel()
	fail := func(err error) int {
		fmt.Fprintf(out, "tidegate %s: %v\n", name, err)
		return 1
	}
	store, err := where.open(ctx)
	if err != nil {
		return fail(err)
	}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	plan, err := runtime.PlanRepair(ctx, strings.Split(*brokers, ","), *application, store, log)
	if err != nil {
		return fail(err)
	}
	defer plan.Close()
	if *include != "" {
		if err := plan.Include(strings.Split(*include, ",")...); err != nil {
			return fail(err)
		}
	}
	newest, ok := showRepair(plan, out)
	switch {
	case !ok:
		return fail(fmt.Errorf("no checkpoint in %s can begin a new life of application %q", store, plan.Application))
	case !*execute:
		fmt.Fprintln(out, "Nothing was deleted. With all instances stopped, say --execute.")
		return 0
	}
	if err := plan.Execute(ctx); err != nil {
		return fail(err)
	}
	fmt.Fprintf(out, "deleted; start the application with tidegate.StartFrom(%q)\n", newest.Name)
	return 0
}

// storeFlags name a checkpoint store.
type storeFlags struct {
	checkpoints, endpoint string
	pathStyle             bool
}

func (f *storeFlags) define(fs *flag.FlagSet, usage string) {
	fs.StringVar(&f.checkpoints, "checkpoints", "", usage)
	fs.StringVar(&f.endpoint, "endpoint", "", "URL of an S3 server other than Amazon's")
	fs.BoolVar(&f.pathStyle, "path-style", false, "put the bucket in the path of S3 requests")
}

// open opens the store, which must be the one that the application has.
func (f *storeFlags) open(ctx context.Context) (checkpoint.Store, error) {
	rest, remote := strings.CutPrefix(f.checkpoints, "s3://")
	if !remote {
		return dir.New(f.checkpoints)
	}
	bucket, prefix, _ := strings.Cut(rest, "/")
	return s3.New(ctx, s3.Config{Bucket: bucket, Prefix: prefix, Endpoint: f.endpoint, PathStyle: f.pathStyle})
}

// showRepair says what there is, and what a new life would lose or double.
func showRepair(plan *runtime.Repair, out io.Writer) (newest runtime.RepairPoint, ok bool) {
	for _, p := range plan.Checkpoints {
		note := ""
		if !p.Usable {
			note = ", not usable: records were in flight between its tasks"
		}
		fmt.Fprintf(out, "checkpoint %s taken %s, topology %s%s\n", p.Name, p.Created.Format(time.RFC3339), p.Topology, note)
	}
	if newest, ok = plan.Newest(); !ok {
		return newest, false
	}
	switch {
	case plan.Tag == "":
		fmt.Fprintln(out, "The consumer group has no offsets of tidegate's: how much was committed behind the newest checkpoint is not known. That output is written a second time.")
	case len(plan.Ahead) > 0:
		fmt.Fprintf(out, "The consumer group's offsets were written by checkpoint %s. Output of this input is written a second time:\n", plan.Tag)
		for _, a := range plan.Ahead {
			fmt.Fprintf(out, "  %s\n", a)
		}
	default:
		fmt.Fprintf(out, "The consumer group's offsets were written by checkpoint %s: no input behind the newest checkpoint is known to be committed.\n", plan.Tag)
	}
	fmt.Fprintln(out, "No input is left out. Output that was written and not committed stays hidden, and is written again.")
	fmt.Fprintf(out, "To be deleted:\n  consumer group %s with its offsets\n", plan.Application)
	for _, t := range plan.Topics {
		fmt.Fprintf(out, "  topic %s\n", t)
	}
	for _, a := range plan.Ambiguous {
		fmt.Fprintf(out, "Left alone: topic %s can be that of application %s (%s); if it is this one's, add: --include %s\n", a.Topic, a.Other, a.Trace, a.Topic)
	}
	return newest, true
}
