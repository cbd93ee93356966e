package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/integration/servers"
)

// The example of `make demo`, on real servers.
func TestFlightsDemonstration(t *testing.T) {
	k := servers.RequireKafka(t)
	store, bucket := servers.RequireS3(t)
	program := filepath.Join(t.TempDir(), "flights")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../examples/flights")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program, "-brokers", strings.Join(k.Brokers(), ","),
		"-store", "s3://"+bucket+"/flights", "-days", "8", "-pace", "12s")
	// The endpoint is always named: without it the SDK would look for Amazon's.
	cmd.Env = append(append(os.Environ(), store.Env()...), "AWS_ENDPOINT_URL_S3="+store.Endpoint)
	out, err := cmd.CombinedOutput()
	if err != nil || testing.Verbose() {
		t.Logf("%s", out)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "result equals the direct computation: ") {
		t.Fatal("the demonstration says nothing of its result")
	}
}
