package main

import (
	"strings"
	"testing"
)

func TestCommandsRefuseWithAdvice(t *testing.T) {
	var forfeit strings.Builder
	if code := run([]string{"forfeit", "--application", "a"}, &forfeit); code != 1 || !strings.Contains(forfeit.String(), "AllowLostOutput") {
		t.Errorf("forfeit: code %d, %q", code, forfeit.String())
	}
	for _, name := range []string{"repair", "upgrade"} {
		var out strings.Builder
		if code := run([]string{name, "--application", "a"}, &out); code != 2 || !strings.Contains(out.String(), "--checkpoints") {
			t.Errorf("%s without a store: code %d, %q", name, code, out.String())
		}
	}
	var usage strings.Builder
	if code := run([]string{"reset", "--application", "a"}, &usage); code != 2 || !strings.Contains(usage.String(), "--brokers") {
		t.Errorf("reset without brokers: code %d, %q", code, usage.String())
	}
	var out strings.Builder
	if code := run([]string{"explode"}, &out); code != 2 || !strings.Contains(out.String(), "usage") {
		t.Errorf("unknown command: code %d, %q", code, out.String())
	}
}
