package embedded_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate/embedded"
)

func TestConsumeReadsWhatProduceWrote(t *testing.T) {
	b, err := embedded.Start(embedded.Options{Topics: map[string]int32{"t": 3}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	at := time.UnixMilli(1_700_000_000_000)
	var in []embedded.Record
	for n := range 9 {
		in = append(in, embedded.Record{Key: fmt.Appendf(nil, "k%d", n%3), Value: fmt.Appendf(nil, "v%d", n), Timestamp: at})
	}
	in = append(in, embedded.Record{Key: []byte("k0")}, embedded.Record{Value: []byte("no key")})
	if err := b.Produce(ctx, "t", in...); err != nil {
		t.Fatal(err)
	}
	var got []string
	partition := map[string]int32{}
	err = b.Consume(ctx, "t", func(r embedded.Record) {
		k := string(r.Key)
		if p, ok := partition[k]; ok && p != r.Partition && r.Key != nil {
			t.Errorf("key %s in partitions %d and %d", k, p, r.Partition)
		}
		partition[k] = r.Partition
		if r.Value == nil {
			r.Value = []byte("null")
		} else if r.Key != nil && !r.Timestamp.Equal(at) {
			t.Errorf("timestamp %v", r.Timestamp)
		}
		if got = append(got, k+"="+string(r.Value)); len(got) == len(in) {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	want := "[=no key k0=null k0=v0 k0=v3 k0=v6 k1=v1 k1=v4 k1=v7 k2=v2 k2=v5 k2=v8]"
	if fmt.Sprint(got) != want {
		t.Fatalf("read %v, want %s", got, want)
	}
	if err := b.Consume(t.Context(), "missing", func(embedded.Record) {}); err == nil {
		t.Fatal("a missing topic was consumed")
	}
}
