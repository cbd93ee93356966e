package integration

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

func init() { topologies["burst"] = bursting }

// burstWidth is how many records the application of the memory test makes of one.
const burstWidth = 4

// bursting makes several records of each, groups them, and takes its time: what
// it reads and makes piles up in front of the slow step. Its state holds what it
// read.
func bursting(p string) (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()
	taken := 0
	b.Stream(p+"in", serde.String(), serde.String()).
		FlatMap(func(k, v string) iter.Seq2[string, string] {
			return func(yield func(string, string) bool) {
				for i := range burstWidth {
					if !yield(fmt.Sprintf("%s/%d", k, i), v) {
						return
					}
				}
			}
		}, tidegate.With(serde.String(), serde.String())).
		GroupByKey("by-part").
		Aggregate("latest", func() string { return "" }, func(_, v, a string) string {
			if taken++; taken%64 == 0 {
				time.Sleep(2 * time.Millisecond)
			}
			n, _, _ := strings.Cut(a, " ")
			count, _ := strconv.Atoi(n)
			return strconv.Itoa(count+1) + " " + v
		}, serde.String()).
		ToStream().
		MapValues(func(v string) int64 {
			n, _, _ := strings.Cut(v, " ")
			count, _ := strconv.ParseInt(n, 10, 64)
			return count
		}, serde.Int64()).
		To(p + "out")
	return b.Build()
}

// peakMemory is the largest resident memory that a process ever had, in bytes.
func peakMemory(l *lab, p *servers.Process) int64 {
	l.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	l.must(err)
	for line := range strings.Lines(string(b)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	l.Fatal("the system does not tell the peak memory of a process")
	return 0
}

// TestFaultMemory: all input, much more than the process may use, lies in one of
// four partitions; a step makes four records of each, and the next one is slow.
// With WithMemory and GOMEMLIMIT the process stays within what its option
// promises, and every output appears once. Real Kafka and S3, a real process.
func TestFaultMemory(t *testing.T) {
	onlyMakeFaults(t)
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("the peak memory of a process is read from /proc, which this system does not have")
	}
	const memory, records, keys, size = 32 << 20, 60_000, 4000, 1000
	l := newLab(t, "burst", 4)
	l.extend(4 * time.Minute)
	l.base.Memory = memory
	l.base.AlignmentBytes = 0 // a part of the total
	l.env = []string{"GOMEMLIMIT=120MiB"}
	committed := 0
	r, err := l.client.Follow(l.topic("out"), l.parts, true, func(testkit.Message) {})
	l.must(err)
	t.Cleanup(r.Close)
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, size)
	for from := 0; from < records; from += 5000 {
		var in []testkit.Message
		for i := range 5000 {
			for k := range noise {
				noise[k] = byte('!' + rng.IntN(90))
			}
			in = append(in, testkit.Message{
				Key: fmt.Appendf(nil, "k%d", (from+i)%keys), Value: append([]byte(nil), noise...), Timestamp: 1_700_000_000_000 + int64(from+i),
			})
		}
		l.produce(in...)
	}
	begun := time.Now()
	c := l.start("a")
	c.awaitRunning()
	want := records * burstWidth
	l.eventually(3*time.Minute, "all output is visible", func() bool { committed = r.Count(); return committed >= want })
	peak := peakMemory(l, c.p)
	c.close()
	if committed != want {
		t.Fatalf("%d records, want %d", committed, want)
	}
	limit := int64(2*memory + 100<<20)
	t.Logf("peak memory %d MiB of %d promised, total given %d MiB; input %d MiB in one partition, %d MiB between the steps; %v",
		peak>>20, limit>>20, memory>>20, records*size>>20, records*size*burstWidth>>20, time.Since(begun).Round(time.Second))
	if peak > limit {
		t.Fatalf("peak memory %d MiB, want at most %d", peak>>20, limit>>20)
	}
}
