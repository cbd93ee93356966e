package protoserde

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/serde/registry"
)

// Registry is Confluent's wire format: the schema's id and the path of the
// message within its file before each value (KafkaProtobufSerializer).
//
// Before the first value is written, the file of T is registered under the
// subject, and the files that it imports under their paths; or they are looked up
// there (registry.LookupOnly). Files go to the registry as descriptors in base64,
// which it turns into text; [RegistrySchema] sends a text of one's own. The
// subject may be "" for a serde that only reads.
//
// A record is read when the registry says that its id and path name the message
// T, whatever version of it. Registries that cannot say so (without
// "format=serialized") are believed where the path is that of T in its own file.
//
// The first value of each schema waits for the registry. When it cannot be
// reached, the task fails, whatever the failure handler says about bad records.
func Registry[T proto.Message](c *registry.Client, subject string, opts ...registry.WriteOption) serde.Serde[T] {
	return newRegistered(typeOf[T](), c, subject, opts)
}

// DynamicRegistry is Registry for a message whose type is known only at run
// time.
func DynamicRegistry(
	c *registry.Client, subject string, d protoreflect.MessageDescriptor, opts ...registry.WriteOption,
) serde.Serde[*dynamicpb.Message] {
	return newRegistered(dynamicType(d), c, subject, opts)
}

// RegistrySchema is Registry that registers or looks up the given schema, for
// example the text of T's .proto file.
func RegistrySchema[T proto.Message](
	c *registry.Client, subject string, schema registry.Schema, opts ...registry.WriteOption,
) serde.Serde[T] {
	r := newRegistered(typeOf[T](), c, subject, nil)
	schema.Type = registry.Protobuf
	r.writer = c.Writer(subject, schema, opts...)
	return r
}

func newRegistered[T proto.Message](
	m messageType[T], c *registry.Client, subject string, opts []registry.WriteOption,
) *registered[T] {
	r := &registered[T]{messageType: m, client: c}
	if m.t != nil {
		r.path = pathOf(m.t.Descriptor())
		r.indexes = registry.AppendIndexes(nil, r.path)
	}
	r.writer = c.WriterFunc(subject, func(ctx context.Context, c *registry.Client, lookupOnly bool) (registry.Schema, error) {
		return schemaOf(ctx, c, m.t.Descriptor().ParentFile(), lookupOnly)
	}, opts...)
	return r
}

type registered[T proto.Message] struct {
	messageType[T]
	client  *registry.Client
	writer  *registry.Writer
	path    []int  // of T within its file
	indexes []byte // path as it is written

	mu    sync.Mutex // guards the replacement of known
	known atomic.Pointer[map[string]struct{}]
}

// maxKnown bounds the headers that are remembered to name T.
const maxKnown = 1000

// pathOf returns the indexes that lead from a file to a message.
func pathOf(d protoreflect.MessageDescriptor) []int {
	var path []int
	for at := protoreflect.Descriptor(d); ; at = at.Parent() {
		m, ok := at.(protoreflect.MessageDescriptor)
		if !ok {
			break
		}
		path = append(path, m.Index())
	}
	slices.Reverse(path)
	return path
}

// builtIn are the folders whose files every registry has.
var builtIn = []string{"google/protobuf/", "google/type/", "confluent/"}

// schemaOf returns the schema of a file, after what it imports was registered or
// found.
func schemaOf(ctx context.Context, c *registry.Client, f protoreflect.FileDescriptor, lookupOnly bool) (registry.Schema, error) {
	s := registry.Schema{Type: registry.Protobuf}
	imports := f.Imports()
	for i := range imports.Len() {
		dep := imports.Get(i).FileDescriptor
		if slices.ContainsFunc(builtIn, func(folder string) bool { return strings.HasPrefix(dep.Path(), folder) }) {
			continue
		}
		ref, err := reference(ctx, c, dep, lookupOnly)
		if err != nil {
			return s, fmt.Errorf("%s, which %s imports: %w", dep.Path(), f.Path(), err)
		}
		s.References = append(s.References, ref)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(protodesc.ToFileDescriptorProto(f))
	if err != nil {
		return s, fmt.Errorf("describe %s: %w", f.Path(), err)
	}
	s.Text = base64.StdEncoding.EncodeToString(b)
	return s, nil
}

func reference(ctx context.Context, c *registry.Client, f protoreflect.FileDescriptor, lookupOnly bool) (registry.Reference, error) {
	s, err := schemaOf(ctx, c, f, lookupOnly)
	if err != nil {
		return registry.Reference{}, err
	}
	if !lookupOnly {
		if _, err := c.Register(ctx, f.Path(), s); err != nil {
			return registry.Reference{}, err
		}
	}
	version, err := c.VersionOf(ctx, f.Path(), s)
	return registry.Reference{Name: f.Path(), Subject: f.Path(), Version: version}, err
}

func (r *registered[T]) Append(dst []byte, v T) ([]byte, error) {
	if r.t == nil {
		return dst, errNoType
	}
	out, err := r.writer.AppendHeader(dst)
	if err != nil {
		return dst, fmt.Errorf("encode protobuf %s: %w", r.name(), err)
	}
	return r.append(append(out, r.indexes...), v)
}

func (r *registered[T]) Decode(b []byte) (T, error) {
	var zero T
	if r.t == nil {
		return zero, errNoType
	}
	payload, err := r.payload(b)
	if err != nil {
		return zero, fmt.Errorf("decode protobuf %s: %w", r.name(), err)
	}
	return r.decode(payload)
}

// payload checks that the record holds a T, and returns what follows the header.
func (r *registered[T]) payload(b []byte) ([]byte, error) {
	id, rest, err := registry.ParseHeader(b)
	if err != nil {
		return nil, err
	}
	payload, err := registry.SkipIndexes(rest)
	if err != nil {
		return nil, err
	}
	header := b[:len(b)-len(payload)]
	if m := r.known.Load(); m != nil {
		if _, ok := (*m)[string(header)]; ok {
			return payload, nil
		}
	}
	path, _, err := registry.ParseIndexes(rest)
	if err != nil {
		return nil, err
	}
	if err := r.check(id, path); err != nil {
		return nil, err
	}
	r.remember(header)
	return payload, nil
}

func (r *registered[T]) remember(header []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[string]struct{}{string(header): {}}
	if m := r.known.Load(); m != nil {
		if len(*m) >= maxKnown {
			return
		}
		maps.Copy(next, *m)
	}
	r.known.Store(&next)
}

var errNoClient = errors.New("the schema registry's client is nil: make one with registry.New")

// check finds out whether the message at that path of that schema is T.
func (r *registered[T]) check(id int, path []int) error {
	own := slices.Equal(path, r.path)
	if own && id == r.writer.Known() {
		return nil
	}
	if r.client == nil {
		return errNoClient
	}
	s, err := r.client.SerializedByID(context.Background(), id)
	if err != nil {
		return err
	}
	if s.Type != registry.Protobuf {
		return fmt.Errorf("the schema of id %d is %s", id, s.Type)
	}
	name, ok, err := nameAt(s.Text, path)
	switch {
	case err != nil:
		return fmt.Errorf("the schema of id %d: %w", id, err)
	case !ok && own || name == r.name():
		return nil
	case !ok:
		return fmt.Errorf("the message at %v of the schema of id %d is not known, since the registry does not give descriptors; %s is at %v in its file", path, id, r.name(), r.path)
	}
	return fmt.Errorf("the record holds the message %s (at %v of the schema of id %d)", name, path, id)
}

// nameAt returns the full name of the message at a path of a schema; ok is false
// when the schema is not a descriptor.
func nameAt(schema string, path []int) (name string, ok bool, err error) {
	b, err := base64.StdEncoding.DecodeString(schema)
	if err != nil {
		return "", false, nil //nolint:nilerr // it is text then
	}
	var file descriptorpb.FileDescriptorProto
	if err := proto.Unmarshal(b, &file); err != nil {
		return "", false, fmt.Errorf("it is neither a text nor a descriptor: %w", err)
	}
	name = file.GetPackage()
	messages := file.GetMessageType()
	for _, i := range path {
		if i < 0 || i >= len(messages) {
			return "", true, fmt.Errorf("it has no message at %v", path)
		}
		if name != "" {
			name += "."
		}
		name += messages[i].GetName()
		messages = messages[i].GetNestedType()
	}
	return name, true, nil
}

func (r *registered[T]) Fingerprint() string { return "protobuf-registry(" + r.name() + ")" }
