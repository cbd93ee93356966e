package runtime

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
)

// R26: displaced by its own name twice in a transaction timeout stops with an
// error that names both; silence alone is borne longer.
func TestDisplacement(t *testing.T) {
	self, by := ids.InstanceID{Name: "a", Rand: 1}, ids.InstanceID{Name: "a", Rand: 2}
	taken := fmt.Errorf("%w: %w", errBecomeNew, &displacedError{self, by})
	now := time.Unix(1000, 0)
	d := newDisplacement(time.Minute)
	if err := d.again(now, "dir", taken); err != nil {
		t.Fatalf("the first time: %v", err)
	}
	if err := d.again(now.Add(2*time.Minute), "dir", taken); err != nil {
		t.Fatalf("again after a long time: %v", err)
	}
	err := d.again(now.Add(2*time.Minute+time.Second), "dir", taken)
	if err == nil || !strings.Contains(err.Error(), self.String()) || !strings.Contains(err.Error(), by.String()) {
		t.Fatalf("twice in a minute: %v", err)
	}
	if errors.Is(err, errBecomeNew) {
		t.Error("the error asks for another instance")
	}
	d = newDisplacement(time.Minute)
	for n := range maxDeclaredDead {
		if err := d.again(now, "dir", errBecomeNew); err != nil {
			t.Fatalf("declared dead %d times: %v", n+1, err)
		}
	}
	if err := d.again(now, "dir", errBecomeNew); err == nil || !strings.Contains(err.Error(), "WithSessionTimeout") {
		t.Fatalf("too often: %v", err)
	}
}
