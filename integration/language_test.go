package integration

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

// Sizes of the windows of the language's test, in milliseconds.
const (
	langWithin  = 40
	langGap     = 90
	langSize    = 100
	langAdvance = 50
	langStart   = int64(1_700_000_000_000)
	langEnd     = langStart + 3_600_000
	langGrace   = 30 * time.Minute
	langTick    = "tick"
)

func init() { topologies["language"] = language }

// language joins two repartitioned streams, counts one of them in sessions and in
// hopping windows whose results come when they close, and joins two tables by a
// foreign key.
func language(p string) (*tidegate.Topology, error) {
	const ms = time.Millisecond
	str := serde.String()
	b := tidegate.NewBuilder()
	input := func(topic, step string) *tidegate.Stream[string, string] {
		return b.Stream(p+topic, str, str).SelectKey(func(k, v string) string {
			if strings.HasPrefix(k, langTick) {
				return k
			}
			return langKey(v)
		}, str).Repartition(step).Filter(func(k, _ string) bool { return !strings.HasPrefix(k, langTick) })
	}
	left, right := input("in", "left"), input("right", "right")
	left.To(p + "left-out")
	right.To(p + "right-out")
	left.OuterJoinStream("join", right, tidegate.JoinWithin(langWithin*ms).Grace(langGrace),
		func(l, r tidegate.Opt[string]) string { return l.Or("-") + "," + r.Or("-") }, str).
		To(p + "joined")
	flat := func(w tidegate.Windowed[string], n int64) (string, string) {
		return fmt.Sprintf("%s@%d-%d", w.Key, w.Start-langStart, w.End-langStart), strconv.FormatInt(n, 10)
	}
	left.GroupByKey("sessions").SessionWindowedBy(tidegate.Session(langGap*ms).Grace(langGrace), tidegate.ByWindow).
		EmitOnClose().Count("sessions-count").ToStream().Map(flat, tidegate.With(str, str)).To(p + "sessions")
	left.GroupByKey("hops").WindowedBy(tidegate.Hopping(langSize*ms, langAdvance*ms).Grace(langGrace), tidegate.ByWindow).
		EmitOnClose().Count("hops-count").ToStream().Map(flat, tidegate.With(str, str)).To(p + "hops")
	b.Table(p+"orders", "orders", str, str).
		LeftJoinForeignKey("owner", b.Table(p+"customers", "customers", str, str), langForeign,
			func(l string, r tidegate.Opt[string]) string { return l + "," + r.Or("-") }, str).
		ToStream().To(p + "owned")
	return b.Build()
}

func langKey(v string) string {
	n, err := strconv.Atoi(v)
	if err != nil {
		panic(err)
	}
	return fmt.Sprint("g", n*7919%7)
}

func langForeign(_, v string) (string, bool) {
	c, _, named := strings.Cut(v, "|")
	return c, named
}

// TestLanguageOverAKill: stream-stream outer join, sessions and hopping windows on
// close behind repartition topics, and a foreign-key join, with two instances of
// which one dies by kill -9 in the middle of a checkpoint, give exactly what a
// plain evaluation gives. Real Kafka and S3, real processes.
func TestLanguageOverAKill(t *testing.T) {
	l := newLab(t, "language", 2)
	outs := []string{"left-out", "right-out", "joined", "sessions", "hops", "owned"}
	for _, topic := range append([]string{"right", "orders", "customers"}, outs...) {
		l.must(l.client.CreateTopics(l.ctx, l.parts, l.topic(topic)))
	}
	readers := map[string]*testkit.Reader{}
	for _, topic := range outs {
		readers[topic] = l.read(topic, true)
	}
	w := newLangWorld()
	a, b := l.start("a"), l.start("b")
	a.awaitRunning()
	b.awaitRunning()
	w.produce(l, 0, langRecords/2)
	l.eventually(30*time.Second, "output comes", func() bool { return readers["left-out"].Count() > 0 })
	a.arm("prepared", 1, "kill")
	w.produce(l, langRecords/2, 3*langRecords/4)
	a.awaitKilled(30 * time.Second)
	w.produce(l, 3*langRecords/4, langRecords)
	a = l.start("a")
	want := w.want()
	has := func(topic string) bool {
		return strings.Join(langContent(topic, readers[topic].All()), "\n") == strings.Join(want[topic], "\n")
	}
	t.Cleanup(func() {
		for _, topic := range outs {
			if t.Failed() {
				t.Logf("%s: %s", topic, langDiff(langContent(topic, readers[topic].All()), want[topic]))
			}
		}
	})
	await := func(topics ...string) {
		for _, topic := range topics {
			l.eventually(40*time.Second, topic+" holds what it must", func() bool { return has(topic) })
		}
	}
	// Time goes on when what is before it is through: nothing is late.
	await("left-out", "right-out", "owned")
	for _, topic := range []string{"in", "right"} {
		var ticks []testkit.Message
		for p := range l.parts {
			// One key for each partition of the repartition topic, too.
			for q := range l.parts {
				ticks = append(ticks, testkit.Message{Partition: p, Key: langTickKey(q, l.parts), Value: []byte("0"), Timestamp: langEnd})
			}
		}
		l.produceTo(l.topic(topic), ticks...)
	}
	await(outs...)
	a.close()
	b.close()
	for _, topic := range outs {
		if !has(topic) {
			t.Errorf("%s does not hold what it must", topic)
		}
	}
}

// langTickKey is a key of a partition.
func langTickKey(p, parts int32) []byte {
	for i := 0; ; i++ {
		if k := fmt.Appendf(nil, "%s%d", langTick, i); ids.Partition(k, parts) == p {
			return k
		}
	}
}

// langContent is what a topic holds: all records, or of a table the last rows.
func langContent(topic string, all map[int32][]testkit.Message) []string {
	var out []string
	rows := map[string]string{}
	for _, list := range all {
		for _, m := range list {
			if topic != "owned" {
				out = append(out, fmt.Sprintf("%s=%s@%d", m.Key, m.Value, m.Timestamp-langStart))
			} else if m.Value == nil {
				delete(rows, string(m.Key))
			} else {
				rows[string(m.Key)] = string(m.Value)
			}
		}
	}
	for k, v := range rows {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

func langDiff(got, want []string) string {
	n := map[string]int{}
	for _, s := range want {
		n[s]++
	}
	for _, s := range got {
		n[s]--
	}
	var out []string
	for _, s := range slices.Sorted(maps.Keys(n)) {
		if n[s] != 0 {
			out = append(out, fmt.Sprintf("%s: %d missing", s, n[s]))
		}
	}
	return fmt.Sprintf("%d differences: %v", len(out), out[:min(len(out), 10)])
}
