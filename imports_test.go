package tidegate_test

import (
	"cmp"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/tidegate/tidegate"

// layers are the packages from left to right: one may import those of its own line only
// where the line says so, and those of lines above it. A folder stands for its
// sub-packages too, which may import it and each other.
var layers = []struct {
	folders []string
	mutual  bool // packages of this line may import each other
}{
	{mutual: true, folders: []string{"internal/ids", "internal/restart", "record", "serde"}},
	{mutual: false, folders: []string{"topology", "barrier", "checkpoint", "state", "transactions", "rebalance", "internal/kafka"}},
	{mutual: true, folders: []string{"operators", "tasks", "internal/harness"}},
	{mutual: true, folders: []string{"changelog", "runtime"}},
	{mutual: false, folders: []string{"."}},
	{mutual: true, folders: []string{"embedded", "tidegatetest", "internal/sim", "internal/testkit", "internal/dsltest", "examples", "cmd"}},
}

// ownModules are folders with a go.mod of their own: they may import everything, and
// nothing here may import them.
var ownModules = []string{"compare", "integration", "tools"}

// dependencies are libraries that few packages may know. A test file needs its folder in
// tests or in code.
var dependencies = []struct {
	prefix string
	code   []string // folders whose code may import it
	files  []string // single files that may
	tests  []string // folders whose tests may
	reason string
}{
	{
		prefix: "github.com/IBM/sarama",
		code:   []string{"internal/kafka"},
		files:  []string{"saramaoption.go", "internal/testkit/network.go"},
		tests:  []string{"embedded"},
		reason: "the Kafka client is internal/kafka's business; users hand over its configuration in one file of the root",
	},
	{
		prefix: "github.com/cockroachdb/pebble",
		code:   []string{"state/pebblestore"},
		reason: "everybody else knows state.Engine",
	},
	{
		prefix: "github.com/aws/",
		code:   []string{"checkpoint/s3"},
		reason: "everybody else knows checkpoint.Store, and who stores in a directory links no SDK",
	},
	{
		prefix: "github.com/johannesboyne/gofakes3",
		tests:  []string{"checkpoint"},
		reason: "an S3 server for tests",
	},
	{
		prefix: "github.com/twmb/franz-go",
		code:   []string{"embedded"},
		tests:  []string{"internal/kafka", "internal/dsltest/logfaults"},
		reason: "the in-process broker must not be linked unless embedded is imported",
	},
	{
		prefix: "github.com/twmb/avro",
		code:   []string{"serde/avroserde"},
		reason: "who uses no Avro links no library for it",
	},
	{
		prefix: "google.golang.org/protobuf",
		code:   []string{"serde/protoserde"},
		reason: "who uses no Protobuf does not import it through tidegate",
	},
	{
		prefix: "github.com/tidegate/tidegate/serde/",
		code:   []string{"serde", "examples"},
		tests:  []string{""},
		reason: "the library itself works with any serde.Serde",
	},
	{
		prefix: "github.com/stretchr/testify",
		code:   []string{"internal/dsltest/partial"}, // a test that integration runs, too
		tests:  []string{""},
		reason: "assertions are for tests",
	},
	{
		prefix: "github.com/cockroachdb/datadriven",
		tests:  []string{""},
		reason: "table files are for tests",
	},
}

// TestImportDirection holds the code to the layers above. Test files may look to the
// right: an external test of a package may use what is built on it.
func TestImportDirection(t *testing.T) {
	for _, f := range sourceFiles(t) {
		line, folder := layerOf(f.folder)
		if line < 0 {
			t.Errorf("%s: folder %s is in no layer; add it to the table of this test and to the layout", f.name, f.folder)
			continue
		}
		for _, imported := range f.imports {
			target, local := localFolder(imported)
			if !local || f.test {
				continue
			}
			targetLine, targetFolder := layerOf(target)
			switch {
			case targetLine < 0:
				t.Errorf("%s imports %s, which is in no layer", f.name, imported)
			case targetLine > line:
				t.Errorf("%s imports %s, which is built on top of %s", f.name, imported, folder)
			case targetLine == line && targetFolder != folder && !layers[line].mutual:
				t.Errorf("%s imports %s beside it; shared values belong into internal/ids, record or serde", f.name, imported)
			}
		}
	}
}

// TestDependenciesStayInTheirPackage keeps large libraries behind one package each.
func TestDependenciesStayInTheirPackage(t *testing.T) {
	for _, f := range sourceFiles(t) {
		for _, imported := range f.imports {
			for _, d := range dependencies {
				if !strings.HasPrefix(imported, d.prefix) {
					continue
				}
				allowed := slices.Contains(d.files, f.name) || slices.ContainsFunc(d.code, f.under) ||
					f.test && slices.ContainsFunc(d.tests, f.under)
				if !allowed {
					t.Errorf("%s imports %s: %s", f.name, imported, d.reason)
				}
			}
		}
	}
}

type sourceFile struct {
	name    string // path from the root
	folder  string
	imports []string
	test    bool
}

func (f sourceFile) under(folder string) bool {
	return folder == "" || f.folder == folder || strings.HasPrefix(f.folder, folder+"/")
}

// sourceFiles parses the imports of every Go file of this module.
func sourceFiles(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			base := entry.Name()
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin" || slices.Contains(ownModules, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		f := sourceFile{name: name, folder: path.Dir(name), test: strings.HasSuffix(name, "_test.go")}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, imported)
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(files, func(a, b sourceFile) int { return cmp.Compare(a.name, b.name) })
	return files
}

// localFolder turns an import path of this module into its folder.
func localFolder(imported string) (string, bool) {
	if imported == modulePath {
		return ".", true
	}
	return strings.CutPrefix(imported, modulePath+"/")
}

// layerOf finds the line of layers that a folder belongs to and the entry it is under;
// -1 if there is none.
func layerOf(folder string) (line int, entry string) {
	for i, layer := range layers {
		for _, f := range layer.folders {
			if folder == f || f != "." && strings.HasPrefix(folder, f+"/") {
				return i, f
			}
		}
	}
	return -1, ""
}
