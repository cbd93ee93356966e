// Command wordcount counts words: the smallest service that keeps state.
package main

import (
	"context"
	"errors"
	"flag"
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
	checkpoints := flag.String("checkpoints", "", "`folder` for checkpoints, which all instances share; required with -brokers")
	state := flag.String("state", "", "local `folder` for state; none: one in the system's temporary folder")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *brokers == "":
		err = demo(ctx)
	case *checkpoints == "":
		err = errors.New("-brokers needs -checkpoints: a folder for checkpoints, which all instances share")
	default:
		err = serve(ctx, *brokers, *checkpoints, *state)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve runs one instance of the service until ctx ends. Start more of them to
// share the work.
func serve(ctx context.Context, brokers, checkpoints, state string) error {
	topology, err := Topology()
	if err != nil {
		return err
	}
	app, err := tidegate.New(topology,
		tidegate.WithApplicationID("wordcount"),
		tidegate.WithBrokers(strings.Split(brokers, ",")...),
		tidegate.WithCheckpointDir(checkpoints),
		tidegate.WithStateDir(state),
		tidegate.WithCheckpointInterval(time.Second))
	if err != nil {
		return err
	}
	return app.Run(ctx)
}
