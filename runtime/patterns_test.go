package runtime

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/topology"
)

func planOf(t *testing.T, pattern string, topics ...string) *topology.Resolved {
	t.Helper()
	b := topology.NewBuilder()
	n := topology.Node{Kind: topology.Source, Op: "source"}
	if pattern == "" {
		n.Topics = topics
	} else {
		p, err := topology.NewPattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		n.Pattern = p
	}
	b.Add(n)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int32{}
	for _, topic := range topics {
		counts[topic] = 2
	}
	plan, err := top.Resolve("app", counts)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// A leader's fingerprint with another list of topics is that of the same
// application; anything else is another one's.
func TestGroupFingerprints(t *testing.T) {
	own := planOf(t, "in-.*", "in-a", "in-b")
	d := &deployment{cfg: Config{ApplicationID: "app"}, plan: own, fingerprint: own.Fingerprint(), groupPrint: inGroup(own)}
	if want := own.Fingerprint() + "?in-a,in-b"; d.groupPrint != want {
		t.Fatalf("%s, want %s", d.groupPrint, want)
	}
	var other *otherTopics
	if err := d.differs(inGroup(planOf(t, "in-.*", "in-a"))); !errors.As(err, &other) || !slices.Equal(other.list, []string{"in-a"}) {
		t.Fatal(err)
	}
	// More tasks, too: what it comes to is found by resolving with that list.
	if err := d.differs("another?in-c"); !errors.As(err, &other) || !slices.Equal(other.list, []string{"in-c"}) {
		t.Fatal(err)
	}
	named := planOf(t, "", "in-a", "in-b")
	for _, text := range []string{inGroup(named), "another?in-a,in-b", "another"} {
		if err := d.differs(text); errors.As(err, &other) || !strings.Contains(err.Error(), "runs another topology") {
			t.Fatalf("%s: %v", text, err)
		}
	}
	d.plan = named
	if err := d.differs(inGroup(own)); errors.As(err, &other) {
		t.Fatal(err)
	}
}
