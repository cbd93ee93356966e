package ids

import "testing"

// The values are those of Kafka's own test of its hash.
func TestMurmur2(t *testing.T) {
	for _, c := range []struct {
		key  string
		want int32
	}{
		{"21", -973932308},
		{"foobar", -790332482},
		{"a-little-bit-long-string", -985981536},
		{"a-little-bit-longer-string", -1486304829},
		{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
		{"abc", 479470107},
	} {
		if got := int32(murmur2([]byte(c.key))); got != c.want {
			t.Errorf("murmur2(%q) = %d, want %d", c.key, got, c.want)
		}
	}
}

func TestPartitionIsInRange(t *testing.T) {
	for n := int32(1); n < 20; n++ {
		for i := range 200 {
			if p := Partition([]byte{byte(i), byte(n)}, n); p < 0 || p >= n {
				t.Fatalf("partition %d of %d", p, n)
			}
		}
	}
}

func BenchmarkPartition(b *testing.B) {
	key := []byte("01234567")
	b.ReportAllocs()
	for b.Loop() {
		Partition(key, 12)
	}
}
