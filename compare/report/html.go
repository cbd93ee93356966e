package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// section is a plot with its table.
type section struct {
	Title string
	Note  string
	Plot  template.HTML
	Rows  [][]string
	Head  []string
}

// HTML writes a page that needs nothing beside itself.
func (p *Report) HTML(w io.Writer) error {
	var sections []section
	for _, kind := range kinds {
		for _, workload := range p.workloads(kind) {
			sections = append(sections, p.section(kind, workload))
		}
	}
	if s, ok := p.recoveryBySize(); ok {
		sections = append(sections, s)
	}
	sections = append(sections, p.checkpoints()...)
	return page.Execute(w, struct {
		*Report
		Sections []section
		Failed   []Round
	}{p, sections, p.failed()})
}

func (p *Report) failed() (out []Round) {
	for _, r := range p.Rounds {
		if r.Error != "" {
			out = append(out, r)
		}
	}
	return out
}

var notes = map[string]string{
	"rate":        "Input records per second that the output accounts for; bars are medians, lines reach from the slowest to the fastest round. Higher is better.",
	"latency":     "Milliseconds from when the record that causes a row was due until a read_committed consumer saw the row. Lower is better.",
	"restore":     "Seconds from the start of an instance without its local state until the last task was restored (by its log), until the first output and until output of every partition. Lower is better.",
	"checkpoints": "Bytes uploaded by checkpoints in a row, in percent of the bytes of the whole checkpoint. Lower is better.",
	"recovery":    "Seconds from the kill of one of three instances, the session timeout included. Lower is better.",
}

// plottedOf is how many figures of a kind are bars of one plot.
var plottedOf = map[string]int{"rate": 1, "latency": 3, "recovery": 2, "restore": 3, "checkpoints": 2}

func (p *Report) section(kind, workload string) section {
	s := section{Title: workload + ": " + kind, Note: notes[kind], Head: []string{"system"}}
	plotted := figures[kind]
	if n, ok := plottedOf[kind]; ok { // the rest has other units
		plotted = plotted[:n]
	}
	for _, f := range figures[kind] {
		s.Head = append(s.Head, f.name+", "+f.unit)
	}
	s.Head = append(append(s.Head, p.ratioHeads(kind, workload)...), "lost", "doubled", "wrong", "rounds")
	var bars []bar
	for _, sys := range p.Systems {
		rows := p.summaries(kind, workload, sys.Name)
		if len(rows) == 0 {
			continue
		}
		for i, r := range rows {
			if i < len(plotted) && r.Range.Rounds > 0 {
				bars = append(bars, bar{label(sys.Name, plotted[i].name, len(plotted)), r.Range, i})
			}
		}
		s.Rows = append(s.Rows, p.cells(kind, workload, sys.Name, rows))
	}
	s.Plot = barPlot(bars)
	return s
}

func label(system, figure string, of int) string {
	if of == 1 {
		return system
	}
	return system + " " + figure
}

// recoveryBySize plots full output against the number of keys.
func (p *Report) recoveryBySize() (section, bool) {
	lines := map[string][]point{}
	sizes := map[int64]bool{}
	for _, r := range p.Rounds {
		if r.Kind == "recovery" && r.Error == "" {
			lines[r.System] = append(lines[r.System], point{float64(r.Keys), r.FullAfter})
			sizes[r.Keys] = true
		}
	}
	if len(sizes) < 2 {
		return section{}, false
	}
	return section{
		Title: "recovery against state size", Note: "Seconds until full output over the number of keys, both on their own scale.",
		Plot: linePlot(p.lines(lines), "keys", "s"),
	}, true
}

// checkpoints plots duration and size over time of the first round of each
// system that reports them.
func (p *Report) checkpoints() (out []section) {
	for _, kind := range []string{"rate", "checkpoints"} {
		for _, workload := range p.workloads(kind) {
			took, size := map[string][]point{}, map[string][]point{}
			for _, r := range p.Rounds {
				if r.Kind != kind || r.Workload != workload || r.Number != 1 {
					continue
				}
				for _, c := range r.Checkpoints {
					took[r.System] = append(took[r.System], point{c.At, c.Seconds})
					size[r.System] = append(size[r.System], point{c.At, c.MB})
				}
			}
			if len(took) == 0 {
				continue
			}
			out = append(out,
				section{Title: workload + ": duration of checkpoints", Note: "Seconds from trigger to completion over the time of the first round.", Plot: linePlot(p.lines(took), "s", "s")},
				section{Title: workload + ": bytes uploaded by checkpoints", Note: "Megabytes written to the checkpoint store over the time of the first round.", Plot: linePlot(p.lines(size), "s", "MB")})
		}
	}
	return out
}

// lines orders lines as the systems are.
func (p *Report) lines(by map[string][]point) (out []line) {
	for i, s := range p.Systems {
		if pts := by[s.Name]; len(pts) > 0 {
			out = append(out, line{s.Name, pts, i})
		}
	}
	return out
}

type bar struct {
	label string
	value Range
	color int
}

type point struct{ x, y float64 }

type line struct {
	label  string
	points []point
	color  int
}

var colors = []string{"#3366cc", "#dc7633", "#2e9e5b", "#8e44ad", "#c0392b", "#7f8c8d", "#16a085", "#b7950b", "#34495e"}

func color(i int) string { return colors[i%len(colors)] }

const (
	plotWidth  = 760
	labelWidth = 190
	barHeight  = 22
)

// barPlot draws horizontal bars with the range of the rounds.
func barPlot(bars []bar) template.HTML {
	most := 0.0
	for _, b := range bars {
		most = max(most, b.value.Most)
	}
	if most == 0 {
		return ""
	}
	const width = plotWidth - labelWidth - 90
	x := func(v float64) float64 { return labelWidth + v/most*width }
	var s strings.Builder
	fmt.Fprintf(&s, `<svg viewBox="0 0 %d %d" role="img">`, plotWidth, len(bars)*barHeight+8)
	for i, b := range bars {
		y := i*barHeight + 4
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text>`, labelWidth-8, y+14, template.HTMLEscapeString(b.label))
		fmt.Fprintf(&s, `<rect x="%d" y="%d" width="%.1f" height="16" fill="%s"/>`, labelWidth, y, max(x(b.value.Median)-labelWidth, 1), color(b.color))
		fmt.Fprintf(&s, `<path d="M%.1f %d V%d M%.1f %d H%.1f M%.1f %d V%d" stroke="#222" fill="none"/>`,
			x(b.value.Least), y+4, y+12, x(b.value.Least), y+8, x(b.value.Most), x(b.value.Most), y+4, y+12)
		fmt.Fprintf(&s, `<text x="%.1f" y="%d">%s</text>`, x(b.value.Most)+6, y+13, short(b.value.Median))
	}
	s.WriteString(`</svg>`)
	return template.HTML(s.String()) //nolint:gosec // labels are escaped, the rest are numbers
}

// linePlot draws lines over a common pair of axes that begin at 0.
func linePlot(lines []line, xUnit, yUnit string) template.HTML {
	var mostX, mostY float64
	for _, l := range lines {
		for _, p := range l.points {
			mostX, mostY = max(mostX, p.x), max(mostY, p.y)
		}
	}
	if mostX == 0 || mostY == 0 {
		return ""
	}
	const left, top, width, height = 70, 10, plotWidth - 90, 220
	x := func(v float64) float64 { return left + v/mostX*width }
	y := func(v float64) float64 { return top + height - v/mostY*height }
	var s strings.Builder
	fmt.Fprintf(&s, `<svg viewBox="0 0 %d %d" role="img">`, plotWidth, top+height+30+20*len(lines))
	fmt.Fprintf(&s, `<path d="M%d %d V%d H%d" stroke="#888" fill="none"/>`, left, top, top+height, left+width)
	fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s %s</text>`, left-4, top+10, short(mostY), yUnit)
	fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s %s</text>`, left+width, top+height+16, short(mostX), xUnit)
	for i, l := range lines {
		var path []string
		for j, p := range l.points {
			path = append(path, fmt.Sprintf("%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[j == 0], x(p.x), y(p.y)))
		}
		fmt.Fprintf(&s, `<path d="%s" stroke="%s" fill="none" stroke-width="1.5"/>`, strings.Join(path, ""), color(l.color))
		at := top + height + 34 + 20*i
		fmt.Fprintf(&s, `<rect x="%d" y="%d" width="14" height="4" fill="%s"/><text x="%d" y="%d">%s</text>`,
			left, at-6, color(l.color), left+20, at, template.HTMLEscapeString(l.label))
	}
	s.WriteString(`</svg>`)
	return template.HTML(s.String()) //nolint:gosec // labels are escaped, the rest are numbers
}
