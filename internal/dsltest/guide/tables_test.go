package guide

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// column is one column of results: a topology with the inputs "left" and
// "right", or "in", and how its topic "out" is read.
type column struct {
	build func(b *tidegate.Builder)
	open  func(d *tidegatetest.Driver) (read func() []string)
}

// table is the table of a page that follows the comment "<!-- test: name -->".
type table struct {
	heads []string
	rows  [][]string
}

// tableOf finds a table.
func tableOf(t *testing.T, page, name string) table {
	t.Helper()
	text, err := os.ReadFile("../../../docs/guide/" + page)
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "<!-- test: "+name+" -->\n")
	require.True(t, ok, "%s has no table %s", page, name)
	var out table
	for n, line := range strings.Split(strings.TrimLeft(rest, "\n"), "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.ReplaceAll(strings.TrimSpace(cell), "`", ""))
		}
		switch n {
		case 0:
			out.heads = cells
		case 1: // the line below the heads
		default:
			out.rows = append(out.rows, cells)
		}
	}
	require.NotEmpty(t, out.rows)
	return out
}

// check runs each column's topology over the rows of a table. It restarts the
// topology between any two rows.
func check(t *testing.T, page, name string, columns map[string]column) {
	t.Helper()
	want := tableOf(t, page, name)
	for n, head := range want.heads[1:] {
		c, ok := columns[head]
		require.True(t, ok, "%s, %s: column %q", page, name, head)
		b := tidegate.NewBuilder()
		c.build(b)
		topology, err := b.Build()
		require.NoError(t, err)
		d := tidegatetest.New(t, topology, tidegatetest.WithTopic("out", 1))
		read := c.open(d)
		for _, row := range want.rows {
			late := d.Late()
			pipe(t, d, row[0])
			got := strings.Join(read(), " ")
			if d.Late() > late {
				got = strings.TrimSpace(got + " late")
			}
			if got != row[n+1] {
				t.Errorf("%s, %s, %s: after %s got %q, the page says %q", page, name, head, row[0], got, row[n+1])
			}
			d.Restart()
		}
	}
}

// pipe does what the first cell of a row says: "left k=A@3", "right k=null@4",
// "in k@5" or "time 30".
func pipe(t *testing.T, d *tidegatetest.Driver, cell string) {
	t.Helper()
	topic, rest, ok := strings.Cut(cell, " ")
	require.True(t, ok, "input %q", cell)
	if topic == "time" {
		ms, err := strconv.ParseInt(rest, 10, 64)
		require.NoError(t, err)
		d.AdvanceStreamTime(ms)
		return
	}
	rest, at, _ := strings.Cut(rest, "@")
	ms, err := strconv.ParseInt(at, 10, 64)
	require.NoError(t, err, "input %q", cell)
	key, value, _ := strings.Cut(rest, "=")
	opts := []tidegatetest.PipeOption{tidegatetest.At(ms)}
	if value == "null" {
		opts = append(opts, tidegatetest.Tombstone())
	}
	if key == "null" {
		opts = append(opts, tidegatetest.NullKey())
	}
	d.Input(topic, serde.String(), serde.String()).Pipe(key, value, opts...)
}

// rows reads topic "out" of plain keys as "k=v@t".
func rows(d *tidegatetest.Driver) func() []string {
	out := d.Output("out", serde.String(), serde.String())
	return func() (got []string) {
		for _, r := range out.ReadAll() {
			got = append(got, fmt.Sprintf("%s=%s@%d", orNull(r.Key, r.NullKey), orNull(r.Value, r.Tombstone), r.Timestamp))
		}
		return got
	}
}

func orNull(s string, null bool) string {
	if null {
		return "null"
	}
	return s
}

// windows reads counts of windows in topic "out" as "k[0,10)=1@3"; with the last
// millisecond in the window, "k[0,10]=1@3".
func windows(ks serde.Serde[tidegate.Windowed[string]], bracket string) func(*tidegatetest.Driver) func() []string {
	return func(d *tidegatetest.Driver) func() []string {
		out := d.Output("out", ks, serde.Int64())
		return func() (got []string) {
			for _, r := range out.ReadAll() {
				got = append(got, fmt.Sprintf("%s[%d,%d%s=%s@%d", r.Key.Key, r.Key.Start, r.Key.End, bracket,
					orNull(strconv.FormatInt(r.Value, 10), r.Tombstone), r.Timestamp))
			}
			return got
		}
	}
}
