package review_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

type (
	stream = *tidegate.Stream[string, string]
	window = tidegate.Windowed[string]
	proc   = tidegate.Processor[string, string, string, string]
)

// What a method cannot do anything with is a mistake that Build returns, with the
// line of the program; nothing panics.
func TestNilIsAMistake(t *testing.T) {
	noProc := func() proc { return nil }
	for name, describe := range map[string]func(b *tidegate.Builder, in stream){
		"Stream key serde":   func(b *tidegate.Builder, _ stream) { b.Stream[string, string]("x", nil, str) },
		"Stream value serde": func(b *tidegate.Builder, _ stream) { b.Stream[string, string]("x", str, nil) },
		"Stream option":      func(b *tidegate.Builder, _ stream) { b.Stream("x", str, str, nil) },
		"StreamOf no topics": func(b *tidegate.Builder, _ stream) { b.StreamOf(nil, str, str) },
		"Table option":       func(b *tidegate.Builder, _ stream) { b.Table("x", "t", str, str, nil) },
		"Table no name":      func(b *tidegate.Builder, _ stream) { b.Table("x", "", str, str) },
		"VersionedTable serde": func(b *tidegate.Builder, _ stream) {
			b.VersionedTable[string, string]("x", "t", time.Second, nil, nil)
		},
		"GlobalTable serde": func(b *tidegate.Builder, _ stream) { b.GlobalTable[string, string]("x", "g", nil, nil) },
		"To option":         func(_ *tidegate.Builder, in stream) { in.To("out", nil) },
		"ToDynamic option": func(_ *tidegate.Builder, in stream) {
			in.ToDynamic(func(*tidegate.RecordContext, string, string) string { return "" }, nil)
		},
		"Repartition option": func(_ *tidegate.Builder, in stream) { in.Repartition("r", nil) },
		"PartitionBy":        func(_ *tidegate.Builder, in stream) { in.To("out", tidegate.PartitionBy[string](nil)) },
		"As":                 func(_ *tidegate.Builder, in stream) { in.As(nil, nil).To("out") },
		"Merge":              func(_ *tidegate.Builder, in stream) { in.Merge(nil) },
		"Branch":             func(_ *tidegate.Builder, in stream) { in.Split().Branch("b", nil) },
		"GroupBy": func(_ *tidegate.Builder, in stream) {
			in.GroupBy[string]("g", nil, nil).Count("n")
		},
		"Cogroup": func(_ *tidegate.Builder, in stream) { in.GroupByKey("g").Cogroup[string](nil).Aggregate("n", nil, nil) },
		"Cogroup another": func(_ *tidegate.Builder, in stream) {
			in.GroupByKey("g").Cogroup(func(_, _, a string) string { return a }).Cogroup[string](nil, nil).
				Aggregate("n", func() string { return "" }, str)
		},
		"WindowKey": func(_ *tidegate.Builder, in stream) {
			in.GroupByKey("g").WindowedBy(tidegate.Tumbling(ms), func(serde.Serde[string], tidegate.WindowFormat) tidegate.WindowKey[string, window] {
				return tidegate.WindowKey[string, window]{}
			}).Count("n")
		},
		"zero SessionWindows": func(_ *tidegate.Builder, in stream) {
			in.GroupByKey("g").SessionWindowedBy(tidegate.SessionWindows{}, tidegate.ByWindow).Count("n")
		},
		"JoinStream": func(_ *tidegate.Builder, in stream) {
			in.JoinStream[string, string]("j", nil, tidegate.JoinWithin(ms), nil)
		},
		"JoinTable":     func(_ *tidegate.Builder, in stream) { in.JoinTable[string, string]("j", nil, nil) },
		"JoinGlobal":    func(_ *tidegate.Builder, in stream) { in.JoinGlobal[string, string, string](nil, nil, nil) },
		"Process":       func(_ *tidegate.Builder, in stream) { in.Process[string, string]("p", nil) },
		"Process part":  func(_ *tidegate.Builder, in stream) { in.Process("p", noProc, nil) },
		"Process table": func(_ *tidegate.Builder, in stream) { in.Process("p", noProc, (*table)(nil)) },
		"KeyValueStore": func(_ *tidegate.Builder, in stream) {
			in.Process("p", noProc, tidegate.KeyValueStore[string, string]("s", nil, nil))
		},
		"ListStore": func(_ *tidegate.Builder, in stream) {
			in.Process("p", noProc, tidegate.ListStore[string, string]("s", nil, nil))
		},
		"TimestampedStore": func(_ *tidegate.Builder, in stream) {
			in.Process("p", noProc, tidegate.TimestampedKeyValueStore[string, string]("s", nil, nil))
		},
		"VersionedStore": func(_ *tidegate.Builder, in stream) {
			in.Process("p", noProc, tidegate.VersionedStore[string, string]("s", 0, nil, nil))
		},
		"SessionStore": func(_ *tidegate.Builder, in stream) {
			in.Process("p", noProc, tidegate.SessionStore[string, string]("s", 0, nil, nil))
		},
		"WindowStore": func(_ *tidegate.Builder, in stream) {
			in.Process("p", noProc, tidegate.WindowStore[string, string]("s", 0, nil, nil))
		},
		"Output": func(_ *tidegate.Builder, in stream) { in.Process("p", noProc).Output[string, string](nil).To("out") },
		"Table joins": func(b *tidegate.Builder, in stream) {
			b.Table("x", "t", str, str).OuterJoin[string, string](nil, nil)
		},
		"Table foreign key": func(b *tidegate.Builder, in stream) {
			b.Table("x", "t", str, str).JoinForeignKey[string, string, string]("fk", nil, nil, nil, nil)
		},
		"Table GroupBy": func(b *tidegate.Builder, in stream) {
			b.Table("x", "t", str, str).GroupBy[string, string]("g", nil, nil, nil).Reduce("n", nil, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := tidegate.NewBuilder()
			in := b.Stream("in", str, str)
			require.NotPanics(t, func() { describe(b, in) })
			_, err := b.Build()
			require.ErrorContains(t, err, "nil_test.go:")
		})
	}
}
