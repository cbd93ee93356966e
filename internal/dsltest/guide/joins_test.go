package guide

import (
	"testing"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

type opt = tidegate.Opt[string]

// The joiners write "l-r".
func inner(l, r string) string               { return l + "-" + r }
func left(l string, r opt) string            { return l + "-" + r.Or("null") }
func outer(l, r opt) string                  { return l.Or("null") + "-" + r.Or("null") }
func build(f func(*tidegate.Builder)) column { return column{build: f, open: rows} }

func stream(b *tidegate.Builder, topic string) *tidegate.Stream[string, string] {
	return b.Stream(topic, serde.String(), serde.String())
}

func tableFrom(b *tidegate.Builder, topic string) *tidegate.Table[string, string] {
	return b.Table(topic, topic, serde.String(), serde.String())
}

func TestTableOfStreamJoins(t *testing.T) {
	within := tidegate.JoinWithin(10 * ms).Grace(5 * ms)
	check(t, "joins.md", "stream-stream", map[string]column{
		"inner": build(func(b *tidegate.Builder) {
			stream(b, "left").JoinStream("j", stream(b, "right"), within, inner, serde.String()).To("out")
		}),
		"left": build(func(b *tidegate.Builder) {
			stream(b, "left").LeftJoinStream("j", stream(b, "right"), within, left, serde.String()).To("out")
		}),
		"outer": build(func(b *tidegate.Builder) {
			stream(b, "left").OuterJoinStream("j", stream(b, "right"), within, outer, serde.String()).To("out")
		}),
	})
}

func TestTableOfStreamTableJoins(t *testing.T) {
	check(t, "joins.md", "stream-table", map[string]column{
		"inner": build(func(b *tidegate.Builder) {
			stream(b, "left").JoinTable("j", tableFrom(b, "right"), inner, serde.String()).To("out")
		}),
		"left": build(func(b *tidegate.Builder) {
			stream(b, "left").LeftJoinTable("j", tableFrom(b, "right"), left, serde.String()).To("out")
		}),
	})
}

func TestTableOfTableJoins(t *testing.T) {
	check(t, "joins.md", "table-table", map[string]column{
		"inner": build(func(b *tidegate.Builder) {
			tableFrom(b, "left").Join(tableFrom(b, "right"), inner, serde.String()).ToStream().To("out")
		}),
		"left": build(func(b *tidegate.Builder) {
			tableFrom(b, "left").LeftJoin(tableFrom(b, "right"), left, serde.String()).ToStream().To("out")
		}),
		"outer": build(func(b *tidegate.Builder) {
			tableFrom(b, "left").OuterJoin(tableFrom(b, "right"), outer, serde.String()).ToStream().To("out")
		}),
	})
}

func TestTableOfForeignKeyJoins(t *testing.T) {
	named := func(_, v string) (string, bool) { return v, v != "nobody" }
	check(t, "joins.md", "foreign-key", map[string]column{
		"inner": build(func(b *tidegate.Builder) {
			tableFrom(b, "left").JoinForeignKey("j", tableFrom(b, "right"), named, inner, serde.String()).ToStream().To("out")
		}),
		"left": build(func(b *tidegate.Builder) {
			tableFrom(b, "left").LeftJoinForeignKey("j", tableFrom(b, "right"), named, left, serde.String()).ToStream().To("out")
		}),
	})
}
