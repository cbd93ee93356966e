package examples_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each program prints what its README shows, and nothing else, and ends in order
// after Ctrl-C.
func TestProgramsPrintWhatTheirReadmesShow(t *testing.T) {
	for _, line := range []string{"wordcount", "wordcount -mode changelog", "sessions", "orders", "dedup", "punctuation", "flightjoins"} {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			name := args[0]
			missing := shown(t, name)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			program := filepath.Join(t.TempDir(), name)
			if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./"+name).CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, out)
			}

			cmd := exec.CommandContext(ctx, program, args[1:]...)
			cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
			var log strings.Builder
			cmd.Stderr = &log
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for lines := bufio.NewScanner(out); len(missing) > 0 && lines.Scan(); {
				if missing[lines.Text()]--; missing[lines.Text()] < 0 {
					t.Errorf("prints %q, which the README does not show", lines.Text())
				}
				if missing[lines.Text()] <= 0 {
					delete(missing, lines.Text())
				}
			}
			for line := range missing {
				t.Errorf("does not print %q", line)
			}
			_ = cmd.Process.Signal(os.Interrupt)
			if err := cmd.Wait(); err != nil {
				t.Errorf("after Ctrl-C: %v", err)
			}
			if t.Failed() {
				t.Log(log.String())
			}
		})
	}
}

// shown counts the lines of the README's first block of output.
func shown(t *testing.T, name string) map[string]int {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(name, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```text\n")
	block, _, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		t.Fatalf("%s/README.md has no block ```text", name)
	}
	lines := map[string]int{}
	for line := range strings.Lines(block) {
		lines[strings.TrimSpace(line)]++
	}
	return lines
}
