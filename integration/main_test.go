// Package integration holds the tests that need real servers: a Kafka broker, an S3
// server, processes that are killed.
package integration

import (
	"os"
	"testing"

	"github.com/tidegate/tidegate/integration/servers"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(childMain(text))
	}
	servers.Main(m)
}
