package changelog

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
)

func TestPosition(t *testing.T) {
	p := Position{Topic: [16]byte{1, 2}, Next: 1 << 40, At: time.UnixMilli(1700000000123)}
	got, err := DecodePosition(AppendPosition(nil, p))
	if err != nil || got != p {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, c := range []struct {
		name       string
		p          Position
		start, end int64
		ok         bool
	}{
		{"in the middle", p, 0, p.Next + 1, true},
		{"at the end", p, 0, p.Next, true},
		{"beyond the end", p, 0, p.Next - 1, false},
		{"before the start", p, p.Next + 1, p.Next + 2, false},
		{"another topic", Position{Next: p.Next, At: p.At}, 0, p.Next, false},
		{"too old", Position{Topic: p.Topic, Next: p.Next, At: p.At.Add(-reusableFor - time.Minute)}, 0, p.Next, false},
		{"from the future", Position{Topic: p.Topic, Next: p.Next, At: p.At.Add(reusableFor + time.Minute)}, 0, p.Next, false},
	} {
		if why := c.p.Reusable(p.Topic, c.start, c.end, p.At); (why == "") != c.ok {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

func TestMeta(t *testing.T) {
	for _, m := range []Meta{
		{Time: barrier.NoTime},
		{First: true, Stream: barrier.NoTime, Time: barrier.NoTime},
		{First: true, Stream: 1700000000000, Timers: []byte{1, 2, 3}, Time: 17},
		{Time: -5, Channels: []barrier.StoredChannelTime{
			{Task: ids.TaskID{Sub: 0, Partition: 3}, Time: 12, Idle: true, Current: true},
			{Task: ids.TaskID{Sub: 0, Partition: 4}, Time: 13, Current: true},
			{Task: ids.TaskID{Sub: 2, Partition: 300}, Time: math.MaxInt64},
			{Task: ids.TaskID{Sub: 3}, Time: barrier.NoTime, Idle: true},
		}},
		{First: true, Time: 3, Topics: []KeptTopic{{HashTopic("A-s-changelog"), 1 << 63}, {2, 3}}},
		{First: true, Stream: 5, Timers: []byte{1}, Time: barrier.NoTime, Topics: []KeptTopic{{1, 2}}, Stores: []KeptStore{
			{Name: "s", Format: "table-1", Key: "string", Value: "json", Source: true}, {Name: "w", Format: "windows-1", Layout: "size 5 ms", Key: "k", Value: ""},
		}, Channels: []barrier.StoredChannelTime{{Time: 7}}},
		{Time: math.MaxInt64, Channels: []barrier.StoredChannelTime{{Time: math.MinInt64 + 1}}},
	} {
		s, err := EncodeMeta(m)
		if err != nil {
			t.Fatal(err)
		}
		got, ok, err := DecodeMeta(s)
		if len(got.Timers) == 0 {
			got.Timers = m.Timers
		}
		if err != nil || !ok || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v became %+v, %v, %v", m, got, ok, err)
		}
	}
	if _, ok, err := DecodeMeta("0123456789abcdef/7"); ok || err != nil {
		t.Errorf("metadata of barrier mode: %v, %v", ok, err)
	}
}

// What does not fit is left out where that does no harm, else refused.
func TestMetaTooLarge(t *testing.T) {
	m := Meta{First: true, Stream: 9, Time: 5}
	for p := range int32(2000) {
		m.Channels = append(m.Channels, barrier.StoredChannelTime{Task: ids.TaskID{Partition: p}, Time: int64(p)})
	}
	s, err := EncodeMeta(m)
	if err != nil || len(s) > MaxMeta {
		t.Fatalf("%d bytes, %v", len(s), err)
	}
	if got, _, err := DecodeMeta(s); err != nil || got.Stream != 9 || got.Time != 5 || got.Channels != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	m.Timers = make([]byte, MaxMeta)
	if _, err := EncodeMeta(m); !errors.Is(err, ErrMetaTooLarge) {
		t.Fatal(err)
	}
}

func FuzzDecodeMeta(f *testing.F) {
	s, _ := EncodeMeta(Meta{First: true, Stream: 3, Timers: []byte{1}, Time: 2, Channels: []barrier.StoredChannelTime{{Time: 1}}})
	f.Add(s)
	s, _ = EncodeMeta(Meta{First: true, Topics: []KeptTopic{{1, 2}, {3, 4}}, Stores: []KeptStore{{Name: "a", Format: "b", Layout: "c", Key: "d", Value: "e", Source: true}}, Time: 2})
	f.Add(s)
	f.Add(MetaPrefix)
	f.Fuzz(func(t *testing.T, s string) {
		m, ok, err := DecodeMeta(s)
		if !ok || err != nil {
			return
		}
		again, _, err := DecodeMeta(encodeMeta(m))
		if err != nil || len(again.Channels) != len(m.Channels) || again.Stream != m.Stream || again.Time != m.Time ||
			!slices.Equal(again.Topics, m.Topics) || !slices.Equal(again.Stores, m.Stores) {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}

func FuzzDecodePosition(f *testing.F) {
	f.Add(AppendPosition(nil, Position{Next: 4, At: time.UnixMilli(5)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := DecodePosition(b); err == nil {
			if got, err := DecodePosition(AppendPosition(nil, p)); err != nil || got != p {
				t.Fatalf("%+v became %+v, %v", p, got, err)
			}
		}
	})
}
