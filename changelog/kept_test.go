package changelog

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/topology"
)

// What earlier releases committed stays readable: these are its bytes.
func TestMetaWithoutKeptIsRead(t *testing.T) {
	m, ok, err := DecodeMeta("tidegate-changelog-1.AwoDAQIDIgACBhQ")
	if err != nil || !ok || !m.First || m.Stream != 5 || m.Time != 17 || string(m.Timers) != "\x01\x02\x03" || len(m.Channels) != 1 || m.Channels[0].Time != 27 {
		t.Fatalf("%+v, %v, %v", m, ok, err)
	}
	if m.Topics != nil || m.Stores != nil {
		t.Fatalf("%+v", m)
	}
}

// What a later release may add is not taken for damage, and not left out.
func TestMetaOfANewerRelease(t *testing.T) {
	_, ok, err := DecodeMeta(MetaPrefix + base64.RawStdEncoding.EncodeToString([]byte{metaFlags + 1, 1}))
	if !ok || !errors.Is(err, errNewerMeta) {
		t.Fatalf("%v, %v", ok, err)
	}
}

func TestKeptStoreTexts(t *testing.T) {
	long := strings.Repeat("schema ", 100)
	s := KeepStore(&topology.Store{
		Name: "w", Format: "sessions-1", GraceMs: 7, Windows: "sessions with a gap of 5 ms",
		Key: topology.Serde{Fingerprint: "string"}, Value: topology.Serde{Fingerprint: long},
	})
	if s.Layout != "sessions with a gap of 5 ms, kept for 7 ms" || s.Key != "string" || len(s.Value) > keptText || !strings.HasPrefix(s.Value, "schema schema") {
		t.Fatalf("%+v", s)
	}
	small := shortened([]KeptStore{s})[0]
	if small.Name != "w" || len(small.Value) > shortText || len(small.Layout) > shortText || small.Key != "string" {
		t.Fatalf("%+v", small)
	}
	for _, kept := range []string{s.Value, small.Value} {
		if !Same(kept, long) || Same(kept, long+"x") || Same(kept, "schema") {
			t.Errorf("%q is not told from others", kept)
		}
	}
	// The grace of a store whose keys have no segments may change.
	a, b := KeepStore(&topology.Store{Format: "windows-1", SizeMs: 5, GraceMs: 1}), KeepStore(&topology.Store{Format: "windows-1", SizeMs: 5, GraceMs: 2})
	if a != b || a == KeepStore(&topology.Store{Format: "windows-1", SizeMs: 6, GraceMs: 1}) {
		t.Error("layout of windows")
	}
}

func TestKeptTopicWithoutAnID(t *testing.T) {
	if _, ok := KeepTopic("t", [16]byte{}); ok {
		t.Error("an id of zeros was kept")
	}
	a, _ := KeepTopic("t", [16]byte{1})
	if b, ok := KeepTopic("t", [16]byte{2}); !ok || a == b || a.Name != HashTopic("t") {
		t.Error("topics are not told apart")
	}
}

// What is kept makes way for times and timers: texts first, then the channels'
// times, stores, and topics.
func TestKeptMakesWay(t *testing.T) {
	size := func(stores, topics, channels, timers int) Meta {
		m := Meta{First: true, Stream: 9, Time: 5, Timers: make([]byte, timers)}
		for n := range stores {
			m.Stores = append(m.Stores, KeptStore{Name: fmt.Sprint("store-", n), Format: "table-1", Key: "string", Value: strings.Repeat("v", 200)})
		}
		for n := range topics {
			m.Topics = append(m.Topics, KeptTopic{uint64(n), 1})
		}
		for n := range channels {
			m.Channels = append(m.Channels, barrier.StoredChannelTime{Task: ids.TaskID{Partition: int32(n)}, Time: 5})
		}
		return m
	}
	for _, c := range []struct {
		m                        Meta
		texts                    int
		stores, topics, channels bool
	}{
		{size(5, 10, 10, 0), 200, true, true, true},
		{size(20, 10, 10, 0), shortText, true, true, true},
		{size(20, 10, 900, 0), shortText, true, true, false},
		{size(100, 10, 0, 0), 0, false, true, false},
		{size(0, 300, 0, 0), 0, false, false, false},
		{size(20, 10, 10, 2900), 0, false, false, false},
	} {
		s, err := EncodeMeta(c.m)
		if err != nil || len(s) > MaxMeta {
			t.Fatalf("%d bytes, %v", len(s), err)
		}
		got, _, err := DecodeMeta(s)
		if err != nil || len(got.Timers) != len(c.m.Timers) || got.Stream != 9 || got.Time != 5 {
			t.Fatalf("%+v, %v", got, err)
		}
		if len(got.Stores) > 0 != c.stores || len(got.Topics) > 0 != c.topics || len(got.Channels) > 0 != c.channels {
			t.Errorf("of %d stores, %d topics, %d channels: %d, %d, %d are there", len(c.m.Stores), len(c.m.Topics), len(c.m.Channels), len(got.Stores), len(got.Topics), len(got.Channels))
		}
		if c.stores && len(got.Stores[0].Value) != c.texts {
			t.Errorf("a text of %d bytes, want %d", len(got.Stores[0].Value), c.texts)
		}
	}
}
