package barrier

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
)

const testLife = ids.Life(0x1122334455667788)

func sampleHeaders() [][]byte {
	c1, c2 := Channel{tid(0, 3), 17}, Channel{tid(1, 300), 1 << 40}
	return [][]byte{
		AppendDataHeader(nil, testLife, c1),
		AppendBarrierHeader(nil, testLife, 900, []Channel{c1, c2}),
		AppendBarrierHeader(nil, testLife, 900, nil),
		AppendTimeHeader(nil, testLife, []ChannelTime{{c1, NoTime, true, false}, {c2, 1_700_000_000_000, false, true}, {c1, 1, true, true}}),
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	var h Header
	want := []Header{
		{Kind: HeaderData, Channel: Channel{tid(0, 3), 17}},
		{Kind: HeaderBarrier, N: 900, Channels: []Channel{{tid(0, 3), 17}, {tid(1, 300), 1 << 40}}},
		{Kind: HeaderBarrier, N: 900},
		{Kind: HeaderTime, Times: []ChannelTime{
			{Channel{tid(0, 3), 17}, NoTime, true, false}, {Channel{tid(1, 300), 1 << 40}, 1_700_000_000_000, false, true}, {Channel{tid(0, 3), 17}, 1, true, true},
		}},
	}
	for i, b := range sampleHeaders() {
		if err := h.Decode(b); err != nil {
			t.Fatal(err)
		}
		w := want[i]
		if h.Kind != w.Kind || h.Life != testLife || h.Channel != w.Channel || h.N != w.N ||
			!slices.Equal(h.Channels, w.Channels) || !slices.Equal(h.Times, w.Times) {
			t.Errorf("%d: got %+v, want %+v", i, h, w)
		}
		for cut := range b {
			if err := h.Decode(b[:cut]); err == nil {
				t.Errorf("%d: cut at %d decodes", i, cut)
			}
		}
		if err := h.Decode(append(slices.Clone(b), 0)); err == nil {
			t.Errorf("%d: a byte too many decodes", i)
		}
	}
	if len(sampleHeaders()[0]) > 12 {
		t.Errorf("a data header takes %d bytes", len(sampleHeaders()[0]))
	}
}

// A flag that this version does not know may change what the others mean.
func TestUnknownTimeFlagsAreRefused(t *testing.T) {
	b := AppendTimeHeader(nil, testLife, []ChannelTime{{Channel{tid(0, 3), 17}, 5, true, true}})
	b[len(b)-1] |= 4
	var h Header
	if err := h.Decode(b); !errors.Is(err, errHeaderFlags) {
		t.Errorf("decoded: %v", err)
	}
}

func TestDataHeaderAllocatesNothing(t *testing.T) {
	b, h, buf := sampleHeaders()[0], Header{}, make([]byte, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		buf = AppendDataHeader(buf[:0], testLife, Channel{tid(0, 3), 17})
		if err := h.Decode(b); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzDecodeHeader(f *testing.F) {
	for _, b := range sampleHeaders() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, again Header
		if h.Decode(b) != nil {
			return
		}
		var enc []byte
		switch h.Kind {
		case HeaderData:
			enc = AppendDataHeader(nil, h.Life, h.Channel)
		case HeaderBarrier:
			enc = AppendBarrierHeader(nil, h.Life, h.N, h.Channels)
		case HeaderTime:
			enc = AppendTimeHeader(nil, h.Life, h.Times)
		}
		if err := again.Decode(enc); err != nil || !reflect.DeepEqual(h, again) {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
	})
}

func rawRecord(offset, ts int64, header []byte) record.Raw {
	r := record.Raw{Offset: offset, Timestamp: ts, Key: []byte("k"), Value: []byte("v")}
	if header != nil {
		r.Headers = record.Headers{{Key: HeaderKey, Value: header}, {Key: "user", Value: []byte("x")}, {Key: HeaderKey, Value: []byte("the user's own")}}
	}
	return r
}

// Data records inherit the header of the data record before them in the batch;
// barrier and time records between them do not interrupt that.
func TestSegmentReader(t *testing.T) {
	c := Channel{tid(0, 1), 9}
	data := AppendDataHeader(nil, testLife, c)
	batch := func() []record.Raw {
		return []record.Raw{
			rawRecord(10, 5, data), rawRecord(11, 3, nil),
			rawRecord(12, 0, AppendBarrierHeader(nil, testLife, 8, []Channel{c, {tid(0, 2), 9}})),
			rawRecord(13, 7, nil),
			rawRecord(14, 0, AppendTimeHeader(nil, testLife, []ChannelTime{{c, 7, false, true}})),
			rawRecord(15, 8, data),
		}
	}
	var r SegmentReader
	for range 2 { // a reader is used again
		r.Reset(batch())
		var got []Segment
		for {
			s, ok, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			got = append(got, s)
		}
		want := []Segment{
			{Kind: HeaderData, Channel: c, First: 10, Last: 11, MinTime: 3, MaxTime: 5},
			{Kind: HeaderBarrier, Channel: c, N: 8, First: 12, Last: 12, More: true},
			{Kind: HeaderBarrier, Channel: Channel{tid(0, 2), 9}, N: 8, First: 12, Last: 12},
			{Kind: HeaderData, Channel: c, First: 13, Last: 13, MinTime: 7, MaxTime: 7},
			{Kind: HeaderTime, Channel: c, Time: 7, Current: true, First: 14, Last: 14},
			{Kind: HeaderData, Channel: c, First: 15, Last: 15, MinTime: 8, MaxTime: 8},
		}
		if len(got) != len(want) {
			t.Fatalf("%d segments: %+v", len(got), got)
		}
		for i := range want {
			g := got[i]
			if g.Life != testLife || (g.Kind == HeaderData) != (len(g.Records) > 0) || (g.Bytes > 0) != (g.Kind == HeaderData) {
				t.Errorf("segment %d: %+v", i, g)
			}
			for _, raw := range g.Records {
				if len(raw.Headers) > 0 && (len(raw.Headers) != 2 || raw.Headers[0].Key != "user") {
					t.Errorf("segment %d: headers %v: ours are taken off, the user's stay", i, raw.Headers)
				}
			}
			g.Life, g.Records, g.Bytes = 0, nil, 0
			if !reflect.DeepEqual(g, want[i]) {
				t.Errorf("segment %d: got %+v, want %+v", i, g, want[i])
			}
		}
	}
	r.Reset([]record.Raw{rawRecord(1, 1, nil)})
	if _, _, err := r.Next(); !errors.Is(err, ErrNoHeader) {
		t.Errorf("a record without header: %v", err)
	}
	r.Reset([]record.Raw{rawRecord(1, 1, []byte{0x1f})})
	if _, _, err := r.Next(); err == nil {
		t.Error("a broken header is accepted")
	}
}

func TestSegmentTail(t *testing.T) {
	r := SegmentReader{}
	r.Reset([]record.Raw{rawRecord(10, 5, sampleHeaders()[0]), rawRecord(11, 3, nil), rawRecord(12, 9, nil)})
	s, _, _ := r.Next()
	tail, ok := s.Tail(10)
	if !ok || tail.First != 11 || tail.Last != 12 || tail.MinTime != 3 || tail.MaxTime != 9 || len(tail.Records) != 2 {
		t.Errorf("tail %+v", tail)
	}
	if _, ok := s.Tail(12); ok {
		t.Error("nothing is left behind the last")
	}
	if same, ok := s.Tail(9); !ok || same.First != 10 {
		t.Error("all is left")
	}
}
