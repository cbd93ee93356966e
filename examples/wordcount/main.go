// Command wordcount counts words: the smallest service that keeps state.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tidegate/tidegate"
)

func main() {
	brokers := flag.String("brokers", "", "Kafka `host:port`, comma-separated; none: a broker in this process, with sample data")
	checkpoints := flag.String("checkpoints", "", "`folder` for checkpoints, which all instances share; required with -brokers in barrier mode")
	modeName := flag.String("mode", "barrier", "how state outlasts failures, a `mode`: barrier (checkpoints) or changelog (topics)")
	state := flag.String("state", "", "local `folder` for state; none: one in the system's temporary folder")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	mode, err := modeOf(*modeName)
	switch {
	case err != nil:
	case *brokers == "":
		err = demo(ctx, mode)
	case *checkpoints == "" && mode == tidegate.Barrier:
		err = errors.New("-brokers needs -checkpoints: a folder for checkpoints, which all instances share")
	default:
		err = serve(ctx, *brokers, *checkpoints, *state, mode)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func modeOf(name string) (tidegate.Mode, error) {
	for _, mode := range []tidegate.Mode{tidegate.Barrier, tidegate.Changelog} {
		if name == mode.String() {
			return mode, nil
		}
	}
	return 0, fmt.Errorf("-mode %q: want barrier or changelog", name)
}

// serve runs one instance of the service until ctx ends. Start more of them to
// share the work.
func serve(ctx context.Context, brokers, checkpoints, state string, mode tidegate.Mode) error {
	app, err := newApp(brokers, checkpoints, state, mode)
	if err != nil {
		return err
	}
	return app.Run(ctx)
}

func newApp(brokers, checkpoints, state string, mode tidegate.Mode) (*tidegate.App, error) {
	topology, err := Topology()
	if err != nil {
		return nil, err
	}
	return tidegate.New(topology,
		tidegate.WithApplicationID("wordcount"),
		tidegate.WithBrokers(strings.Split(brokers, ",")...),
		tidegate.WithMode(mode), // the one line that differs between the modes
		tidegate.WithCheckpointDir(checkpoints),
		tidegate.WithStateDir(state),
		tidegate.WithCheckpointInterval(time.Second))
}
