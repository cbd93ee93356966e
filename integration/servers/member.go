package servers

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// GroupMember is a consumer of Kafka's own client, in a process, which is a member
// of a group.
type GroupMember struct {
	*Process
	mu  sync.Mutex
	out strings.Builder
}

// StartGroupMember starts a consumer of a topic in a group; protocol is "classic",
// or "consumer" for the one of KIP-848. It is killed with the test. Without Java
// the test is skipped; it fails where CI=true.
func StartGroupMember(t testing.TB, broker, group, topic, protocol string) *GroupMember {
	t.Helper()
	libs, err := javaAvailable(t.Context())
	require(t, err)
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	m := &GroupMember{}
	m.Process, err = StartProcess(Command{
		Path: "java",
		Args: []string{
			"-Xmx128m", "-cp", filepath.Join(libs, "*"),
			filepath.Join(root, "integration", "servers", "kafka", "GroupMember.java"), broker, group, topic, protocol,
		},
		LogPath: filepath.Join(t.TempDir(), "member.log"),
		Stdout:  m,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = m.Kill()
		if t.Failed() {
			t.Logf("the foreign member said %q; end of its log:\n%s", m.Said(), tail(m.LogPath, 3000))
		}
	})
	return m
}

// Write takes its standard output.
func (m *GroupMember) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out.Write(b)
}

// Said is what it printed so far: "joined", "failed …".
func (m *GroupMember) Said() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out.String()
}
