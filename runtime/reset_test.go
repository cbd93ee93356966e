package runtime

import (
	"reflect"
	"strings"
	"testing"
)

// Topics that can be those of another application that exists are left alone.
func TestResetLeavesOtherApplicationsAlone(t *testing.T) {
	topics := []string{
		"a-b-control", "a-b-counts-changelog", "a-b-g-repartition", "a-c-counts-changelog", "a-control", "a-counts-changelog",
		"a-g-repartition", "ab-counts-changelog", "in", "out",
	}
	for _, test := range []struct {
		application    string
		topics, groups []string
		want, left     string
	}{
		// "a-b" shows by its control log.
		{"a", topics, []string{"a"}, "a-c-counts-changelog a-control a-counts-changelog a-g-repartition", "a-b-counts-changelog(a-b) a-b-g-repartition(a-b)"},
		// "a-b" shows by its group only, "a-c" by nothing: its topics are taken for those of "a".
		{"a", topics[1:], []string{"a", "a-b", "other"}, "a-c-counts-changelog a-control a-counts-changelog a-g-repartition", "a-b-counts-changelog(a-b) a-b-g-repartition(a-b)"},
		{"a", topics[1:], nil, "a-b-counts-changelog a-b-g-repartition a-c-counts-changelog a-control a-counts-changelog a-g-repartition", ""},
		// The reverse: they can be stores of "a" whose names begin with "b-".
		{"a-b", topics, []string{"a"}, "a-b-control", "a-b-counts-changelog(a) a-b-g-repartition(a)"},
		{"a-b", []string{"a-b-counts-changelog"}, []string{"a-b"}, "a-b-counts-changelog", ""},
	} {
		r := &Reset{Application: test.application}
		r.sort(test.topics, test.groups)
		var left []string
		for _, a := range r.Ambiguous {
			left = append(left, a.Topic+"("+a.Other+")")
			if !strings.Contains(a.Trace, a.Other) {
				t.Errorf("the trace of %s is %q", a.Other, a.Trace)
			}
		}
		if got := strings.Join(r.Topics, " "); got != test.want {
			t.Errorf("%s: topics %q, want %q", test.application, got, test.want)
		}
		if got := strings.Join(left, " "); got != test.left {
			t.Errorf("%s: left alone %q, want %q", test.application, got, test.left)
		}
	}
	r := &Reset{Application: "a"}
	r.sort(topics, nil)
	if err := r.Include("a-b-g-repartition", "a-control"); err != nil {
		t.Fatal(err)
	}
	want := []string{"a-b-g-repartition", "a-c-counts-changelog", "a-control", "a-counts-changelog", "a-g-repartition"}
	if !reflect.DeepEqual(r.Topics, want) || len(r.Ambiguous) != 1 {
		t.Errorf("topics %q, left alone %v", r.Topics, r.Ambiguous)
	}
	if err := r.Include("in"); err == nil || !strings.Contains(err.Error(), `"in"`) {
		t.Errorf("an input topic was included: %v", err)
	}
}
