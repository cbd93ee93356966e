package avroserde_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/serde/avroserde"
	"github.com/tidegate/tidegate/serde/registry"
	"github.com/tidegate/tidegate/serde/registry/registrytest"
)

type click struct {
	User string `avro:"user"`
	N    int64  `avro:"n"`
}

type click2 struct {
	Name string  `avro:"name"`
	N    float64 `avro:"n"`
	Page string  `avro:"page"`
}

const (
	text1 = `{"type":"record","name":"Click","namespace":"com.acme","fields":[{"name":"user","type":"string"},{"name":"n","type":"long"}]}`
	text2 = `{"type":"record","name":"Hit","namespace":"com.acme","aliases":["Click"],"fields":[
		{"name":"page","type":"string","default":"/"},{"name":"name","type":"string","aliases":["user"]},{"name":"n","type":"double"}]}`
)

var (
	schema1 = avroserde.MustParse(text1)
	schema2 = avroserde.MustParse(text2)
)

func encode[T any](t *testing.T, s serde.Serde[T], v T) []byte {
	t.Helper()
	b, err := s.Append([]byte("x"), v)
	require.NoError(t, err)
	require.Equal(t, byte('x'), b[0])
	return b[1:]
}

func decode[T any](t *testing.T, s serde.Serde[T], b []byte) T {
	t.Helper()
	v, err := s.Decode(b)
	require.NoError(t, err)
	return v
}

// bare1 is click{"ab", 3}: the length of the string and the number are zigzag
// varints.
const bare1 = "046162" + "06"

func TestBare(t *testing.T) {
	s := avroserde.Of[click](schema1)
	b := encode(t, s, click{"ab", 3})
	require.Equal(t, bare1, hex.EncodeToString(b))
	require.Equal(t, click{"ab", 3}, decode(t, s, b))
	require.Equal(t, &click{"ab", 3}, decode(t, avroserde.Of[*click](schema1), encode(t, avroserde.Of[*click](schema1), &click{"ab", 3})))
	require.Equal(t, map[string]any{"user": "ab", "n": int64(3)}, decode(t, avroserde.Of[map[string]any](schema1), b))
	require.Equal(t, int64(-2), decode(t, avroserde.Of[int64](avroserde.MustParse(`"long"`)), []byte{3}))

	_, err := s.Decode(append(b, 0))
	require.ErrorContains(t, err, "decode avro com.acme.Click into avroserde_test.click: 1 bytes behind the value")
	_, err = s.Decode(b[:2])
	require.ErrorContains(t, err, "decode avro com.acme.Click")
	_, err = avroserde.Of[string](schema1).Append(nil, "x")
	require.ErrorContains(t, err, "encode string as avro com.acme.Click")
	_, err = avroserde.Of[int](nil).Append(nil, 1)
	require.ErrorContains(t, err, "the avro schema is nil")
	_, err = avroserde.Of[int](nil).Decode(nil)
	require.ErrorContains(t, err, "the avro schema is nil")
}

func TestSingleObject(t *testing.T) {
	old := avroserde.SingleObject[click](schema1)
	b := encode(t, old, click{"ab", 3})
	require.Equal(t, "c301"+bare1, hex.EncodeToString(append(b[:2:2], b[10:]...)))
	require.Equal(t, click{"ab", 3}, decode(t, old, b))

	next := avroserde.SingleObject[click2](schema2, schema1)
	require.Equal(t, click2{"ab", 3, "/"}, decode(t, next, b))
	v := click2{"cd", 1.5, "/x"}
	require.Equal(t, v, decode(t, next, encode(t, next, v)))
	require.True(t, serde.Accepts(next, old.Fingerprint()))
	require.False(t, serde.Accepts(old, next.Fingerprint()))
	require.False(t, serde.Accepts(next, "avro-single-object()"))

	_, err := old.Decode(encode(t, next, v))
	require.ErrorContains(t, err, "give that schema to SingleObject as an older one")
	_, err = old.Decode([]byte{0xc3, 1, 2})
	require.ErrorContains(t, err, "does not begin with C3 01")
	_, err = avroserde.SingleObject[click](schema1, schema2).Decode(b)
	require.ErrorContains(t, err, "what the older schema")
	_, err = avroserde.SingleObject[click](schema1, nil).Append(nil, click{})
	require.ErrorContains(t, err, "the avro schema is nil")
	_, err = avroserde.SingleObject[click](nil).Decode(b)
	require.ErrorContains(t, err, "the avro schema is nil")
}

func TestRegistry(t *testing.T) {
	server := registrytest.New(t)
	old := avroserde.Registry[click](server.Client(t), registry.ValueSubject("clicks"), schema1)
	b := encode(t, old, click{"ab", 3})
	require.Equal(t, "0000000001"+bare1, hex.EncodeToString(b), "the wire format")
	require.Equal(t, []string{"clicks-value"}, server.Subjects())
	require.Equal(t, click{"ab", 3}, decode(t, old, b))

	// A newer reader takes the writer's schema from the registry.
	next := avroserde.Registry[click2](server.Client(t), registry.ValueSubject("clicks"), schema2)
	require.Equal(t, click2{"ab", 3, "/"}, decode(t, next, b))
	b2 := encode(t, next, click2{"cd", 1.5, "/x"})
	require.Equal(t, "0000000002", hex.EncodeToString(b2[:5]))
	require.Equal(t, click2{"cd", 1.5, "/x"}, decode(t, next, b2))
	require.Equal(t, click2{"ab", 3, "/"}, decode(t, next, b), "both are known now")
	before := server.Requests()
	for range 5 {
		decode(t, next, b)
		decode(t, next, b2)
		encode(t, next, click2{})
	}
	require.Equal(t, before, server.Requests())

	_, err := old.Decode(b2)
	require.ErrorContains(t, err, "decode avro com.acme.Click: the schema of id 2 cannot be read with this one")
	require.NotErrorIs(t, err, serde.ErrUnavailable)
	_, err = old.Decode([]byte{0, 0, 0, 0, 9, 1})
	require.ErrorContains(t, err, "get the schema of id 9")
	require.NotErrorIs(t, err, serde.ErrUnavailable)
	_, err = old.Decode([]byte(`{"user":1}`))
	require.ErrorContains(t, err, "it was not written with a schema registry")

	require.Equal(t, "avro-registry(com.acme.Hit)", next.Fingerprint())
	require.True(t, serde.Accepts(next, old.Fingerprint()), "Click is an alias")
	require.False(t, serde.Accepts(old, next.Fingerprint()))
}

func TestRegistryFailures(t *testing.T) {
	server := registrytest.New(t)
	_, err := avroserde.Registry[click](server.Client(t), "s", schema1, registry.LookupOnly()).Append(nil, click{})
	require.ErrorContains(t, err, "with LookupOnly the schema must be registered before")
	require.ErrorIs(t, err, serde.ErrUnavailable)
	_, err = avroserde.Registry[click](server.Client(t), "", schema1).Append(nil, click{})
	require.ErrorContains(t, err, "subject of the schema registry is empty")
	_, err = avroserde.Registry[click](nil, "s", schema1).Append(nil, click{})
	require.ErrorContains(t, err, "client is nil")
	_, err = avroserde.Registry[click](nil, "s", schema1).Decode([]byte{0, 0, 0, 0, 1})
	require.ErrorContains(t, err, "client is nil")
	_, err = avroserde.Registry[click](server.Client(t), "s", nil).Append(nil, click{})
	require.ErrorContains(t, err, "the avro schema is nil")
	_, err = avroserde.Registry[click](server.Client(t), "s", nil).Decode(nil)
	require.ErrorContains(t, err, "the avro schema is nil")

	id := byte(server.Add("p", registry.Schema{Type: registry.Protobuf, Text: `syntax = "proto3";`}))
	s := avroserde.Registry[click](server.Client(t), "s", schema1)
	_, err = s.Decode([]byte{0, 0, 0, 0, id})
	require.ErrorContains(t, err, "is PROTOBUF")
	id = byte(server.Add("p", registry.Schema{Text: `{`}))
	_, err = s.Decode([]byte{0, 0, 0, 0, id})
	require.ErrorContains(t, err, "the schema of id 2: parse avro schema")
	away, err := registry.New("http://127.0.0.1:1", registry.WithAttempts(1, 0))
	require.NoError(t, err)
	_, err = avroserde.Registry[click](away, "s", schema1).Decode([]byte{0, 0, 0, 0, 1})
	require.ErrorIs(t, err, serde.ErrUnavailable)
}

func TestReferences(t *testing.T) {
	const part = `{"type":"enum","name":"Color","namespace":"com.acme","symbols":["RED","BLUE"]}`
	const whole = `{"type":"record","name":"Car","namespace":"com.acme","fields":[{"name":"color","type":"com.acme.Color"},{"name":"second","type":["null","Color"],"default":null}]}`
	type car struct {
		Color  string  `avro:"color"`
		Second *string `avro:"second"`
	}
	server := registrytest.New(t)
	server.Add("color", registry.Schema{Text: part})
	id := byte(server.Add("cars-value", registry.Schema{Text: whole, References: []registry.Reference{{Name: "com.acme.Color", Subject: "color", Version: 1}}}))
	mine := avroserde.MustParse(whole, part)
	s := avroserde.Registry[car](server.Client(t), "mine-value", mine)
	require.Equal(t, "BLUE", decode(t, s, []byte{0, 0, 0, 0, id, 2, 0}).Color)
	encode(t, s, car{Color: "RED"})
	v, err := server.Client(t).Latest(t.Context(), "mine-value")
	require.NoError(t, err)
	require.Contains(t, v.Schema.Text, `"BLUE"`, "what is registered stands alone")
	require.Empty(t, v.Schema.References)
	_, err = avroserde.Parse(whole)
	require.ErrorContains(t, err, "parse avro schema")
	_, err = avroserde.Parse(whole, "{")
	require.ErrorContains(t, err, "parse the avro schema 0 that another refers to")
}

// Fingerprints are stored in checkpoints: they must not change.
func TestFingerprintsAreGolden(t *testing.T) {
	require.Equal(t, "avro("+golden1+")", avroserde.Of[click](schema1).Fingerprint())
	require.Equal(t, golden1, schema1.Fingerprint())
	require.Equal(t, golden2, schema2.Fingerprint())
	require.Equal(t, "avro-single-object("+golden1+")", avroserde.SingleObject[click](schema1).Fingerprint())
	require.Equal(t, "avro-registry(long)", avroserde.Registry[int64](nil, "", avroserde.MustParse(`"long"`)).Fingerprint())

	doc := avroserde.MustParse(strings.Replace(text1, `"long"`, `"long","default":3,"doc":"x"`, 1))
	require.Equal(t, golden1, doc.Fingerprint(), "documentation and defaults do not matter")
	millis := avroserde.MustParse(strings.Replace(text1, `"long"`, `{"type":"long","logicalType":"timestamp-millis"}`, 1))
	micros := avroserde.MustParse(strings.Replace(text1, `"long"`, `{"type":"long","logicalType":"timestamp-micros"}`, 1))
	require.NotEqual(t, golden1, millis.Fingerprint())
	require.NotEqual(t, micros.Fingerprint(), millis.Fingerprint(), "the logical type is part of the meaning")
	for _, s := range []serde.Serde[int]{avroserde.Of[int](nil), avroserde.SingleObject[int](nil), avroserde.Registry[int](nil, "", nil)} {
		require.NotPanics(t, func() { s.Fingerprint() }, "a nil schema has a fingerprint until it is used")
	}
}

func TestSchemaFor(t *testing.T) {
	s, err := avroserde.SchemaFor[click]()
	require.NoError(t, err)
	require.Equal(t, "click", s.Name())
	require.Equal(t, click{"ab", 3}, decode(t, avroserde.Of[click](s), encode(t, avroserde.Of[click](s), click{"ab", 3})))
	_, err = avroserde.SchemaFor[int]()
	require.ErrorContains(t, err, "make the avro schema of int")
	require.Panics(t, func() { avroserde.MustSchemaFor[int]() })
	require.Panics(t, func() { avroserde.MustParse("{") })
	require.NotPanics(t, func() { avroserde.MustSchemaFor[click]() })
}

func FuzzDecode(f *testing.F) {
	server := registrytest.New(f)
	server.Add("s", registry.Schema{Text: text1})
	client := server.Client(f)
	serdes := []serde.Serde[click2]{
		avroserde.Of[click2](schema2), avroserde.SingleObject[click2](schema2, schema1), avroserde.Registry[click2](client, "s", schema2),
	}
	nested := avroserde.Of[map[string]any](avroserde.MustParse(`{"type":"record","name":"N","fields":[
		{"name":"next","type":["null","N"]},{"name":"m","type":{"type":"map","values":{"type":"array","items":"bytes"}}}]}`))
	for _, s := range serdes {
		b, err := s.Append(nil, click2{"a", 1, "/"})
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add([]byte{0, 0, 0, 0, 1, 4, 'a', 'b', 6})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = nested.Decode(b)
		for _, s := range serdes {
			v, err := s.Decode(b)
			if err != nil {
				continue
			}
			first, err := s.Append(nil, v)
			require.NoError(t, err)
			again, err := s.Decode(first)
			require.NoError(t, err)
			second, err := s.Append(nil, again)
			require.NoError(t, err)
			require.Equal(t, first, second)
		}
	})
}

const (
	golden1 = "af4774989325cf0eaa893b4f8eeabf26"
	golden2 = "aeea5f2619668eb0ff48d60101d55081"
)
