package serde_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

func TestWindowedSpan(t *testing.T) {
	s := serde.WindowedSpan(serde.String())
	trip(t, s, record.Windowed[string]{Key: "k", Window: record.Window{Start: 2000, End: 3000}},
		[]byte{'k', 0, 0, 0, 0, 0, 0, 11, 184, 0, 0, 0, 0, 0, 0, 7, 208})
	trip(t, s, record.Windowed[string]{Window: record.Window{Start: -1, End: -1}},
		[]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255})
	_, err := s.Decode([]byte("short"))
	require.EqualError(t, err, "windowed key: want at least 16 bytes, got 5")
	_, err = s.Decode(make([]byte, 16))
	require.NoError(t, err)
	_, err = s.Decode([]byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2})
	require.EqualError(t, err, "windowed key: the window ends at 1, before it starts at 2")

	pk := s.(serde.PartitionKeyer)
	b, err := s.Append(nil, record.Windowed[string]{Key: "key"})
	require.NoError(t, err)
	require.Equal(t, []byte("key"), pk.PartitionKey(b))
	nested := serde.WindowedSpan(serde.Windowed(serde.String(), time.Second))
	b, err = nested.Append(nil, record.Windowed[record.Windowed[string]]{Key: record.Windowed[string]{Key: "key"}})
	require.NoError(t, err)
	require.Equal(t, []byte("key"), nested.(serde.PartitionKeyer).PartitionKey(b))

	require.Nil(t, serde.CloneFunc(s))
	require.NotNil(t, serde.CloneFunc(serde.WindowedSpan(serde.Bytes())))
	require.Equal(t, "windowed-span(string)", s.Fingerprint())
}

func FuzzWindowedSpan(f *testing.F) { fuzz(f, serde.WindowedSpan(serde.Bytes())) }
