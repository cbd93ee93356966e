// Command takeover kills an instance (kill -9) whose tasks hold many keys, and
// says how long their output stands still from the moment at which the group
// misses it, so without the session timeout: with a warm standby on the other
// instance, and without, when that one downloads the state first.
//
//	takeover [-keys 10000000] [-partitions 4] [-interval 1s] [-most 2s]
//
// Two instances in processes of their own share a group; the keys are chosen so
// that the tasks of one of them hold all. That one is also the coordinator. Records
// with the time in them go to every partition all the while, and a read_committed
// consumer notes when each comes out.
//
// It fails when the takeover with a standby takes longer than -most from the miss
// to the first new output.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tidegate/tidegate/integration/servers"
)

// settings are the flags.
type settings struct {
	keys       int
	valueBytes int
	partitions int
	interval   time.Duration
	session    time.Duration
	most       time.Duration
	keep       string
}

func main() {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(childMain(text))
	}
	var s settings
	flag.IntVar(&s.keys, "keys", 10_000_000, "keys of the tasks that are taken over")
	flag.IntVar(&s.valueBytes, "value-bytes", 32, "bytes of a value, random, at least 16")
	flag.IntVar(&s.partitions, "partitions", 4, "partitions of the input, an even number")
	flag.DurationVar(&s.interval, "interval", time.Second, "checkpoint interval")
	flag.DurationVar(&s.session, "session", 3*time.Second, "session timeout")
	flag.DurationVar(&s.most, "most", 2*time.Second, "longest takeover with a standby, from the miss to the first new output")
	flag.StringVar(&s.keep, "logs", "", "keep the instances' logs in this folder")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	err := run(ctx, s)
	cancel()
	stop()
	if cerr := servers.CloseAll(); err == nil {
		err = cerr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "takeover:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	if s.keys < 1 || s.valueBytes < 16 || s.partitions < 2 || s.partitions%2 != 0 {
		return fmt.Errorf("-keys %d -value-bytes %d -partitions %d: want at least one key, 16 bytes, and an even number of partitions", s.keys, s.valueBytes, s.partitions)
	}
	w, err := newWorld(ctx, s)
	if err != nil {
		return err
	}
	defer w.close()
	first, other, err := w.begin(ctx)
	if err != nil {
		return err
	}
	with, err := w.takeover(ctx, first, other, true)
	if err != nil {
		return err
	}
	fmt.Println("with a warm standby:", with)
	first, other, err = w.again(ctx, other)
	if err != nil {
		return err
	}
	without, err := w.takeover(ctx, first, other, false)
	if err != nil {
		return err
	}
	fmt.Println("without:            ", without)
	if with.first > s.most {
		return fmt.Errorf("with a warm standby the first new output came %v after the miss, allowed are %v", with.first.Round(time.Millisecond), s.most)
	}
	return nil
}
