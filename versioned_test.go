package tidegate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/harness"
	"github.com/tidegate/tidegate/record"
)

// versionedJoin joins "L" with the versioned table of "R" into "inner" and "left".
func versionedJoin(history time.Duration, grace ...time.Duration) *tidegate.Builder {
	b := tidegate.NewBuilder()
	tab := b.VersionedTable("R", "rows", history, str, str)
	if len(grace) > 0 {
		tab = tab.JoinGrace(grace[0])
	}
	l := b.Stream("L", str, str)
	l.JoinTable("i", tab, func(l, r string) string { return l + "-" + r }, str).To("inner")
	l.LeftJoinTable("l", tab, func(l string, r tidegate.Opt[string]) string { return l + "-" + r.Or("null") }, str).To("left")
	return b
}

func TestVersionedJoinCases(t *testing.T) {
	for _, how := range []string{"plain", "restarted", "no cache", "skip"} {
		t.Run(how, func(t *testing.T) {
			play := func(b *tidegate.Builder) map[string]map[int]string {
				r := start(t, b, map[string]int32{"L": 1, "R": 1})
				switch how {
				case "no cache":
					r.d.CacheBytes = 0
				case "skip":
					r.d.Skip = func(*harness.Failure) bool { return true }
				}
				got := map[string]map[int]string{"inner": {}, "left": {}}
				for i, x := range in2 {
					r.in(x.side, "k", x.value, x.ts)
					for out := range got {
						if s := r.out(out); s != "" {
							got[out][i+1] = strings.ReplaceAll(s, "k=", "")
						}
					}
					if how == "restarted" {
						require.NoError(t, r.d.Restart())
					}
				}
				return got
			}
			// As of each record's timestamp, at once.
			require.Equal(t, map[string]map[int]string{
				"inner": {5: "B-a@5", 15: "D-b@6", 19: "E-e@15", 22: "F-a@4"},
				"left":  {3: "A-null@3", 5: "B-a@5", 9: "C-null@9", 15: "D-b@6", 19: "E-e@15", 22: "F-a@4"},
			}, play(versionedJoin(5*time.Minute)))
			// The same rows, and E still waits at the end. Kafka Streams has the same
			// results; B and C come with its stream's next record.
			require.Equal(t, map[string]map[int]string{
				"inner": {7: "B-a@5", 15: "D-b@6", 22: "F-a@4"},
				"left":  {5: "A-null@3", 7: "B-a@5", 11: "C-null@9", 15: "D-b@6", 22: "F-a@4"},
			}, play(versionedJoin(5*time.Minute, 2*ms)))
		})
	}
}

// Records wait for late updates of the table, and come in the order of their
// timestamps.
func TestJoinGraceWaits(t *testing.T) {
	r := start(t, versionedJoin(time.Second, 100*ms), map[string]int32{"L": 1, "R": 1})
	r.in("R", "k", "a", 1000)
	r.in("L", "k", "2", 1050, record.Header{Key: "h", Value: []byte("x")}, record.Header{Key: "nil"})
	r.in("L", "k", "3", 1060)
	r.in("L", "k", "1", 1040)
	r.in("L", "k", "3'", 1060)
	r.in("R", "k", "b", 1055)
	require.NoError(t, r.d.Restart())
	r.in("R", "k", "c", 1045) // late, in time
	r.in("L", "k", "late", 951)
	r.in("L", "other", "x", 1139)
	require.Empty(t, r.out("inner"))
	require.Equal(t, "k=late-null@951", r.out("left"), "later than the grace: at once; before the first row")
	r.in("L", "null", "no key", 1139)
	require.Equal(t, "null=no key-null@1139", r.out("left"))
	r.in("L", "other", "y", 1140)
	require.Equal(t, "k=1-a@1040", r.out("inner"))
	require.NoError(t, r.d.Restart())
	r.in("R", "k", "d", 90_000_000) // time jumps over all of the history
	recs := r.d.Take("inner")
	got := ""
	for _, rec := range recs {
		got += fmt.Sprintf("%s=%s@%d%v ", rec.Key, rec.Value, rec.Timestamp, rec.Headers)
	}
	require.Equal(t, "k=2-c@1050[{h [120]} {nil []}] k=3-b@1060[] k=3'-b@1060[] ", got)
	require.Nil(t, recs[0].Headers[1].Value)
	require.Equal(t, "k=1-a@1040 k=2-c@1050 k=3-b@1060 k=3'-b@1060 other=x-null@1139 other=y-null@1140", r.out("left"))

	r.in("R", "k", "too late", 90_000_000-1001)
	require.Equal(t, int64(1), r.d.Metrics.LateDropped.Load())
	r.in("L", "k", "old", 5)
	require.Empty(t, r.out("inner"), "its time is before the history")
	require.Equal(t, "k=old-null@5", r.out("left"))
}

// A versioned table sends what changes its rows, and a record that corrects the
// history does not.
func TestVersionedTableChanges(t *testing.T) {
	b := tidegate.NewBuilder()
	tab := b.VersionedTable("R", "rows", 100*ms, str, str)
	tab.ToStream().To("out")
	shown := tab.Filter(func(_, v string) bool { return v != "hidden" }).MapValues(strings.ToUpper, str)
	shown.ToStream().To("shown")
	b.Stream("L", str, str).JoinTable("j", shown, func(l, r string) string { return l + "-" + r }, str).To("joined")
	tab.GroupBy("g", func(_, v string) (string, string) { return v, v }, str, str).Count("n").ToStream().
		MapValues(func(n int64) string { return fmt.Sprint(n) }, str).To("counts")
	r := start(t, b, map[string]int32{"L": 2, "R": 2})
	r.in("R", "k", "a", 100)
	r.in("R", "k", "b", 200)
	r.in("R", "k", "hidden", 150)
	require.NoError(t, r.d.Restart())
	r.in("R", "k", "null", 50) // dropped
	require.Equal(t, "k=a@100 k=b@200", r.out("out"))
	require.Equal(t, "k=A@100 k=B@200", r.out("shown"))
	counts := r.out("counts")
	require.NotContains(t, counts, "hidden")
	require.True(t, strings.HasSuffix(counts, "b=1@200"), counts)
	for _, at := range []int64{100, 149, 150, 199, 200} {
		r.in("L", "k", "l", at)
	}
	require.Equal(t, "k=l-A@100 k=l-A@149 k=l-B@200", r.out("joined"))
	r.in("R", "null", "x", 200)
	require.Equal(t, int64(1), r.d.Metrics.NullDropped.Load())
	require.Equal(t, int64(1), r.d.Metrics.LateDropped.Load())
	r.in("R", "k", "null", 201)
	r.in("L", "k", "l", 201)
	require.Equal(t, "k=null@201", r.out("out"))
	require.Empty(t, r.out("joined"))

	b = tidegate.NewBuilder()
	b.Stream("L", str, str).MapValues(strings.ToUpper, str).SelectKey(func(k, _ string) string { return k + "2" }, str).
		ToVersionedTable("t", time.Hour).ToStream().To("out")
	r = start(t, b, map[string]int32{"L": 1})
	r.in("L", "k", "a", 0)
	r.in("L", "k", "b", 9_223_372_036_854) // the last time that Kafka knows
	require.NoError(t, r.d.Restart())
	r.in("L", "k", "c", 5)
	require.Equal(t, "k2=A@0 k2=B@9223372036854", r.out("out"))
}

func TestVersionedMistakes(t *testing.T) {
	for want, build := range map[string]func(*tidegate.Builder){
		`versioned-table "rows": history 0s`: func(b *tidegate.Builder) {
			b.VersionedTable("R", "rows", 0, str, str)
		},
		`history 1.5ms`: func(b *tidegate.Builder) { b.VersionedTable("R", "rows", 1500*time.Microsecond, str, str) },
		`the key serde is nil`: func(b *tidegate.Builder) {
			b.VersionedTable[string, string]("R", "rows", time.Second, nil, str)
		},
		`the table has no history to look back`: func(b *tidegate.Builder) {
			b.Table("R", "rows", str, str).JoinGrace(time.Second)
		},
		`history is only 1s long`: func(b *tidegate.Builder) {
			b.VersionedTable("R", "rows", time.Second, str, str).JoinGrace(time.Second + ms)
		},
		`JoinGrace(-1ns): must not be negative`: func(b *tidegate.Builder) {
			b.VersionedTable("R", "rows", time.Second, str, str).JoinGrace(-1)
		},
		`store name "rows" is already used`: func(b *tidegate.Builder) {
			b.VersionedTable("R", "rows", time.Second, str, str)
			b.VersionedTable("R2", "rows", time.Second, str, str)
		},
		`needs it: pass the serde to MapValues`: func(b *tidegate.Builder) {
			tab := b.VersionedTable("R", "rows", time.Second, str, str).JoinGrace(0)
			b.Stream("L", str, str).MapValues(func(s string) int { return len(s) }).
				JoinTable("j", tab, func(int, string) string { return "" }, str).To("out")
		},
	} {
		b := tidegate.NewBuilder()
		b.Stream("any", str, str)
		build(b)
		_, err := b.Build()
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "versioned_test.go:")
	}
	// What changes the bytes in a store, or what they mean, is part of the
	// fingerprint.
	var prints []string
	for _, b := range []*tidegate.Builder{
		versionedJoin(time.Second), versionedJoin(2 * time.Second), versionedJoin(time.Second, 0), versionedJoin(time.Second, ms),
	} {
		top, err := b.Build()
		require.NoError(t, err)
		res, err := top.Graph().Resolve("app", map[string]int32{"L": 1, "R": 1, "inner": 1, "left": 1})
		require.NoError(t, err)
		prints = append(prints, res.Fingerprint())
	}
	slices.Sort(prints)
	require.Len(t, slices.Compact(prints), 4)
}
