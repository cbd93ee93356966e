package tidegate_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// What docs/failures.md quotes of log and errors is in the code: a changed text
// must be changed there too.
func TestFailuresQuotesRealTexts(t *testing.T) {
	var all strings.Builder
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		b, err := os.ReadFile(name)
		all.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	source := all.String()
	page, err := os.ReadFile("docs/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	found := 0
	for line := range strings.Lines(string(page)) {
		cell, rest, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !ok || !strings.HasPrefix(line, "| ") {
			continue
		}
		if cells := strings.Split(rest, " | "); len(cells) == 4 { // of the faults: how it shows
			cell = cells[1]
		}
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			for piece := range strings.SplitSeq(m[1], "…") {
				piece = strings.Trim(piece, " ():,")
				if piece == "" || strings.HasPrefix(piece, "kill") || strings.HasPrefix(piece, "Health.") {
					continue
				}
				found++
				if !strings.Contains(source, piece) {
					t.Errorf("no code says %q", piece)
				}
			}
		}
	}
	if found < 30 {
		t.Fatalf("found only %d quotations: has the page another form?", found)
	}
}

// Every row of the faults in docs/failures.md names tests that are there.
func TestFaultsLinkToTests(t *testing.T) {
	page, err := os.ReadFile("docs/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Faults, each with its test")
	table, _, _ = strings.Cut(table, "\n## ")
	link := regexp.MustCompile(`\[(Test\w+)\]\(\.\./([^)]+)\)`)
	rows := 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| failure") {
			continue
		}
		rows++
		found := link.FindAllStringSubmatch(line, -1)
		if len(found) == 0 {
			t.Errorf("no test proves %q", line)
		}
		for _, m := range found {
			source, err := os.ReadFile(m[2])
			if err != nil || !strings.Contains(string(source), "func "+m[1]+"(t *testing.T)") {
				t.Errorf("%s has no test %s (%v)", m[2], m[1], err)
			}
		}
	}
	if rows < 20 {
		t.Fatalf("found only %d faults: has the page another form?", rows)
	}
}

// Links between the pages, and to files of the repository, lead somewhere.
func TestLinksOfThePages(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	code := regexp.MustCompile("(?s)```.*?```")
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "node_modules" {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".md") {
			return nil
		}
		page, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(page), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(path.Join(path.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
