package operators

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
)

func TestForeignKeyRecords(t *testing.T) {
	subs := subscriptionSerde{"k"}
	require.Equal(t, "subscription-1(k)", subs.Fingerprint())
	for _, v := range []subscription{
		{unsubscribe, 0, []byte{}}, {subscribeAnswer, 1, []byte("k")}, {subscribeQuiet, math.MaxUint64, []byte{0xff}},
	} {
		b, err := subs.Append(nil, v)
		require.NoError(t, err)
		got, err := subs.Decode(b)
		require.NoError(t, err)
		require.Equal(t, v, got)
	}
	answers := answerSerde[string]{serde.String()}
	require.Equal(t, "answer-1("+serde.String().Fingerprint()+")", answers.Fingerprint())
	for _, v := range []answer[string]{
		{version: 1, ts: -5, foreign: []byte("fk")}, {ts: math.MaxInt64, has: true, foreign: []byte{}},
		{version: math.MaxUint64, ts: math.MinInt64, has: true, v: "x", foreign: []byte{0xff}},
	} {
		b, err := answers.Append(nil, v)
		require.NoError(t, err)
		got, err := answers.Decode(b)
		require.NoError(t, err)
		require.Equal(t, v, got)
	}
	rows := foreignRowSerde{}
	for _, v := range []foreignRow{{}, {version: 3, key: "k", joined: true, ts: -1}} {
		b, err := rows.Append(nil, v)
		require.NoError(t, err)
		got, err := rows.Decode(b)
		require.NoError(t, err)
		require.Equal(t, v, got)
	}
	_, err := subs.Decode([]byte{2, 0, 0})
	require.ErrorContains(t, err, "version 2")
	_, err = answers.Decode([]byte{2, 0, 0})
	require.ErrorContains(t, err, "version 2")
	for _, b := range [][]byte{nil, {1}, {1, 3, 0}, {1, 0}, {1, 0, 0x80}} {
		_, err := subs.Decode(b)
		require.ErrorIs(t, err, errSubscription, "%x", b)
	}
	for _, b := range [][]byte{nil, {1}, {1, 2, 0, 0}, {1, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0, 0, 'x'}, {1, 0, 0, 0, 5, 'x'}, {1, 1, 0x80}} {
		_, err := answers.Decode(b)
		require.ErrorIs(t, err, errAnswer, "%x", b)
	}
	for _, b := range [][]byte{nil, {1}, {1, 2, 0}, {1, 1}, {0x80}} {
		_, err := rows.Decode(b)
		require.ErrorIs(t, err, errForeignRow, "%x", b)
	}
	_, err = foreignKeySerde[string]{serde.String()}.Decode([]byte{lastVersionKey})
	require.ErrorIs(t, err, errForeignRow)
}

func TestPrefixEnd(t *testing.T) {
	require.Equal(t, []byte("ac"), prefixEnd([]byte("ab")))
	require.Equal(t, []byte("b"), prefixEnd([]byte("a\xff\xff")))
	require.Nil(t, prefixEnd([]byte("\xff")))
	require.Nil(t, prefixEnd(nil))
}

func FuzzForeignKeyRecords(f *testing.F) {
	f.Add([]byte{1, 1, 5, 'k'})
	f.Add([]byte{1, 1, 5, 9, 1, 'f', 'v'})
	f.Add([]byte{1, 0, 5, 9, 1, 'f'})
	f.Add([]byte{5, 1, 9, 'f'})
	f.Fuzz(func(t *testing.T, b []byte) {
		again[subscription](t, subscriptionSerde{"k"}, b)
		again[answer[string]](t, answerSerde[string]{serde.String()}, b)
		again[foreignRow](t, foreignRowSerde{}, b)
		if foreign, key, err := splitSubscriptionKey(b); err == nil {
			f2, k2, err := splitSubscriptionKey(appendSubscriptionKey(nil, foreign, key))
			require.NoError(t, err)
			require.Equal(t, [][]byte{foreign, key}, [][]byte{f2, k2})
		}
	})
}

// again decodes what it can, and gets the same from its encoding.
func again[T any](t *testing.T, s serde.Serde[T], b []byte) {
	v, err := s.Decode(b)
	if err != nil {
		return
	}
	enc, err := s.Append(nil, v)
	require.NoError(t, err)
	got, err := s.Decode(enc)
	require.NoError(t, err)
	require.Equal(t, v, got)
}
