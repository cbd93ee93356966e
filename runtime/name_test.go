package runtime

import (
	"os"
	"path/filepath"
	"testing"
)

// An instance's name is drawn once; what is no name, as zeros that a power failure
// left, is replaced.
func TestStableName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "instance")
	name, err := stableName(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := stableName(path); err != nil || again != name {
		t.Fatalf("%q, %v, want %q", again, err, name)
	}
	for _, bad := range []string{"", "\x00\x00\x00\x00", "two words\n", "\xff"} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		fresh, err := stableName(path)
		if err != nil || !validID.MatchString(fresh) || fresh == name {
			t.Errorf("of %q came %q, %v", bad, fresh, err)
		}
	}
}
