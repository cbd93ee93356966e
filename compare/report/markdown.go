package report

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes tables of medians and ranges, one per workload and kind.
func (p *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Date: %s. Machine: %s. Versions: %s.\n\nRepeat with: `%s`\n\n",
		p.Date.Format("2006-01-02"), p.Machine, strings.Join(p.Versions, ", "), p.Command)
	for _, s := range p.Settings {
		fmt.Fprintf(&b, "- %s\n", s)
	}
	b.WriteString("\n| system | what it is |\n|---|---|\n")
	for _, s := range p.Systems {
		fmt.Fprintf(&b, "| %s | %s |\n", s.Name, s.About)
	}
	for _, m := range p.Missing {
		fmt.Fprintf(&b, "\n**%s took no part:** %s\n", m.System, m.Why)
	}
	for _, remark := range p.Remarks {
		fmt.Fprintf(&b, "\n**Mind:** %s\n", remark)
	}
	for _, kind := range kinds {
		for _, workload := range p.workloads(kind) {
			p.table(&b, kind, workload)
		}
	}
	p.failures(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *Report) table(b *strings.Builder, kind, workload string) {
	heads := []string{"system"}
	for _, f := range figures[kind] {
		heads = append(heads, f.name+", "+f.unit)
	}
	heads = append(append(heads, p.ratioHeads(kind, workload)...), "lost", "doubled", "wrong", "rounds")
	fmt.Fprintf(b, "\n### %s: %s\n\n| %s |\n%s|\n", workload, kind, strings.Join(heads, " | "), strings.Repeat("|---", len(heads)))
	for _, s := range p.Systems {
		rows := p.summaries(kind, workload, s.Name)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(p.cells(kind, workload, s.Name, rows), " | "))
	}
}

// cells are a row of a table.
func (p *Report) cells(kind, workload, system string, rows []Summary) []string {
	cells := []string{system}
	for _, r := range rows {
		cells = append(cells, r.Range.String())
	}
	cells = append(cells, p.ratios(kind, workload, system)...)
	return append(cells, fmt.Sprint(rows[0].Lost), fmt.Sprint(rows[0].Doubled), fmt.Sprint(rows[0].Wrong), p.verdict(kind, workload, system))
}

func (p *Report) summaries(kind, workload, system string) []Summary {
	var out []Summary
	for _, s := range p.Summary {
		if s.Kind == kind && s.Workload == workload && s.System == system {
			out = append(out, s)
		}
	}
	return out
}

func (p *Report) failures(b *strings.Builder) {
	head := "\n### Failed rounds\n\n"
	for _, r := range p.Rounds {
		if r.Error == "" {
			continue
		}
		line, _, _ := strings.Cut(r.Error, "\n")
		fmt.Fprintf(b, "%s- %s, %s, %s, round %d: %s\n", head, r.Workload, r.Kind, r.System, r.Number, line)
		head = ""
	}
}

// String is "median (least–most)", and a dash where no round has the figure: a
// system that does not write something, or does not tell of it.
func (r Range) String() string {
	if r.Rounds == 0 || r.Most == 0 {
		return "–"
	}
	if r.Rounds == 1 {
		return short(r.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", short(r.Median), short(r.Least), short(r.Most))
}

// short is a number with about three digits that matter.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0f k", v/1e3)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
