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

// settings are what instances of the service differ in, and where they find each
// other.
type settings struct {
	brokers, checkpoints, state, name string
	mode                              tidegate.Mode
	standbys                          int
	static                            bool
}

func main() {
	var s settings
	flag.StringVar(&s.brokers, "brokers", "", "Kafka `host:port`, comma-separated; none: a broker in this process, with sample data")
	flag.StringVar(&s.checkpoints, "checkpoints", "", "`folder` for checkpoints, which all instances share; required with -brokers in barrier mode")
	modeName := flag.String("mode", "barrier", "how state outlasts failures, a `mode`: barrier (checkpoints) or changelog (topics)")
	flag.StringVar(&s.state, "state", "", "local `folder` for state, one per instance; none: a free one in the system's temporary folder")
	flag.StringVar(&s.name, "name", "", "`name` of the instance; none: one that is kept in the folder for state")
	flag.IntVar(&s.standbys, "standbys", 0, "how many other instances keep a copy of a task's state")
	flag.BoolVar(&s.static, "static", false, "wait for an instance that stops or crashes to come back, for the session timeout")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	s.mode, err = modeOf(*modeName)
	switch {
	case err != nil:
	case s.brokers == "":
		err = demo(ctx, s)
	case s.checkpoints == "" && s.mode == tidegate.Barrier:
		err = errors.New("-brokers needs -checkpoints: a folder for checkpoints, which all instances share")
	default:
		err = serve(ctx, s)
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
func serve(ctx context.Context, s settings) error {
	app, err := newApp(s)
	if err != nil {
		return err
	}
	return app.Run(ctx)
}

func newApp(s settings) (*tidegate.App, error) {
	topology, err := Topology()
	if err != nil {
		return nil, err
	}
	options := []tidegate.Option{
		tidegate.WithApplicationID("wordcount"),
		tidegate.WithBrokers(strings.Split(s.brokers, ",")...),
		tidegate.WithMode(s.mode), // the one line that differs between the modes
		tidegate.WithCheckpointDir(s.checkpoints),
		tidegate.WithStateDir(s.state),
		tidegate.WithInstanceName(s.name),
		tidegate.WithStandbys(s.standbys),
		tidegate.WithCheckpointInterval(time.Second),
	}
	if s.static {
		options = append(options, tidegate.WithStaticMembership())
	}
	return tidegate.New(topology, options...)
}
