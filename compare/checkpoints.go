package main

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/compare/report"
)

// checkpointsOf reads the completed checkpoints from the log of a tidegate
// process; other logs have none.
func checkpointsOf(log string) (out []report.Checkpoint) {
	f, err := os.Open(log)
	if err != nil {
		return nil
	}
	defer f.Close()
	var first time.Time
	for s := linesOf(f); s.Scan(); {
		if !strings.Contains(s.Text(), `msg="checkpoint completed"`) {
			continue
		}
		fields := wordsOf(s.Text())
		at, err := time.Parse(time.RFC3339Nano, fields["time"])
		took, err2 := time.ParseDuration(fields["took"])
		bytes, err3 := strconv.ParseInt(fields["uploaded"], 10, 64)
		held, err4 := strconv.ParseInt(fields["referenced"], 10, 64)
		if err != nil || err2 != nil || err3 != nil || err4 != nil {
			continue
		}
		if first.IsZero() {
			first = at
		}
		out = append(out, report.Checkpoint{When: at, At: at.Sub(first).Seconds(), Seconds: took.Seconds(), MB: float64(bytes) / 1e6, FullMB: float64(bytes+held) / 1e6})
	}
	return out
}

// linesOf reads a log line by line, also the long ones of a failure.
func linesOf(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 16<<20)
	return s
}

// wordsOf reads the key=value words of a log line.
func wordsOf(line string) map[string]string {
	fields := map[string]string{}
	for _, word := range strings.Fields(line) {
		if k, v, ok := strings.Cut(word, "="); ok {
			fields[k] = v
		}
	}
	return fields
}
