package serde_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

func trip[T any](t *testing.T, s serde.Serde[T], v T, want []byte) {
	t.Helper()
	b, err := s.Append([]byte("x"), v)
	require.NoError(t, err)
	require.Equal(t, append([]byte("x"), want...), b, "%s appends", s.Fingerprint())
	got, err := s.Decode(b[1:])
	require.NoError(t, err)
	require.Equal(t, v, got)
}

func TestFormats(t *testing.T) {
	trip(t, serde.String(), "grüß", []byte("grüß"))
	trip(t, serde.String(), "", []byte{})
	trip(t, serde.Bytes(), []byte{1, 0}, []byte{1, 0})
	trip(t, serde.Int64(), -2, []byte{255, 255, 255, 255, 255, 255, 255, 254})
	trip(t, serde.Int32(), 258, []byte{0, 0, 1, 2})
	trip(t, serde.Int16(), -1, []byte{255, 255})
	trip(t, serde.Uint64(), math.MaxUint64-1, []byte{255, 255, 255, 255, 255, 255, 255, 254})
	trip(t, serde.Float64(), 1.5, []byte{0x3f, 0xf8, 0, 0, 0, 0, 0, 0})
	trip(t, serde.Float32(), 1.5, []byte{0x3f, 0xc0, 0, 0})
	trip(t, serde.Bool(), true, []byte{1})
	trip(t, serde.JSON[map[string]int](), map[string]int{"b": 1, "a": 2}, []byte(`{"a":2,"b":1}`))
	trip(t, serde.Nullable(serde.Int16()), record.Some[int16](1), []byte{0, 1})
	trip(t, serde.Windowed(serde.String(), time.Second),
		record.Windowed[string]{Key: "k", Window: record.Window{Start: 2000, End: 3000}}, []byte{'k', 0, 0, 0, 0, 0, 0, 7, 208})
}

func TestDecodeErrorsSayWhatWasWanted(t *testing.T) {
	_, err := serde.Int64().Decode([]byte("abc"))
	require.EqualError(t, err, `int64: want 8 bytes, got 3 ("abc")`)
	_, err = serde.Bool().Decode([]byte{2})
	require.EqualError(t, err, "bool: want a byte 0 or 1, got 2")
	_, err = serde.JSON[struct{ A int }]().Decode([]byte(`{"A":"x"}`))
	require.ErrorContains(t, err, `decode json into struct { A int }`)
	require.ErrorContains(t, err, `"{\"A\":\"x\"}"`)
	_, err = serde.JSON[func()]().Append(nil, func() {})
	require.ErrorContains(t, err, "encode func() as json")
	_, err = serde.Windowed(serde.String(), time.Second).Decode([]byte("short"))
	require.EqualError(t, err, "windowed key: want at least 8 bytes, got 5")
}

func TestNullable(t *testing.T) {
	s := serde.Nullable(serde.String())
	require.Equal(t, "string", s.Fingerprint(), "the bytes are those of the inner serde")
	n := s.(serde.NullSerde[record.Opt[string]])
	require.True(t, n.IsNull(n.Null()))
	require.False(t, n.IsNull(record.Some("")))
	_, err := s.Append(nil, record.None[string]())
	require.ErrorContains(t, err, "no encoding")
	_, err = serde.Nullable(serde.Int64()).Decode([]byte{1})
	require.Error(t, err)
}

func TestClones(t *testing.T) {
	require.Nil(t, serde.CloneFunc(serde.String()))
	require.Nil(t, serde.CloneFunc(serde.Nullable(serde.String())))
	require.Nil(t, serde.CloneFunc(serde.Windowed(serde.Int64(), time.Second)))

	buf := []byte("abcdefgh12345678")
	v, err := serde.Bytes().Decode(buf[:3])
	require.NoError(t, err)
	o, err := serde.Nullable(serde.Bytes()).Decode(buf[:3])
	require.NoError(t, err)
	w, err := serde.Windowed(serde.Bytes(), time.Second).Decode(append([]byte("abc"), 0, 0, 0, 0, 0, 0, 0, 1))
	require.NoError(t, err)
	v, o, w = serde.CloneFunc(serde.Bytes())(v), serde.CloneFunc(serde.Nullable(serde.Bytes()))(o),
		serde.CloneFunc(serde.Windowed(serde.Bytes(), time.Second))(w)
	clear(buf)
	require.Equal(t, []byte("abc"), v)
	require.Equal(t, []byte("abc"), o.Or(nil))
	require.Equal(t, []byte("abc"), w.Key)
	none := record.None[[]byte]()
	require.Equal(t, none, serde.CloneFunc(serde.Nullable(serde.Bytes()))(none))
}

func TestPartitionKeyIsTheInnerKey(t *testing.T) {
	s := serde.Nullable(serde.Windowed(serde.Windowed(serde.String(), time.Minute), time.Hour))
	w := record.Windowed[record.Windowed[string]]{Key: record.Windowed[string]{Key: "k"}}
	b, err := s.Append(nil, record.Some(w))
	require.NoError(t, err)
	require.Equal(t, []byte("k"), s.(serde.PartitionKeyer).PartitionKey(b))
}

type evolved struct{ serde.Serde[string] }

func (evolved) Fingerprint() string     { return "v2" }
func (evolved) Accepts(old string) bool { return old == "v1" }

func TestAccepts(t *testing.T) {
	require.True(t, serde.Accepts(serde.String(), "string"))
	require.False(t, serde.Accepts(serde.String(), "bytes"))
	s := serde.Nullable[string](evolved{serde.String()})
	require.True(t, serde.Accepts(s, "v2"))
	require.True(t, serde.Accepts(s, "v1"))
	require.False(t, serde.Accepts(s, "v0"))
}

// fuzz checks that decoding never panics, and that what was decoded encodes to
// something that decodes to the same.
func fuzz[T any](f *testing.F, s serde.Serde[T]) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7})
	f.Add([]byte(`{"a":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := s.Decode(b)
		if err != nil {
			return
		}
		first, err := s.Append(nil, v)
		require.NoError(t, err)
		v2, err := s.Decode(first)
		require.NoError(t, err)
		second, err := s.Append(nil, v2)
		require.NoError(t, err)
		require.Equal(t, first, second)
	})
}

func FuzzString(f *testing.F)   { fuzz(f, serde.String()) }
func FuzzInt64(f *testing.F)    { fuzz(f, serde.Int64()) }
func FuzzInt32(f *testing.F)    { fuzz(f, serde.Int32()) }
func FuzzInt16(f *testing.F)    { fuzz(f, serde.Int16()) }
func FuzzUint64(f *testing.F)   { fuzz(f, serde.Uint64()) }
func FuzzFloat64(f *testing.F)  { fuzz(f, serde.Float64()) }
func FuzzFloat32(f *testing.F)  { fuzz(f, serde.Float32()) }
func FuzzBool(f *testing.F)     { fuzz(f, serde.Bool()) }
func FuzzJSON(f *testing.F)     { fuzz(f, serde.JSON[map[string]any]()) }
func FuzzNullable(f *testing.F) { fuzz(f, serde.Nullable(serde.Int32())) }
func FuzzWindowed(f *testing.F) { fuzz(f, serde.Windowed(serde.Bytes(), time.Minute)) }
