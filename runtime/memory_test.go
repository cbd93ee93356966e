package runtime

import (
	"strings"
	"testing"

	"github.com/tidegate/tidegate/checkpoint"
)

type noStore struct{ checkpoint.Store }

// One total is divided among what is not given, and never exceeded; what is given
// stays as it is.
func TestMemoryIsDivided(t *testing.T) {
	base := Config{ApplicationID: "a", Kafka: KafkaConfig{Brokers: []string{"b:1"}}, Store: noStore{}}
	sum := func(c Config) (n int64) {
		for _, p := range c.memoryParts() {
			n += *p.bytes * p.times
		}
		return n
	}
	for _, mode := range []Mode{Barrier, Changelog} {
		c := base
		c.Mode, c.MemoryBytes = mode, 100<<20
		got := c.withDefaults()
		if err := got.validate(); err != nil {
			t.Fatal(err)
		}
		if n := sum(got); n > 100<<20 || n < 99<<20 {
			t.Errorf("%v: the parts add up to %d", mode, n)
		}
		c.CacheBytes, c.ProduceBytes = 60<<20, 10<<20
		got = c.withDefaults()
		if got.CacheBytes != 60<<20 || got.ProduceBytes != 10<<20 {
			t.Errorf("%v: what was given became %d and %d", mode, got.CacheBytes, got.ProduceBytes)
		}
		if n := sum(got); n > 100<<20 || n < 99<<20 {
			t.Errorf("%v: with given parts they add up to %d", mode, n)
		}
		for _, p := range got.memoryParts() {
			if *p.bytes < 1<<20 {
				t.Errorf("%v: a part got %d bytes", mode, *p.bytes)
			}
		}
		c.CacheBytes = 90 << 20
		if err := c.withDefaults().validate(); err == nil || !strings.Contains(err.Error(), "WithMemory(104857600)") || !strings.Contains(err.Error(), "raise the total") {
			t.Errorf("%v: too much given: %v", mode, err)
		}
		c = base
		c.Mode, c.MemoryBytes = mode, 1<<20
		if err := c.withDefaults().validate(); err == nil || !strings.Contains(err.Error(), "at least 8388608") {
			t.Errorf("%v: next to nothing: %v", mode, err)
		}
		c.MemoryBytes = 0
		if got := c.withDefaults(); got.CacheBytes != 64<<20 || got.MemtableBytes != 0 || got.memtable(5) != 0 {
			t.Errorf("%v: without a total: cache %d, memtables %d", mode, got.CacheBytes, got.MemtableBytes)
		}
	}
}

// What tasks hand over in one turn is about what may wait, however many they are.
func TestTurnBytes(t *testing.T) {
	c := Config{ProduceBytes: 8 << 20}
	for n, want := range map[int]int{1: 1 << 20, 8: 1 << 20, 32: 256 << 10, 1000: 64 << 10} {
		if got := c.turnBytes(n); got != want {
			t.Errorf("%d tasks: %d, want %d", n, got, want)
		}
	}
}
