package tasks

import "testing"

// Runs become short where a record makes much, and long again; without a limit
// they are never cut.
func TestBurst(t *testing.T) {
	b := burst{limit: 1 << 20}
	turn := func(perRecord int) (records int) {
		b.begin()
		for records < budget && !b.over() {
			n, before := min(b.most(), budget-records), b.handed
			b.handed += n * perRecord
			b.ran(n, before)
			records += n
		}
		return records
	}
	if n := turn(100); n != budget {
		t.Errorf("small output: a turn of %d records, want %d", n, budget)
	}
	turn(100 << 10) // the first one learns
	for range 20 {
		if n := turn(100 << 10); n*100<<10 > 3<<20 {
			t.Fatalf("large output: %d bytes in a turn of %d", n*100<<10, b.limit)
		}
	}
	if n := turn(10 << 20); n > 20 {
		t.Errorf("output above the limit for each record: a turn of %d records", n)
	}
	for range 20 {
		turn(10)
	}
	if b.run != budget {
		t.Errorf("runs of %d records after small output, want %d", b.run, budget)
	}
	b = burst{}
	if n := turn(10 << 20); n != budget {
		t.Errorf("without a limit: a turn of %d records", n)
	}
}
