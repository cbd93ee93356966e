package serde_test

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

type id [16]byte

var anID = id{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0xff}

const anIDText = "01234567-89ab-cdef-0011-2233445566ff"

func TestUUID(t *testing.T) {
	trip(t, serde.UUID[id](), anID, []byte(anIDText))
	trip(t, serde.UUID[[16]byte](), [16]byte{}, []byte("00000000-0000-0000-0000-000000000000"))
	trip(t, serde.UUIDBytes[id](), anID, anID[:])
	got, err := serde.UUID[id]().Decode([]byte(strings.ToUpper(anIDText)))
	require.NoError(t, err)
	require.Equal(t, anID, got)
	for _, bad := range []string{"", anIDText[1:], strings.Replace(anIDText, "-", "0", 1), "g" + anIDText[1:]} {
		_, err = serde.UUID[id]().Decode([]byte(bad))
		require.ErrorContains(t, err, "uuid: ", bad)
	}
	_, err = serde.UUIDBytes[id]().Decode(anID[1:])
	require.ErrorContains(t, err, "uuid-bytes: want 16 bytes, got 15")
}

func TestTime(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 30, 0, 123456789, time.FixedZone("x", 3600))
	ms := at.Truncate(time.Millisecond).UTC()
	trip(t, serde.Time(), ms, serdeBytes(t, serde.Int64(), ms.UnixMilli()))
	b, err := serde.Time().Append(nil, at)
	require.NoError(t, err)
	require.Equal(t, serdeBytes(t, serde.Int64(), at.UnixMilli()), b)
	trip(t, serde.TimeNanos(), at.UTC(), serdeBytes(t, serde.Int64(), at.UnixNano()))

	before := time.Unix(0, -1) // towards the past
	b, err = serde.Time().Append(nil, before)
	require.NoError(t, err)
	require.Equal(t, serdeBytes(t, serde.Int64(), -1), b)

	trip(t, serde.Time(), time.Time{}.UTC(), serdeBytes(t, serde.Int64(), time.Time{}.UnixMilli()))
	far := time.Unix(math.MaxInt64/10, 0)
	_, err = serde.Time().Append(nil, far)
	require.ErrorContains(t, err, "not within 64 bits of milliseconds")
	_, err = serde.TimeNanos().Append(nil, time.Time{})
	require.ErrorContains(t, err, "use serde.Time")
	_, err = serde.Time().Decode(serdeBytes(t, serde.Int64(), math.MaxInt64))
	require.ErrorContains(t, err, "are not a time")
	_, err = serde.Time().Decode(nil)
	require.Error(t, err)
	_, err = serde.TimeNanos().Decode([]byte{1})
	require.Error(t, err)
	require.True(t, serde.Accepts(serde.Time(), "int64"))
	require.False(t, serde.Accepts(serde.Time(), "time-ns"))
}

func serdeBytes[T any](t *testing.T, s serde.Serde[T], v T) []byte {
	t.Helper()
	b, err := s.Append(nil, v)
	require.NoError(t, err)
	return b
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

// The layouts of Kafka's ListSerializer, written out.
func TestList(t *testing.T) {
	none, some := record.None[int16](), record.Some[int16]
	trip(t, serde.List(serde.Int16()), []int16{1, -1}, unhex(t, "00 00000000 00000002 0001 ffff"))
	trip(t, serde.List(serde.Int16()), []int16{}, unhex(t, "00 00000000 00000000"))
	trip(t, serde.List(serde.Nullable(serde.Int16())), []record.Opt[int16]{none, some(7), none},
		unhex(t, "00 00000002 00000000 00000002 00000003 0007"))
	trip(t, serde.List(serde.String()), []string{"a", "", "bc"}, unhex(t, "01 00000003 00000001 61 00000000 00000002 6263"))
	trip(t, serde.List(serde.Nullable(serde.String())), []record.Opt[string]{record.None[string](), record.Some("")},
		unhex(t, "01 00000002 ffffffff 00000000"))
	trip(t, serde.List(serde.Bool()), []bool{true}, unhex(t, "01 00000001 00000001 01"))
	trip(t, serde.List(serde.UUID[id]()), []id{anID}, append(unhex(t, "00 00000000 00000001"), anIDText...))
	trip(t, serde.List(serde.List(serde.Int16())), [][]int16{{1}}, unhex(t, "01 00000001 0000000b 00 00000000 00000001 0001"))

	b, err := serde.List(serde.Int16()).Append(nil, nil)
	require.NoError(t, err)
	require.Equal(t, unhex(t, "00 00000000 00000000"), b, "nil is empty")
}

func TestListErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                                     "end before the list does",
		"01 00000000":                          "layout 1 does not belong to elements of format int16",
		"02":                                   "layout 2",
		"00 0000":                              "end before",
		"00 00000000":                          "end before",
		"00 ffffffff":                          "the count is -1",
		"00 00000000 00000002 0001":            "do not fill 2 bytes",
		"00 00000000 00000001 000102":          "do not fill 3 bytes",
		"00 00000000 7fffffff":                 "do not fill",
		"00 00000001 00000000 00000001":        "element 0 is null: use serde.List(serde.Nullable(s))",
		"00 00000001 00000005 00000001":        "not in order",
		"00 00000001 00000005 00000002 000a":   "not in order",
		"00 7fffffff 00000000 00000001":        "end before",
		"00 00000000 80000000":                 "do not fill",
		"00 00000002 00000000 00000001 000001": "end before",
	} {
		_, err := serde.List(serde.Int16()).Decode(unhex(t, in))
		require.ErrorContains(t, err, want, in)
	}
	for in, want := range map[string]string{
		"01 00000001 ffffffff":             "element 0 is null",
		"01 00000001 fffffffe":             "has the length -2",
		"01 00000001 00000002 61":          "end before",
		"01 00000001 00000001 61 62":       "1 bytes behind",
		"01 00000002 00000001 616162":      "end before",
		"01 7fffffff 00000001 61":          "end before",
		"00 00000000 00000000":             "layout 0 does not belong to elements of format string",
		"01 80000000 00000001 61 00000000": "the count is",
	} {
		_, err := serde.List(serde.String()).Decode(unhex(t, in))
		require.ErrorContains(t, err, want, in)
	}
	_, err := serde.List(serde.Bool()).Decode(unhex(t, "01 00000001 00000001 05"))
	require.ErrorContains(t, err, "list: element 0: bool")
	_, err = serde.List(serde.JSON[any]()).Append(nil, []any{1, func() {}})
	require.ErrorContains(t, err, "list: element 1: encode")
}

func TestListClones(t *testing.T) {
	require.Nil(t, serde.CloneFunc(serde.List(serde.Int64())))
	s := serde.List(serde.Bytes())
	b := serdeBytes(t, s, [][]byte{[]byte("abc")})
	v, err := s.Decode(b)
	require.NoError(t, err)
	v = serde.CloneFunc(s)(v)
	clear(b)
	require.Equal(t, [][]byte{[]byte("abc")}, v)
}

func TestAppendAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 256)
	ids, times, lists := serde.UUID[id](), serde.Time(), serde.List(serde.Int64())
	at, list := time.Unix(5, 0), []int64{1, 2}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		buf, _ = ids.Append(buf[:0], anID)
		_, _ = ids.Decode(buf)
		buf, _ = times.Append(buf[:0], at)
		_, _ = times.Decode(buf)
		buf, _ = lists.Append(buf[:0], list)
	}))
}

// Fingerprints are stored in checkpoints: they must not change.
func TestFingerprintsAreGolden(t *testing.T) {
	for want, got := range map[string]string{
		"string": serde.String().Fingerprint(), "bytes": serde.Bytes().Fingerprint(),
		"int64": serde.Int64().Fingerprint(), "int32": serde.Int32().Fingerprint(), "int16": serde.Int16().Fingerprint(),
		"uint64": serde.Uint64().Fingerprint(), "float64": serde.Float64().Fingerprint(),
		"float32": serde.Float32().Fingerprint(), "bool": serde.Bool().Fingerprint(),
		"json": serde.JSON[int]().Fingerprint(), "uuid": serde.UUID[id]().Fingerprint(),
		"uuid-bytes": serde.UUIDBytes[id]().Fingerprint(), "time-ms": serde.Time().Fingerprint(),
		"time-ns": serde.TimeNanos().Fingerprint(), "list(list(bool))": serde.List(serde.List(serde.Bool())).Fingerprint(),
		"windowed(string,1000ms)": serde.Windowed(serde.String(), time.Second).Fingerprint(),
	} {
		require.Equal(t, want, got)
	}
	require.True(t, serde.Accepts(serde.List(serde.Time()), "list(int64)"))
	require.False(t, serde.Accepts(serde.List(serde.Time()), "list(int32)"))
	require.False(t, serde.Accepts(serde.List(serde.Time()), "list("))
	require.False(t, serde.Accepts(serde.List(serde.Time()), "int64"))
}

// FuzzDecode: no decoder panics, and what one reads it writes and reads again
// to the same bytes.
func FuzzDecode(f *testing.F) {
	for _, b := range [][]byte{nil, []byte("a"), []byte(anIDText), make([]byte, 8), make([]byte, 16), {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 7}, {1, 0, 0, 0, 1, 255, 255, 255, 255}} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		again(t, b, serde.String())
		again(t, b, serde.Bytes())
		again(t, b, serde.Int64())
		again(t, b, serde.Int32())
		again(t, b, serde.Int16())
		again(t, b, serde.Uint64())
		again(t, b, serde.Float64())
		again(t, b, serde.Float32())
		again(t, b, serde.Bool())
		again(t, b, serde.UUID[id]())
		again(t, b, serde.UUIDBytes[id]())
		again(t, b, serde.Time())
		again(t, b, serde.TimeNanos())
		again(t, b, serde.JSON[map[string][]string]())
		again(t, b, serde.List(serde.Int16()))
		again(t, b, serde.List(serde.Bytes()))
		again(t, b, serde.List(serde.Nullable(serde.Int32())))
		again(t, b, serde.List(serde.Nullable(serde.String())))
		again(t, b, serde.List(serde.List(serde.Bool())))
		again(t, b, serde.Windowed(serde.String(), time.Second))
	})
}

func again[T any](t *testing.T, b []byte, s serde.Serde[T]) {
	v, err := s.Decode(b)
	if err != nil {
		return
	}
	first, err := s.Append(nil, v)
	require.NoError(t, err, s.Fingerprint())
	v, err = s.Decode(first)
	require.NoError(t, err, s.Fingerprint())
	require.Equal(t, first, serdeBytes(t, s, v), s.Fingerprint())
}
