package report

import (
	"fmt"
	"strings"
)

// contests say, per kind of round, which figure is compared with whose within a
// round, so that what disturbed a whole round disturbs no ratio.
var contests = map[string]struct {
	figure string
	of     func(Round) float64
	least  bool // less is better
	bases  []string
}{
	"rate":     {"rate", func(r Round) float64 { return r.Rate }, false, []string{"kafka-streams", "flink", "floor", "at-least-once"}},
	"latency":  {"p50", func(r Round) float64 { return r.P50 }, true, []string{"kafka-streams", "flink", "changelog"}},
	"recovery": {"full output", func(r Round) float64 { return r.FullAfter }, true, []string{"kafka-streams", "changelog"}},
	"restore":  {"full output", func(r Round) float64 { return r.FullAfter }, true, []string{"kafka-streams", "changelog"}},
}

// bases are the systems that others are compared with in a table: those that took
// part.
func (p *Report) bases(kind, workload string) (out []string) {
	for _, base := range contests[kind].bases {
		if len(p.of(kind, workload, base)) > 0 {
			out = append(out, base)
		}
	}
	return out
}

// ratio is how many times as good a system is as another within the same round:
// its rate divided by the other's, or the other's time by its own. ok is false
// where no round has both.
func (p *Report) ratio(kind, workload, system, to string) (r Range, ok bool) {
	c := contests[kind]
	base := map[int]float64{}
	for _, r := range p.of(kind, workload, to) {
		if v := c.of(r); r.Error == "" && v > 0 {
			base[r.Number] = v
		}
	}
	var ratios []float64
	for _, r := range p.of(kind, workload, system) {
		v, b := c.of(r), base[r.Number]
		switch {
		case r.Error != "" || v <= 0 || b <= 0:
		case c.least:
			ratios = append(ratios, b/v)
		default:
			ratios = append(ratios, v/b)
		}
	}
	return rangeOver(ratios), len(ratios) > 0
}

// ratios are the cells of a row.
func (p *Report) ratios(kind, workload, system string) (cells []string) {
	for _, base := range p.bases(kind, workload) {
		r, ok := p.ratio(kind, workload, system, base)
		if !ok || base == system {
			cells = append(cells, "")
			continue
		}
		cells = append(cells, r.String())
	}
	return cells
}

// ratioHeads are the heads of those cells.
func (p *Report) ratioHeads(kind, workload string) (heads []string) {
	for _, base := range p.bases(kind, workload) {
		heads = append(heads, fmt.Sprintf("%s, × %s", contests[kind].figure, base))
	}
	return heads
}

// verdict says of how many rounds a row is, and what went wrong.
func (p *Report) verdict(kind, workload, system string) string {
	rounds := p.of(kind, workload, system)
	failed, first := 0, ""
	for _, r := range rounds {
		if r.Error == "" {
			continue
		}
		if failed++; failed == 1 {
			first, _, _ = strings.Cut(r.Error, "\n")
		}
	}
	if failed == 0 {
		return fmt.Sprint(len(rounds))
	}
	return fmt.Sprintf("%d of %d FAILED: %s", failed, len(rounds), clipped(first))
}

// clipped keeps tables readable.
func clipped(s string) string {
	const most = 120
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
