package tidegate_test

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
)

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

var restoredRecords = regexp.MustCompile(`msg=restored .*records=(\d+)`)

// restored returns how many records all restores so far read.
func (l *lockedBuffer) restored() (starts, records int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range restoredRecords.FindAllSubmatch(l.b.Bytes(), -1) {
		n, _ := strconv.Atoi(string(m[1]))
		starts++
		records += n
	}
	return starts, records
}

// A standby's instance takes tasks over and reads next to nothing; without one it
// reads the whole changelog.
func TestStandby(t *testing.T) {
	for _, standbys := range []int{0, 1} {
		c := newCluster(t, map[string]int32{"in": 4, "out": 4})
		ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
		defer cancel()
		out, err := c.client.Read("out", 4, true)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		topo := counting(t, "in", "out")
		var log lockedBuffer
		opts := []tidegate.Option{tidegate.WithStandbys(standbys)}
		a := launch(ctx, t, c.logApp(topo, "a", opts...))
		b := launch(ctx, t, c.logApp(topo, "b", append(opts, tidegate.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))...))
		n := 0
		more := func(count int, apps ...*launched) {
			t.Helper()
			if err := c.client.Produce(ctx, "in", words(count, 5000, 4)); err != nil {
				t.Fatal(err)
			}
			n += count
			await(ctx, t, out, n, apps...)
		}
		for len(b.Health().Tasks) != 4 || b.State() != tidegate.Running || len(a.Health().Tasks) != 4 {
			more(100, a, b)
		}
		more(20000, a, b)
		_, before := log.restored()
		a.end()
		more(1000, b)
		_, after := log.restored()
		read := after - before
		if standbys == 0 && read < 1500 || standbys == 1 && read > 500 {
			t.Errorf("with %d standbys %d records were restored when the other instance left", standbys, read)
		}
		b.end()
		if got := checkRunning(t, out.All()); got != n {
			t.Fatalf("read %d records, want %d", got, n)
		}
	}
}
