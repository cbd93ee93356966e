package guide

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

const ms = time.Millisecond

// counted counts the records of topic "in" per window.
func counted(w tidegate.TimeWindows, onClose bool, open func(*tidegatetest.Driver) func() []string) column {
	return column{open: open, build: func(b *tidegate.Builder) {
		g := b.Stream("in", serde.String(), serde.String()).GroupByKey("by-key").WindowedBy(w, tidegate.ByWindow)
		if onClose {
			g = g.EmitOnClose()
		}
		g.Count("counts").ToStream().To("out")
	}}
}

func bothWays(w tidegate.TimeWindows, open func(*tidegatetest.Driver) func() []string) map[string]column {
	return map[string]column{"every update": counted(w, false, open), "on close": counted(w, true, open)}
}

func TestTablesOfWindows(t *testing.T) {
	size := func(n int) serde.Serde[tidegate.Windowed[string]] {
		return serde.Windowed(serde.String(), time.Duration(n)*ms)
	}
	check(t, "windows.md", "tumbling", bothWays(tidegate.Tumbling(10*ms).Grace(5*ms), windows(size(10), ")")))
	check(t, "windows.md", "hopping", bothWays(tidegate.Hopping(10*ms, 5*ms), windows(size(10), ")")))
	check(t, "windows.md", "sliding", bothWays(tidegate.Sliding(10*ms), windows(size(10), "]")))
}

func TestTableOfSessions(t *testing.T) {
	session := func(onClose bool) column {
		return column{open: windows(serde.WindowedSpan(serde.String()), "]"), build: func(b *tidegate.Builder) {
			g := b.Stream("in", serde.String(), serde.String()).GroupByKey("by-key").
				SessionWindowedBy(tidegate.Session(5*ms), tidegate.ByWindow)
			if onClose {
				g = g.EmitOnClose()
			}
			g.Count("counts").ToStream().To("out")
		}}
	}
	check(t, "windows.md", "session", map[string]column{"every update": session(false), "on close": session(true)})
}
