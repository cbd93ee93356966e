package tidegate_test

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
)

func TestStepsWithKey(t *testing.T) {
	b := tidegate.NewBuilder()
	s := b.Stream("in", str, str)
	s.MapValuesWithKey(func(k, v string) string { return k + v }, str).To("values")
	s.FlatMapValuesWithKey(func(k, v string) iter.Seq[string] { return slices.Values([]string{k, v}) }, str).To("flat")
	table := s.ToTable("t")
	mapped := table.MapValuesWithKey(func(k, v string) string { return k + v }, str)
	mapped.ToStream().To("rows")
	table.FilterNot(func(_, v string) bool { return v == "no" }).ToStream().To("kept")
	s.JoinTable("j", mapped, func(l, r string) string { return l + "/" + r }, str).To("joined")
	r := start(t, b, map[string]int32{"in": 1})
	r.in("in", "a", "1", 1)
	r.in("in", "a", "no", 2)
	r.in("in", "a", "null", 3)
	require.Equal(t, "a=a1@1 a=ano@2 a=null@3", r.out("values"))
	require.Equal(t, "a=a@1 a=1@1 a=a@2 a=no@2 a=null@3", r.out("flat"))
	require.Equal(t, "a=a1@1 a=ano@2 a=null@3", r.out("rows"))
	require.Equal(t, "a=1@1 a=null@2 a=null@3", r.out("kept"))
	require.Equal(t, "a=1/a1@1 a=no/ano@2", r.out("joined"))
	r.in("in", "null", "v", 4)
	require.Equal(t, "null=v@4", r.out("values"))
}

func TestTableMapValuesWithKeyTellsOldValues(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Table("in", "t", str, str).MapValuesWithKey(func(k, v string) string { return k + v }, str).
		FilterNot(func(_, v string) bool { return v == "ano" }).
		Suppress("s", tidegate.UntilTimeLimit(0)).ToStream().To("out")
	r := start(t, b, map[string]int32{"in": 1})
	r.in("in", "a", "no", 1)
	r.in("in", "a", "1", 2)
	r.in("in", "a", "no", 3)
	require.Equal(t, "a=a1@2 a=null@3", r.out("out"))
}

func TestBranchCtx(t *testing.T) {
	b := tidegate.NewBuilder()
	split := b.Stream("in", str, str).Split()
	split.BranchCtx("marked", func(c *tidegate.RecordContext, _, v string) (bool, error) {
		if v == "bad" {
			return false, errors.New("bad")
		}
		_, ok := c.Headers.Last("mark")
		return ok, nil
	}).To("marked")
	split.Branch("one", func(_, v string) bool { return v == "1" }).To("one")
	split.Default().To("rest")
	r := start(t, b, map[string]int32{"in": 1})
	r.d.Skip = func(*operators.RecordError) bool { return true }
	r.in("in", "a", "1", 1, record.Header{Key: "mark"})
	r.in("in", "a", "1", 2)
	r.in("in", "a", "2", 3)
	r.in("in", "a", "bad", 4)
	require.Equal(t, "a=1@1", r.out("marked"))
	require.Equal(t, "a=1@2", r.out("one"))
	require.Equal(t, "a=2@3", r.out("rest"))
	require.Len(t, r.d.Skipped, 1)
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestPrint(t *testing.T) {
	var out bytes.Buffer
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).Print(&out, "in")
	b.Stream("bad", str, str).Print(failingWriter{}, "bad")
	r := start(t, b, map[string]int32{"in": 1, "bad": 1})
	r.in("in", "a", "1", 1)
	r.in("in", "a", "null", 2)
	r.in("in", "null", "2", 3)
	require.Equal(t, "[in]: a, 1\n[in]: a, null\n[in]: null, 2\n", out.String())
	require.ErrorContains(t, r.pipe("bad", "a", "1", 4), "the disk is full")
}

func TestNilFunctionsWithKey(t *testing.T) {
	b := tidegate.NewBuilder()
	s, table := b.Stream("in", str, str), b.Table("t", "t", str, str)
	s.MapValuesWithKey[string](nil, str)
	s.FlatMapValuesWithKey[string](nil, str)
	s.Print(nil, "")
	s.Split().BranchCtx("b", nil)
	table.FilterNot(nil)
	table.MapValuesWithKey[string](nil, str)
	_, err := b.Build()
	for _, want := range []string{
		"map-values: the function is nil", "flat-map-values: the function is nil", "Print: the writer is nil",
		`BranchCtx("b"): the function is nil`, "table-filter-not: the function is nil", "table-map-values: the function is nil",
		"streamkey_test.go:",
	} {
		require.ErrorContains(t, err, want)
	}
}
