package protoserde_test

import (
	"encoding/base64"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/serde/protoserde"
	"github.com/tidegate/tidegate/serde/registry"
	"github.com/tidegate/tidegate/serde/registry/registrytest"
)

func encode[T any](t testing.TB, s serde.Serde[T], v T) []byte {
	t.Helper()
	b, err := s.Append([]byte("x"), v)
	require.NoError(t, err)
	require.Equal(t, byte('x'), b[0])
	return b[1:]
}

func trip[T proto.Message](t *testing.T, s serde.Serde[T], v T, want string) {
	t.Helper()
	b := encode(t, s, v)
	require.Equal(t, want, hex.EncodeToString(b))
	got, err := s.Decode(b)
	require.NoError(t, err)
	require.True(t, proto.Equal(v, got), "%v", got)
	clear(b)
	require.True(t, proto.Equal(v, got), "the message does not alias its bytes")
}

func TestBare(t *testing.T) {
	s := protoserde.Of[*wrapperspb.StringValue]()
	trip(t, s, wrapperspb.String("ab"), "0a026162")
	trip(t, s, wrapperspb.String(""), "")
	require.Equal(t, "protobuf(google.protobuf.StringValue)", s.Fingerprint())
	_, err := s.Append(nil, nil)
	require.ErrorContains(t, err, "encode protobuf google.protobuf.StringValue: the message is nil: a null is sent with serde.Nullable")
	_, err = s.Append(nil, wrapperspb.String("\xff"))
	require.ErrorContains(t, err, "encode protobuf google.protobuf.StringValue")
	_, err = s.Decode([]byte{0xa})
	require.ErrorContains(t, err, "decode protobuf google.protobuf.StringValue")
	n := serde.Nullable(s)
	require.True(t, n.(serde.NullSerde[record.Opt[*wrapperspb.StringValue]]).IsNull(record.None[*wrapperspb.StringValue]()))

	_, err = protoserde.Of[proto.Message]().Append(nil, wrapperspb.String(""))
	require.ErrorContains(t, err, "the type T is no message")
	_, err = protoserde.Of[*dynamicpb.Message]().Decode(nil)
	require.ErrorContains(t, err, "the type T is no message")
	_, err = protoserde.Dynamic(nil).Decode(nil)
	require.ErrorContains(t, err, "the type T is no message")
	require.Equal(t, "protobuf()", protoserde.Of[proto.Message]().Fingerprint())
}

func TestDeterministic(t *testing.T) {
	s := protoserde.Of[*structpb.Struct]()
	fields := map[string]any{}
	for i := range 20 {
		fields[string(rune('a'+i))] = float64(i)
	}
	var first []byte
	for range 20 {
		v, err := structpb.NewStruct(fields)
		require.NoError(t, err)
		b := encode(t, s, v)
		if first == nil {
			first = b
		}
		require.Equal(t, first, b)
	}
}

func TestUnknownFieldsAreKept(t *testing.T) {
	b := []byte{0x0a, 1, 'a', 0x10, 7}
	s := protoserde.Of[*wrapperspb.StringValue]()
	v, err := s.Decode(b)
	require.NoError(t, err)
	require.Equal(t, b, encode(t, s, v))
}

func TestRegistry(t *testing.T) {
	server := registrytest.New(t)
	c := server.Client(t)
	// wrappers.proto: StringValue is message 7, whose zigzag varint is 14.
	s := protoserde.Registry[*wrapperspb.StringValue](c, "words-value")
	trip(t, s, wrapperspb.String("ab"), "0000000001"+"020e"+"0a026162")
	// struct.proto: Struct is message 0, of which the path is the one byte 0.
	first := protoserde.Registry[*structpb.Struct](c, "structs-value")
	trip(t, first, &structpb.Struct{}, "0000000002"+"00")
	// descriptor.proto: ReservedRange is message 1 within message 2.
	nested := protoserde.Registry[*descriptorpb.DescriptorProto_ReservedRange](c, "nested")
	trip(t, nested, &descriptorpb.DescriptorProto_ReservedRange{Start: proto.Int32(1)}, "0000000003"+"040402"+"0801")
	require.Equal(t, []string{"nested", "structs-value", "words-value"}, server.Subjects())
	require.Equal(t, "protobuf-registry(google.protobuf.Struct)", first.Fingerprint())

	// What is registered is the file's descriptor.
	v, err := c.Latest(t.Context(), "words-value")
	require.NoError(t, err)
	require.Equal(t, registry.Protobuf, v.Schema.Type)
	b, err := base64.StdEncoding.DecodeString(v.Schema.Text)
	require.NoError(t, err)
	var file descriptorpb.FileDescriptorProto
	require.NoError(t, proto.Unmarshal(b, &file))
	require.Equal(t, "google/protobuf/wrappers.proto", file.GetName())

	// Another process reads it, and asks once.
	reader := protoserde.Registry[*wrapperspb.StringValue](server.Client(t), "")
	before := server.Requests()
	for range 3 {
		got, err := reader.Decode(encode(t, s, wrapperspb.String("x")))
		require.NoError(t, err)
		require.Equal(t, "x", got.GetValue())
	}
	require.Equal(t, before+1, server.Requests())
	_, err = reader.Decode([]byte{0, 0, 0, 0, 1, 2, 16, 0xa, 0})
	require.ErrorContains(t, err, "decode protobuf google.protobuf.StringValue: the record holds the message google.protobuf.BytesValue (at [8] of the schema of id 1)")
	_, err = reader.Decode([]byte{0, 0, 0, 0, 1, 2, 100})
	require.ErrorContains(t, err, "it has no message at [50]")
	_, err = reader.Decode([]byte{0, 0, 0, 0, 2, 0})
	require.ErrorContains(t, err, "holds the message google.protobuf.Struct")
	_, err = reader.Decode([]byte{0, 0, 0, 0, 9, 0})
	require.ErrorContains(t, err, "get the schema of id 9")
	require.NotErrorIs(t, err, serde.ErrUnavailable)
	_, err = reader.Decode([]byte{0, 0, 0, 0, 1, 1})
	require.ErrorContains(t, err, "path of the message within its file is damaged")
	_, err = reader.Decode([]byte("hello"))
	require.ErrorContains(t, err, "not written with a schema registry")
}

func TestRegistryThatGivesTextOnly(t *testing.T) {
	server := registrytest.New(t)
	id := byte(server.Add("s", registry.Schema{Type: registry.Protobuf, Text: `syntax = "proto3"; message Struct {}`}))
	avro := byte(server.Add("a", registry.Schema{Text: `"string"`}))
	odd := byte(server.Add("o", registry.Schema{Type: registry.Protobuf, Text: "aaaa"}))
	s := protoserde.Registry[*structpb.Struct](server.Client(t), "")
	_, err := s.Decode([]byte{0, 0, 0, 0, id, 0})
	require.NoError(t, err, "the path is that of Struct")
	_, err = s.Decode([]byte{0, 0, 0, 0, id, 2, 0})
	require.NoError(t, err, "the long form of the path")
	_, err = s.Decode([]byte{0, 0, 0, 0, id, 2, 2})
	require.ErrorContains(t, err, "the registry does not give descriptors; google.protobuf.Struct is at [0]")
	_, err = s.Decode([]byte{0, 0, 0, 0, avro, 0})
	require.ErrorContains(t, err, "is AVRO")
	_, err = s.Decode([]byte{0, 0, 0, 0, odd, 0})
	require.ErrorContains(t, err, "neither a text nor a descriptor")
}

func TestRegistrySchema(t *testing.T) {
	server := registrytest.New(t)
	const text = `syntax = "proto3"; package google.protobuf; message Struct {}`
	s := protoserde.RegistrySchema[*structpb.Struct](server.Client(t), "s", registry.Schema{Text: text})
	trip(t, s, &structpb.Struct{}, "0000000001"+"00")
	v, err := server.Client(t).Latest(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, text, v.Schema.Text)
	require.Equal(t, registry.Protobuf, v.Schema.Type)
}

func TestRegistryFailures(t *testing.T) {
	server := registrytest.New(t)
	_, err := protoserde.Registry[*structpb.Struct](server.Client(t), "s", registry.LookupOnly()).Append(nil, &structpb.Struct{})
	require.ErrorContains(t, err, "with LookupOnly the schema must be registered before")
	require.ErrorIs(t, err, serde.ErrUnavailable)
	_, err = protoserde.Registry[*structpb.Struct](nil, "s").Append(nil, &structpb.Struct{})
	require.ErrorContains(t, err, "client is nil")
	_, err = protoserde.Registry[*structpb.Struct](nil, "s").Decode([]byte{0, 0, 0, 0, 1, 0})
	require.ErrorContains(t, err, "client is nil")
	_, err = protoserde.Registry[*structpb.Struct](server.Client(t), "s").Append(nil, nil)
	require.ErrorContains(t, err, "the message is nil")
	_, err = protoserde.Registry[proto.Message](server.Client(t), "s").Append(nil, nil)
	require.ErrorContains(t, err, "the type T is no message")
	_, err = protoserde.DynamicRegistry(server.Client(t), "s", nil).Decode(nil)
	require.ErrorContains(t, err, "the type T is no message")
}

// files returns the messages Car of version v of a small set of files: car.proto
// imports color.proto and a built-in file.
func car(t testing.TB, v int) protoreflect.MessageDescriptor {
	t.Helper()
	kind := func(k descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto_Type { return &k }
	field := func(name string, n int32, typeName string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &n, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if f.Type = kind(descriptorpb.FieldDescriptorProto_TYPE_STRING); typeName != "" {
			f.Type, f.TypeName = kind(descriptorpb.FieldDescriptorProto_TYPE_MESSAGE), &typeName
		}
		return f
	}
	color := &descriptorpb.FileDescriptorProto{
		Name: proto.String("parts/color.proto"), Package: proto.String("acme"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Color"), Field: []*descriptorpb.FieldDescriptorProto{field("name", 1, "")}}},
	}
	whole := &descriptorpb.FileDescriptorProto{
		Name: proto.String("car.proto"), Package: proto.String("acme"), Syntax: proto.String("proto3"),
		Dependency: []string{"parts/color.proto", "google/protobuf/wrappers.proto"},
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Car"), Field: []*descriptorpb.FieldDescriptorProto{
			field("color", 1, ".acme.Color"), field("seats", 2, ".google.protobuf.Int32Value"),
		}}},
	}
	if v > 1 { // a message before it moves Car, and Car has a field more
		whole.MessageType = append([]*descriptorpb.DescriptorProto{{Name: proto.String("Bus")}}, whole.MessageType...)
		whole.MessageType[1].Field = append(whole.MessageType[1].Field, field("plate", 3, ""))
	}
	var files protoregistry.Files
	wrappers, err := protoregistry.GlobalFiles.FindFileByPath("google/protobuf/wrappers.proto")
	require.NoError(t, err)
	require.NoError(t, files.RegisterFile(wrappers))
	for _, f := range []*descriptorpb.FileDescriptorProto{color, whole} {
		d, err := protodesc.NewFile(f, &files)
		require.NoError(t, err)
		require.NoError(t, files.RegisterFile(d))
	}
	d, err := files.FindDescriptorByName("acme.Car")
	require.NoError(t, err)
	return d.(protoreflect.MessageDescriptor)
}

func TestImportsAndEvolution(t *testing.T) {
	server := registrytest.New(t)
	c := server.Client(t)
	one, two := car(t, 1), car(t, 2)
	_, err := protoserde.DynamicRegistry(c, "cars-value", one, registry.LookupOnly()).Append(nil, dynamicpb.NewMessage(one))
	require.ErrorContains(t, err, `parts/color.proto, which car.proto imports: look the schema up under subject "parts/color.proto"`)
	require.ErrorIs(t, err, serde.ErrUnavailable)

	old := protoserde.DynamicRegistry(c, "cars-value", one)
	m := dynamicpb.NewMessage(one)
	color := m.NewField(one.Fields().ByName("color"))
	color.Message().Set(one.Fields().ByName("color").Message().Fields().ByName("name"), protoreflect.ValueOfString("red"))
	m.Set(one.Fields().ByName("color"), color)
	b := encode(t, old, m)
	require.Equal(t, "00000000020"+"00a05"+"0a03726564", hex.EncodeToString(b))
	require.Equal(t, []string{"cars-value", "parts/color.proto"}, server.Subjects())
	v, err := c.Latest(t.Context(), "cars-value")
	require.NoError(t, err)
	require.Equal(t, []registry.Reference{{Name: "parts/color.proto", Subject: "parts/color.proto", Version: 1}}, v.Schema.References)
	require.Equal(t, b, encode(t, protoserde.DynamicRegistry(server.Client(t), "cars-value", one, registry.LookupOnly()), m), "now it is there")

	next := protoserde.DynamicRegistry(server.Client(t), "cars-value", two)
	got, err := next.Decode(b)
	require.NoError(t, err, "Car was at [0] when it was written")
	require.Equal(t, "red", got.Get(two.Fields().ByName("color")).Message().Get(two.Fields().ByName("color").Message().Fields().ByName("name")).String())
	b2 := encode(t, next, got)
	require.Equal(t, "00000000030202", hex.EncodeToString(b2[:7]))
	back, err := old.Decode(b2)
	require.NoError(t, err)
	require.True(t, proto.Equal(m, back))
	_, err = old.Decode([]byte{0, 0, 0, 0, 3, 0})
	require.ErrorContains(t, err, "holds the message acme.Bus")
	require.Equal(t, old.Fingerprint(), next.Fingerprint())
	trip(t, protoserde.Dynamic(one), m, "0a050a03726564")
}

func FuzzDecode(f *testing.F) {
	server := registrytest.New(f)
	c := server.Client(f)
	one := car(f, 1)
	bare, reg := protoserde.Dynamic(one), protoserde.DynamicRegistry(c, "s", one)
	f.Add(encode(f, reg, dynamicpb.NewMessage(one)))
	f.Add([]byte{0x0a, 5, 0x0a, 3, 'r', 'e', 'd'})
	f.Add([]byte{0, 0, 0, 0, 1, 2, 0})
	structs := protoserde.Of[*structpb.Struct]()
	f.Fuzz(func(t *testing.T, b []byte) {
		again(t, b, bare)
		again(t, b, reg)
		again(t, b, structs)
	})
}

func again[T proto.Message](t *testing.T, b []byte, s serde.Serde[T]) {
	v, err := s.Decode(b)
	if err != nil {
		return
	}
	first := encode(t, s, v)
	v, err = s.Decode(first)
	require.NoError(t, err)
	require.Equal(t, first, encode(t, s, v))
}
