package protoserde

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tidegate/tidegate/serde"
)

// Of is the bare encoding of a message, for example Of[*pb.Order]().
func Of[T proto.Message]() serde.Serde[T] { return bare[T]{typeOf[T]()} }

// Dynamic is Of for a message whose type is known only at run time.
func Dynamic(d protoreflect.MessageDescriptor) serde.Serde[*dynamicpb.Message] {
	return bare[*dynamicpb.Message]{dynamicType(d)}
}

// messageType makes empty messages of type T; nil when there is no such type.
type messageType[T proto.Message] struct{ t protoreflect.MessageType }

func typeOf[T proto.Message]() messageType[T] {
	var zero T
	if any(zero) == nil { // T is an interface
		return messageType[T]{}
	}
	if _, ok := any(zero).(*dynamicpb.Message); ok { // a nil one has no descriptor
		return messageType[T]{}
	}
	return messageType[T]{zero.ProtoReflect().Type()}
}

func dynamicType(d protoreflect.MessageDescriptor) messageType[*dynamicpb.Message] {
	if d == nil {
		return messageType[*dynamicpb.Message]{}
	}
	return messageType[*dynamicpb.Message]{dynamicpb.NewMessageType(d)}
}

var (
	errNoType = errors.New("the type T is no message: use a pointer to a generated type, or Dynamic with a descriptor")
	errNil    = errors.New("the message is nil: a null is sent with serde.Nullable")
)

func (m messageType[T]) name() string {
	if m.t == nil {
		return ""
	}
	return string(m.t.Descriptor().FullName())
}

func (m messageType[T]) append(dst []byte, v T) ([]byte, error) {
	if m.t == nil {
		return dst, errNoType
	}
	if any(v) == nil || !v.ProtoReflect().IsValid() {
		return dst, fmt.Errorf("encode protobuf %s: %w", m.name(), errNil)
	}
	out, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, v)
	if err != nil {
		return dst, fmt.Errorf("encode protobuf %s: %w", m.name(), err)
	}
	return out, nil
}

func (m messageType[T]) decode(b []byte) (T, error) {
	var zero T
	if m.t == nil {
		return zero, errNoType
	}
	v := m.t.New().Interface()
	if err := proto.Unmarshal(b, v); err != nil {
		return zero, fmt.Errorf("decode protobuf %s: %w", m.name(), err)
	}
	return v.(T), nil
}

type bare[T proto.Message] struct{ messageType[T] }

func (s bare[T]) Append(dst []byte, v T) ([]byte, error) { return s.append(dst, v) }
func (s bare[T]) Decode(b []byte) (T, error)             { return s.decode(b) }
func (s bare[T]) Fingerprint() string                    { return "protobuf(" + s.name() + ")" }
