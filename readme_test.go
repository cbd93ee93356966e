package tidegate_test

import (
	"bufio"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// readmeProgram returns the complete program of README.md.
func readmeProgram(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```go\npackage main\n")
	program, _, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		t.Fatal("README.md has no block that begins with package main")
	}
	return "package main\n" + program
}

// The README's program, as a new user would try it: in a module of its own.
func TestReadmeProgramRuns(t *testing.T) {
	program := readmeProgram(t)
	if n := strings.Count(program, "\n"); n > 40 {
		t.Errorf("the program has %d lines, the README promises 40", n)
	}
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("main.go", program)
	write("go.sum", string(sums)) // saves asking a checksum server
	write("go.mod", "module example\n\ngo 1.27.0\n\nrequire "+modulePath+" v0.0.0\n\nreplace "+modulePath+" => "+root+"\n")

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-o", "program", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	runProgram(t, ctx, dir)
}

// runProgram starts the program, waits for its output, interrupts it and
// expects a clean end.
func runProgram(t *testing.T, ctx context.Context, dir string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "program"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{"to 1": true, "to 2": true, "be 1": true, "be 2": true, "or 1": true, "not 1": true}
	for lines := bufio.NewScanner(out); len(missing) > 0 && lines.Scan(); {
		if !missing[lines.Text()] {
			t.Errorf("prints %q", lines.Text())
		}
		delete(missing, lines.Text())
	}
	if len(missing) > 0 {
		_ = cmd.Process.Kill()
		t.Errorf("ended or printed without %v", missing)
	}
	_ = cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
	if t.Failed() {
		t.Log(log.String())
	}
}

// Every option is in the README's table, and nothing that is no option.
func TestReadmeListsEveryOption(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	options := map[string]bool{}
	names, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Type.Results != nil && len(fn.Type.Results.List) == 1 {
				if id, ok := fn.Type.Results.List[0].Type.(*ast.Ident); ok && id.Name == "Option" {
					options[fn.Name.Name] = true
				}
			}
		}
	}
	_, table, _ := strings.Cut(string(readme), "## Options")
	table, _, _ = strings.Cut(table, "## ")
	for name := range options {
		if !strings.Contains(table, "`"+name+"`") {
			t.Errorf("the README's table lacks %s", name)
		}
	}
	for line := range strings.Lines(table) {
		cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for name := range strings.SplitSeq(cell, ", ") {
			if name = strings.Trim(name, "`"); ok && name != "option" && !options[name] {
				t.Errorf("the README's table has %q, which is no option", name)
			}
		}
	}
}
