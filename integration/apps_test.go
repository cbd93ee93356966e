package integration

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

// The applications of these tests. All read topic "in" (key and value are
// strings) and write "out"; names get the prefix of the test.
var topologies = map[string]func(prefix string) (*tidegate.Topology, error){
	"sums": sums, "counts": counts, "copy": copying, "stall": stalling, "late": lateSums,
}

// sums writes the running sum of the values of each key. No repartition.
func sums(p string) (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()
	b.Stream(p+"in", serde.String(), serde.String()).
		GroupByKey("by-key").
		Aggregate("sums", func() int64 { return 0 }, addNumber, serde.Int64()).
		ToStream().
		To(p + "out")
	return b.Build()
}

func addNumber(_, v string, sum int64) int64 {
	var n int64
	if _, err := fmt.Sscan(v, &n); err != nil {
		panic(err)
	}
	return sum + n
}

// counts groups by value and writes the running count of each: one hop.
func counts(p string) (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()
	b.Stream(p+"in", serde.String(), serde.String()).
		GroupBy("by-word", func(_, v string) string { return v }, serde.String()).
		Count("counts").
		ToStream().
		To(p + "out")
	return b.Build()
}

// copying repartitions and copies records with their headers.
func copying(p string) (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()
	b.Stream(p+"in", serde.String(), serde.String()).
		SelectKey(func(_, v string) string { k, _, _ := strings.Cut(v, " "); return k }, serde.String()).
		Repartition("by-first").
		To(p + "out")
	return b.Build()
}

// stallWord stops the process that meets it in its tracks, before the record
// goes on.
const stallWord = "stall"

// stalling is counts with a process that stops in the middle of a batch.
func stalling(p string) (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()
	b.Stream(p+"in", serde.String(), serde.String()).
		Peek(func(_, v string) {
			if v == stallWord {
				_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
			}
		}).
		GroupBy("by-word", func(_, v string) string { return v }, serde.String()).
		Count("counts").
		ToStream().
		To(p + "out")
	return b.Build()
}

var lateStore = tidegate.KeyValueStore("sums", serde.String(), serde.Int64())

// lateSums collects sums in a store and writes and forgets them when a timer
// fires: what is written depends on the store and on where the timer stood at
// the barrier.
func lateSums(p string) (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()
	b.Stream(p+"in", serde.String(), serde.String()).
		Process("late", func() tidegate.Processor[string, string, string, int64] { return &lateProcessor{} }, lateStore).
		As(serde.String(), serde.Int64()).
		To(p + "out")
	return b.Build()
}

type lateProcessor struct {
	ctx *tidegate.ProcessorContext[string, int64]
	kv  *tidegate.KV[string, int64]
}

func (l *lateProcessor) Init(c *tidegate.ProcessorContext[string, int64]) (err error) {
	l.ctx = c
	if l.kv, err = c.Store(lateStore); err != nil {
		return err
	}
	_, err = c.Schedule(10*time.Millisecond, tidegate.StreamTime, l.flush)
	return err
}

func (l *lateProcessor) flush(int64) error {
	type entry struct {
		k string
		v int64
	}
	var list []entry
	if err := l.kv.All(func(k string, v int64) bool { list = append(list, entry{k, v}); return true }); err != nil {
		return err
	}
	for _, e := range list {
		if err := errors.Join(l.ctx.Forward(e.k, e.v), l.kv.Delete(e.k)); err != nil {
			return err
		}
	}
	return nil
}

func (l *lateProcessor) Process(k string, v tidegate.Opt[string]) error {
	text, _ := v.Get()
	sum, _, err := l.kv.Get(k)
	if err != nil {
		return err
	}
	return l.kv.Put(k, addNumber(k, text, sum))
}
