package tidegate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

var (
	// readings keeps the readings of each sensor by time.
	readings = tidegate.WindowStore("readings", time.Hour, serde.String(), serde.Int64())
	// quiet remembers whom it warned about within the last ten minutes.
	warned = tidegate.KeyValueStore("warned", serde.String(), serde.Int64()).TTL(10 * time.Minute)
	// alarms is a second output.
	alarms = tidegate.Output("alarms", tidegate.With(serde.String(), serde.Int64()))
)

// average sends the mean of a sensor's readings of the last twelve minutes, and
// those above 50 to the alarms, at most every ten minutes.
type average struct {
	ctx      *tidegate.ValueContext[string, int64]
	readings *tidegate.WindowKV[string, int64]
	warned   *tidegate.KV[string, int64]
	alarms   *tidegate.Outlet[string, int64]
}

func (a *average) Init(ctx *tidegate.ValueContext[string, int64]) (err error) {
	a.ctx = ctx
	if a.readings, err = ctx.WindowStore(readings); err != nil {
		return err
	}
	if a.warned, err = ctx.Store(warned); err != nil {
		return err
	}
	a.alarms, err = ctx.Output(alarms)
	return err
}

func (a *average) Process(sensor string, v tidegate.Opt[int64]) error {
	now, reading := a.ctx.Record().Timestamp, v.Or(0)
	if err := a.readings.Put(sensor, now, reading); err != nil {
		return err
	}
	if reading > 50 {
		if err := a.alarm(sensor, reading); err != nil {
			return err
		}
	}
	var sum, n int64
	err := a.readings.Fetch(sensor, now-12*time.Minute.Milliseconds(), now+1, func(_, v int64) bool {
		sum, n = sum+v, n+1
		return true
	})
	if err != nil {
		return err
	}
	return a.ctx.Forward(sum / n)
}

func (a *average) alarm(sensor string, reading int64) error {
	_, had, err := a.warned.PutIfAbsent(sensor, reading)
	if err != nil || had {
		return err
	}
	return a.alarms.Forward(sensor, reading)
}

// A processor that keeps the keys, with a window store that is scanned by key, a
// store whose entries expire, and a second output.
func ExampleStream_ProcessValues() {
	b := tidegate.NewBuilder()
	averages := b.Stream("sensors", serde.String(), serde.Int64()).
		ProcessValues("average", func() tidegate.ValueProcessor[string, int64, int64] { return &average{} },
			readings, warned, alarms)
	averages.As(serde.String(), serde.Int64()).To("averages")
	averages.Output(alarms).To("alarms")
	top, err := b.Build()
	if err != nil {
		panic(err)
	}

	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		in := d.Input("sensors", serde.String(), serde.Int64())
		for i, v := range []int64{10, 20, 60, 70, 80} {
			in.Pipe("boiler", v, tidegatetest.At(int64(i)*6*60_000))
		}
		fmt.Println(d.Output("averages", serde.String(), serde.Int64()).ReadValues())
		fmt.Println(d.Output("alarms", serde.String(), serde.Int64()).ReadValues())
	})
	// Output:
	// [10 15 30 50 70]
	// [60 80]
}

// tasks is what each worker has to do, in order.
var tasks = tidegate.ListStore("tasks", serde.String(), serde.String())

// queue takes tasks, and gives them out when a worker is ready.
type queue struct {
	ctx   *tidegate.ProcessorContext[string, string]
	tasks *tidegate.ListKV[string, string]
}

func (q *queue) Init(ctx *tidegate.ProcessorContext[string, string]) (err error) {
	q.ctx = ctx
	q.tasks, err = ctx.ListStore(tasks)
	return err
}

func (q *queue) Process(worker string, v tidegate.Opt[string]) error {
	if task := v.Or(""); task != "ready" {
		return q.tasks.Append(worker, task)
	}
	task, ok, err := q.tasks.RemoveFirst(worker)
	if err != nil || !ok {
		return err
	}
	return q.ctx.Forward(worker, task)
}

// A list per key, and a look into it from a test.
func ExampleListStore() {
	b := tidegate.NewBuilder()
	b.Stream("requests", serde.String(), serde.String()).
		Process("queue", func() tidegate.Processor[string, string, string, string] { return &queue{} }, tasks).
		As(serde.String(), serde.String()).To("work")
	top, err := b.Build()
	if err != nil {
		panic(err)
	}

	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		in := d.Input("requests", serde.String(), serde.String())
		for _, v := range []string{"sweep", "wash", "dry", "ready"} {
			in.Pipe("ann", v)
		}
		fmt.Println(d.Output("work", serde.String(), serde.String()).ReadValues())
		fmt.Println(d.ListStore("tasks", serde.String(), serde.String()).Get("ann"))
	})
	// Output:
	// [sweep]
	// [wash dry]
}
