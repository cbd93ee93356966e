package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testkit"
)

// TestMain lets the test binary be the child processes of the demonstration.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-serve" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestFileHoldsJanuary(t *testing.T) {
	flights, err := loadFlights(31)
	if err != nil {
		t.Fatal(err)
	}
	if len(flights) != 27004 {
		t.Fatalf("%d flights, want 27004", len(flights))
	}
	airlines, err := loadAirlines()
	if err != nil || len(airlines) != 16 {
		t.Fatalf("%d airlines, error %v, want 16", len(airlines), err)
	}
	for n, d := range flights {
		if n > 0 && d.at.Before(flights[n-1].at) {
			t.Fatalf("row %d departs before the row before it", n)
		}
		if airlines[d.f.Carrier] == "" {
			t.Fatalf("row %d: no airline %q", n, d.f.Carrier)
		}
	}
	rows := compute(flights, airlines)
	if len(rows) != 8293 {
		t.Fatalf("%d rows, want 8293", len(rows))
	}
	if r := rows["2013-01-01 UA EWR-IAH"]; r.Airline != "United Air Lines Inc." || r.Flights == 0 {
		t.Fatalf("row %+v", r)
	}
}

func TestDemonstrationSurvivesTheKill(t *testing.T) {
	var out bytes.Buffer
	c := demoConfig{days: 5, pace: 5 * time.Second}
	c.service.app, c.service.interval = "flights", 300*time.Millisecond
	err := demonstrate(t.Context(), c, &out)
	if err != nil || testing.Verbose() {
		fmt.Print(out.String())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"b: killed with SIGKILL", "b: started again", "JetBlue Airways", "result equals the direct computation: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q", want)
		}
	}
}

func TestCountsThatSkipOrRepeatAreNoticed(t *testing.T) {
	topic := func(counts ...int) map[int32][]testkit.Message {
		var list []testkit.Message
		for n, c := range counts {
			list = append(list, testkit.Message{Key: []byte("k"), Value: fmt.Appendf(nil, `{"flights":%d}`, c), Offset: int64(n)})
		}
		return map[int32][]testkit.Message{0: list}
	}
	if rows, err := lastRows(topic(1, 2, 3)); err != nil || rows["k"].Flights != 3 {
		t.Fatalf("rows %v, error %v", rows, err)
	}
	for name, counts := range map[string][]int{"lost": {1, 3}, "duplicated": {1, 2, 2}, "from the middle": {2}} {
		if _, err := lastRows(topic(counts...)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestComparisonNoticesLossAndDuplicates(t *testing.T) {
	want := map[string]RouteDay{"k": {Flights: 2}, "l": {Flights: 1}}
	if err := compare(map[string]RouteDay{"k": {Flights: 2}, "l": {Flights: 1}}, want); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]map[string]RouteDay{
		"lost":       {"k": {Flights: 1}, "l": {Flights: 1}},
		"duplicated": {"k": {Flights: 3}, "l": {Flights: 1}},
		"missing":    {"k": {Flights: 2}},
		"more":       {"k": {Flights: 2}, "l": {Flights: 1}, "m": {Flights: 1}},
	} {
		if err := compare(got, want); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
