package report

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/compare/check"
)

func sampleReport() *Report {
	p := &Report{
		Date: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Machine: "2 cores", Command: "make compare",
		Systems: []System{{"barrier", "tidegate"}, {"kafka-streams", "a <peer>"}},
		Missing: []Missing{{"flink", "mvn is needed"}},
	}
	for i, rate := range []float64{400_000, 500_000, 450_000} {
		p.Rounds = append(p.Rounds,
			Round{Workload: "count", System: "barrier", Kind: "rate", Number: i + 1, Rate: rate, Checkpoints: []Checkpoint{{At: 1, Seconds: 0.2, MB: 3, FullMB: 30}, {At: 2, Seconds: 0.3, MB: 4, FullMB: 10}}},
			Round{Workload: "count", System: "kafka-streams", Kind: "rate", Number: i + 1, Rate: rate / 4})
	}
	p.Rounds = append(p.Rounds,
		Round{Workload: "q5", System: "barrier", Kind: "latency", Number: 1, P50: 600, P99: 1200, P999: 1300, Offered: 50_000},
		Round{Workload: "q5", System: "kafka-streams", Kind: "latency", Number: 1, Error: "lost\nmore", Faults: check.Faults{Lost: 2}},
		Round{Workload: "bigstate 10^5 keys", System: "barrier", Kind: "recovery", Number: 1, Keys: 1e5, FirstAfter: 11, FullAfter: 12},
		Round{Workload: "bigstate 10^6 keys", System: "barrier", Kind: "recovery", Number: 1, Keys: 1e6, FirstAfter: 11, FullAfter: 13})
	for i, full := range []float64{3, 4} {
		p.Rounds = append(p.Rounds,
			Round{Workload: "bigstate 10^6 keys", System: "barrier", Kind: "restore", Number: i + 1, ReadyAfter: 1, FullAfter: full},
			Round{Workload: "bigstate 10^6 keys", System: "kafka-streams", Kind: "restore", Number: i + 1, FullAfter: 12})
	}
	p.Rounds = append(p.Rounds, Round{Workload: "bigstate 10^6 keys", System: "barrier", Kind: "checkpoints", Number: 1,
		Checkpoints: []Checkpoint{{MB: 1, FullMB: 100}, {At: 1, Seconds: 1, MB: 9, FullMB: 100}}})
	p.Summarize()
	return p
}

func TestSummary(t *testing.T) {
	p := sampleReport()
	s := p.summaries("rate", "count", "barrier")
	require.Len(t, s, len(figures["rate"]))
	require.Equal(t, Range{450_000, 400_000, 500_000, 3}, s[0].Range)
	ratio, ok := p.ratio("rate", "count", "barrier", "kafka-streams")
	require.True(t, ok)
	require.Equal(t, Range{4, 4, 4, 3}, ratio)
	lost := p.summaries("latency", "q5", "kafka-streams")
	require.EqualValues(t, 2, lost[0].Lost)
	require.Equal(t, 1, lost[0].Failed)
	require.Equal(t, "–", lost[0].Range.String())
	ratio, ok = p.ratio("restore", "bigstate 10^6 keys", "barrier", "kafka-streams")
	require.True(t, ok)
	require.Equal(t, Range{3.5, 3, 4, 2}, ratio, "times are the other way round")
	require.Equal(t, Range{5, 5, 5, 1}, p.summaries("checkpoints", "bigstate 10^6 keys", "barrier")[0].Range)
	require.EqualError(t, p.Err(), "latency of q5, round 1 of kafka-streams failed: lost")
}

func TestWriters(t *testing.T) {
	p := sampleReport()
	var md, page, text bytes.Buffer
	require.NoError(t, p.Markdown(&md))
	require.Contains(t, md.String(), "| barrier | 450 k (400 k–500 k) |")
	require.Contains(t, md.String(), "4.00 (4.00–4.00)")
	require.Contains(t, md.String(), "- q5, latency, kafka-streams, round 1: lost\n")
	require.Contains(t, md.String(), "1 of 1 FAILED: lost |")
	require.Contains(t, md.String(), "| full output, × kafka-streams |")
	require.Contains(t, md.String(), "3.50 (3.00–4.00)")
	require.Contains(t, md.String(), "**flink took no part:** mvn is needed")
	require.Contains(t, md.String(), "| kafka-streams | – | – | 12.0 (12.0–12.0) | – | – |", "what its log does not say")
	require.Contains(t, md.String(), "| barrier | 600 | 1200 | 1300 | 50 k |", "the offered rate")
	require.NoError(t, p.HTML(&page))
	require.Contains(t, page.String(), "<svg")
	require.Contains(t, page.String(), "recovery against state size")
	require.Contains(t, page.String(), "count: duration of checkpoints")
	require.Contains(t, page.String(), "a &lt;peer&gt;")
	require.NoError(t, p.JSON(&text))
	var back Report
	require.NoError(t, json.Unmarshal(text.Bytes(), &back))
	require.Equal(t, p.Rounds, back.Rounds)
}
