package main

import (
	"fmt"
	"time"
)

// variant is a workload with another interval or skew than the run's.
type variant struct {
	label    string // behind the workload's name; "" for the workload as it is
	interval time.Duration
	skew     float64
}

// plain is a workload with the run's settings.
func (r *runner) plain() variant { return variant{interval: r.interval} }

// intervalSweep are the variants of -intervals.
func (r *runner) intervalSweep() (out []variant) {
	for _, d := range r.sweepIntervals {
		out = append(out, variant{label: "interval " + d.String(), interval: d})
	}
	return out
}

// skewSweep are the variants of -skews.
func (r *runner) skewSweep() (out []variant) {
	for _, s := range r.sweepSkews {
		out = append(out, variant{label: fmt.Sprintf("skew %g", s), interval: r.interval, skew: s})
	}
	return out
}

// of is the name of a variant of a workload in the report.
func (v variant) of(workload string) string {
	if v.label == "" {
		return workload
	}
	return workload + ", " + v.label
}

// tag is the variant in the names of topics.
func (v variant) tag() string {
	switch {
	case v.label == "":
		return ""
	case v.skew > 0:
		return fmt.Sprintf("s%d", int(v.skew*1000))
	}
	return fmt.Sprintf("i%d", v.interval.Milliseconds())
}
