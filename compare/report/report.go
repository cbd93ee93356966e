// Package report turns the rounds of a comparison into a Markdown table, a JSON
// file and a self-contained HTML page.
//
// All figures are ratios within one run on one machine: medians and ranges over
// rounds in which the systems took turns.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/compare/check"
)

// Report is everything a run found out.
type Report struct {
	Date     time.Time `json:"date"`
	Machine  string    `json:"machine"`
	Versions []string  `json:"versions"`
	Command  string    `json:"command"`
	Settings []string  `json:"settings"`
	Systems  []System  `json:"systems"`
	Rounds   []Round   `json:"rounds"`
	Missing  []Missing `json:"missing,omitempty"`
	// Remarks say what a reader of the figures must know about this run.
	Remarks []string  `json:"remarks,omitempty"`
	Summary []Summary `json:"summary"`
}

// Remark adds a remark.
func (p *Report) Remark(format string, args ...any) {
	p.Remarks = append(p.Remarks, fmt.Sprintf(format, args...))
}

// System describes a contestant.
type System struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// Missing is a system that could not take part.
type Missing struct {
	System string `json:"system"`
	Why    string `json:"why"`
}

// Round is one measurement of one system.
type Round struct {
	Workload string `json:"workload"`
	System   string `json:"system"`
	Kind     string `json:"kind"` // one of kinds
	Number   int    `json:"number"`
	Error    string `json:"error,omitempty"`

	// Records are the input records that the output accounts for.
	Records int64        `json:"records"`
	Faults  check.Faults `json:"faults"`

	// Rate is in input records per second over a window.
	Rate          float64 `json:"rate,omitempty"`
	WindowSeconds float64 `json:"windowSeconds,omitempty"`
	// WarmupCounts: the input ended so early that the rate is of the whole round.
	WarmupCounts  bool    `json:"warmupCounts,omitempty"`
	CPUPerMillion float64 `json:"cpuSecondsPerMillion,omitempty"`
	RSSMB         int64   `json:"rssMB,omitempty"`
	Bytes         Bytes   `json:"brokerBytesPerRecord"`

	Checkpoints []Checkpoint `json:"checkpoints,omitempty"`

	// Latencies are in milliseconds.
	Offered      int64   `json:"offered,omitempty"`
	P50          float64 `json:"p50,omitempty"`
	P99          float64 `json:"p99,omitempty"`
	P999         float64 `json:"p999,omitempty"`
	Samples      int64   `json:"samples,omitempty"`
	LoadBehindMs float64 `json:"loadBehindMs,omitempty"`

	// Times from the kill in seconds, and the size of the state.
	Keys       int64   `json:"keys,omitempty"`
	FirstAfter float64 `json:"firstAfter,omitempty"`
	FullAfter  float64 `json:"fullAfter,omitempty"`
	StateMB    float64 `json:"stateMB,omitempty"`
	// ReadMB is what the others read of it after the kill, where their logs say so.
	ReadMB float64 `json:"readMB,omitempty"`

	// ReadyAfter is from the start to the last restored task.
	ReadyAfter      float64 `json:"readyAfter,omitempty"`
	ReadMBPerSecond float64 `json:"readMBPerSecond,omitempty"`
	// ChangedPercent of the keys changed between two checkpoints, on average.
	ChangedPercent float64 `json:"changedPercent,omitempty"`
}

// Bytes are what a system wrote to the broker, per input record.
type Bytes struct {
	Output      float64 `json:"output"`
	Repartition float64 `json:"repartition"`
	Changelog   float64 `json:"changelog"`
	Other       float64 `json:"other"`
}

// storeBytes are what its checkpoints uploaded, per input record.
func (r Round) storeBytes() (sum float64) {
	for _, c := range r.Checkpoints {
		sum += c.MB * 1e6 / float64(max(r.Records, 1))
	}
	return sum
}

// Checkpoint is one checkpoint of a round, as the system reported it.
type Checkpoint struct {
	When    time.Time `json:"-"`
	At      float64   `json:"at"`      // seconds since the first of the round
	Seconds float64   `json:"seconds"` // from trigger to completion
	MB      float64   `json:"mb"`      // uploaded
	FullMB  float64   `json:"fullMB"`  // the files of the checkpoint, uploaded or referred to
}

// share is what a round's checkpoints uploaded, in percent of their full size.
func share(c Checkpoint) float64 { return 100 * c.MB / max(c.FullMB, 1e-6) }

// Uploads is the mean and the most that its checkpoints uploaded, in percent of
// their full size.
func (r Round) Uploads() (mean, most float64) { return over(r, share) }

// over is the mean and the most of a figure of a round's checkpoints.
func over(r Round, of func(Checkpoint) float64) (mean, most float64) {
	for _, c := range r.Checkpoints {
		mean += of(c) / float64(len(r.Checkpoints))
		most = max(most, of(c))
	}
	return mean, most
}

func meanOf(of func(Checkpoint) float64) func(Round) float64 {
	return func(r Round) float64 { mean, _ := over(r, of); return mean }
}

func mostOf(of func(Checkpoint) float64) func(Round) float64 {
	return func(r Round) float64 { _, most := over(r, of); return most }
}

// Range is the median of the rounds and their extremes.
type Range struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
	Rounds int     `json:"rounds"`
}

// Summary is a figure of one system in one workload.
type Summary struct {
	Workload string `json:"workload"`
	Kind     string `json:"kind"`
	System   string `json:"system"`
	Figure   string `json:"figure"`
	Range    Range  `json:"range"`
	Lost     int64  `json:"lost"`
	Doubled  int64  `json:"doubled"`
	Wrong    int64  `json:"wrong"`
	Failed   int    `json:"failedRounds"`
}

// figures of each kind of round, in the order of the tables.
var figures = map[string][]struct {
	name string
	unit string
	of   func(Round) float64
}{
	"rate": {
		{"rate", "records/s", func(r Round) float64 { return r.Rate }},
		{"cpu", "s per million records", func(r Round) float64 { return r.CPUPerMillion }},
		{"memory", "MB", func(r Round) float64 { return float64(r.RSSMB) }},
		{"output", "bytes per record", func(r Round) float64 { return r.Bytes.Output }},
		{"repartition", "bytes per record", func(r Round) float64 { return r.Bytes.Repartition }},
		{"changelog", "bytes per record", func(r Round) float64 { return r.Bytes.Changelog }},
		{"checkpoint store", "bytes per record", func(r Round) float64 { return r.storeBytes() }},
	},
	"latency": {
		{"p50", "ms", func(r Round) float64 { return r.P50 }},
		{"p99", "ms", func(r Round) float64 { return r.P99 }},
		{"p99.9", "ms", func(r Round) float64 { return r.P999 }},
		{"offered", "records/s", func(r Round) float64 { return float64(r.Offered) }},
	},
	"recovery": {
		{"first output", "s", func(r Round) float64 { return r.FirstAfter }},
		{"full output", "s", func(r Round) float64 { return r.FullAfter }},
		{"held for it", "MB", func(r Round) float64 { return r.StateMB }},
		{"read", "MB", func(r Round) float64 { return r.ReadMB }},
	},
	"restore": {
		{"tasks ready", "s", func(r Round) float64 { return r.ReadyAfter }},
		{"first output", "s", func(r Round) float64 { return r.FirstAfter }},
		{"full output", "s", func(r Round) float64 { return r.FullAfter }},
		{"read", "MB", func(r Round) float64 { return r.StateMB }},
		{"speed", "MB/s", func(r Round) float64 { return r.ReadMBPerSecond }},
	},
	"checkpoints": {
		{"uploaded, mean", "% of the full size", meanOf(share)},
		{"uploaded, most", "% of the full size", mostOf(share)},
		{"full size", "MB", meanOf(func(c Checkpoint) float64 { return c.FullMB })},
		{"duration, mean", "s", meanOf(func(c Checkpoint) float64 { return c.Seconds })},
		{"duration, most", "s", mostOf(func(c Checkpoint) float64 { return c.Seconds })},
		{"changed between two", "% of the keys", func(r Round) float64 { return r.ChangedPercent }},
	},
}

var kinds = []string{"rate", "latency", "recovery", "restore", "checkpoints"}

// Summarize fills Summary from Rounds.
func (p *Report) Summarize() {
	p.Summary = nil
	for _, kind := range kinds {
		for _, w := range p.workloads(kind) {
			for _, s := range p.Systems {
				p.summarize(kind, w, s.Name)
			}
		}
	}
}

func (p *Report) summarize(kind, workload, system string) {
	rounds := p.of(kind, workload, system)
	if len(rounds) == 0 {
		return
	}
	base := Summary{Workload: workload, Kind: kind, System: system}
	var good []Round
	for _, r := range rounds {
		base.Lost, base.Doubled, base.Wrong = base.Lost+r.Faults.Lost, base.Doubled+r.Faults.Doubled, base.Wrong+r.Faults.Wrong
		if r.Error != "" {
			base.Failed++
			continue
		}
		good = append(good, r)
	}
	for _, f := range figures[kind] {
		s := base
		s.Figure, s.Range = f.name, rangeOf(good, f.of)
		p.Summary = append(p.Summary, s)
	}
}

func rangeOf(rounds []Round, of func(Round) float64) Range {
	var v []float64
	for _, r := range rounds {
		v = append(v, of(r))
	}
	return rangeOver(v)
}

func rangeOver(v []float64) Range {
	if len(v) == 0 {
		return Range{}
	}
	slices.Sort(v)
	m := v[len(v)/2]
	if n := len(v); n%2 == 0 {
		m = (v[n/2-1] + v[n/2]) / 2
	}
	return Range{m, v[0], v[len(v)-1], len(v)}
}

// of returns the rounds of one system in one workload, by number.
func (p *Report) of(kind, workload, system string) []Round {
	var out []Round
	for _, r := range p.Rounds {
		if r.Kind == kind && r.Workload == workload && r.System == system {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Round) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

func (p *Report) workloads(kind string) []string {
	var out []string
	for _, r := range p.Rounds {
		if r.Kind == kind && !slices.Contains(out, r.Workload) {
			out = append(out, r.Workload)
		}
	}
	return out
}

// Err returns an error if a round failed, lost or doubled anything.
func (p *Report) Err() error {
	for _, r := range p.Rounds {
		if r.Error != "" {
			line, _, _ := strings.Cut(r.Error, "\n")
			return fmt.Errorf("%s of %s, round %d of %s failed: %s", r.Kind, r.Workload, r.Number, r.System, line)
		}
	}
	return nil
}

// JSON writes the whole report.
func (p *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(p)
}
