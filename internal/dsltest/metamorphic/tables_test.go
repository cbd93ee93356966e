package metamorphic

import (
	"fmt"
	"iter"
	"maps"

	"github.com/tidegate/tidegate"
)

type seq = iter.Seq[int64]

func (t *topology) tableView() {
	tab := t.table()
	n := int64(2 + t.rnd.IntN(3))
	rows := map[string]int64{}
	switch t.rnd.IntN(5) {
	case 0:
		f := func(_ string, v int64) bool { return mod(v, n) != 0 }
		for k, v := range tab.rows {
			if f(k, v) {
				rows[k] = v
			}
		}
		t.addTable("tableFilter "+tab.name, tab.dsl.Filter(f), rows, tab.fixed, tab.roots)
	case 1:
		f := func(v int64) int64 { return v*n + 1 }
		for k, v := range tab.rows {
			rows[k] = f(v)
		}
		t.addTable("tableMapValues "+tab.name, tab.dsl.MapValues(f, nums), rows, tab.fixed, tab.roots)
	case 2:
		t.addTable("toTable "+tab.name, tab.dsl.ToStream().ToTable(t.name("table")), tab.rows, tab.fixed, tab.roots)
	case 3:
		t.addTable("suppress "+tab.name, tab.dsl.Suppress(t.name("suppress"), tidegate.UntilTimeLimit(ms(int64(t.rnd.IntN(500))))),
			tab.rows, false, tab.roots)
	case 4:
		t.addTable("suppress early "+tab.name, tab.dsl.Suppress(t.name("suppress"),
			tidegate.UntilTimeLimit(ms(500)).MaxRecords(int64(1+t.rnd.IntN(4))).WhenFull(tidegate.EmitEarly)), tab.rows, false, tab.roots)
	}
}

// depend merges what two tables depend on.
func depend(a, b *aTable) (roots map[string]bool, both bool) {
	roots = maps.Clone(a.roots)
	for k := range b.roots {
		both = both || roots[k]
		roots[k] = true
	}
	return roots, both
}

func (t *topology) joinTables() {
	l, r := t.table(), t.table()
	kind := t.rnd.IntN(3)
	opt := func(o tidegate.Opt[int64]) int64 { return o.Or(none) }
	var dsl *dslTable
	switch kind {
	case 0:
		dsl = l.dsl.Join(r.dsl, pair, nums)
	case 1:
		dsl = l.dsl.LeftJoin(r.dsl, func(l int64, r tidegate.Opt[int64]) int64 { return pair(l, opt(r)) }, nums)
	case 2:
		dsl = l.dsl.OuterJoin(r.dsl, func(l, r tidegate.Opt[int64]) int64 { return pair(opt(l), opt(r)) }, nums)
	}
	roots, both := depend(l, r)
	kept := both || t.rnd.IntN(3) == 0 // a join of one table's descendants must be
	if kept {
		dsl = dsl.Materialize(t.name("kept"))
	}
	t.addTable(fmt.Sprintf("tableJoin %d %s %s kept %v", kind, l.name, r.name, kept), dsl,
		refTableJoin(l.rows, r.rows, kind > 0, kind > 1), l.fixed && r.fixed, roots)
}

func (t *topology) joinForeign() {
	l, r := t.table(), t.table()
	of := func(v int64) (string, bool) { return fmt.Sprint("k", mod(v, 5)), mod(v, 6) != 0 }
	key := func(_ string, v int64) (string, bool) { return of(v) }
	name := t.name("foreign")
	left := t.rnd.IntN(2) == 0
	var dsl *dslTable
	if left {
		dsl = l.dsl.LeftJoinForeignKey(name, r.dsl, key, func(l int64, r tidegate.Opt[int64]) int64 { return pair(l, r.Or(none)) }, nums)
	} else {
		dsl = l.dsl.JoinForeignKey(name, r.dsl, key, pair, nums)
	}
	roots, _ := depend(l, r)
	t.addTable(fmt.Sprintf("foreignKey %s %s left %v", l.name, r.name, left), dsl,
		refForeignKey(l.rows, r.rows, of, left), l.fixed && r.fixed, roots)
}

func (t *topology) groupTable() {
	tab := t.table()
	f := func(_ string, v int64) (string, int64) { return fmt.Sprint("k", mod(mix(v), 4)), v }
	t.aggregateRows("groupTable "+tab.name, tab.dsl.GroupBy(t.name("rows"), f, keys, nums), refGroup(tab.rows, f), tab)
}

func (t *topology) aggregateRows(what string, g *tidegate.GroupedTable[string, int64], recs []rec, tab *aTable) {
	name := t.name("rows")
	// A group whose last row went stays in the table, if it ever was there.
	switch t.rnd.IntN(2) {
	case 0:
		dsl := g.Count(name).Filter(func(_ string, n int64) bool { return n != 0 })
		t.addTable(what+" count", dsl, refCount(recs), tab.fixed, tab.roots)
	case 1:
		dsl := g.Aggregate(name, zero, addMember(0), func(_ string, v, a int64) int64 { return a - member(v) }, nums).
			Filter(func(_ string, a int64) bool { return a&0xffff != 0 })
		t.addTable(what+" sum", dsl, refSum(recs), tab.fixed, tab.roots)
	}
}
