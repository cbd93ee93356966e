package avroserde

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/avro"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/serde/registry"
)

// Registry is Confluent's wire format: the id of the writer's schema before each
// value (KafkaAvroSerializer). What is read may be written with any schema of the
// registry that resolves to s. What is written is written with s, which is
// registered under the subject before the first value, or looked up there
// (registry.LookupOnly). The subject may be "" for a serde that only reads.
//
// The first value of each schema waits for the registry. When it cannot be
// reached, the task fails, whatever the failure handler says about bad records.
//
// The fingerprint has the record's name in it: a schema of the same name, or of
// a name that s lists as an alias, may follow at a restore, since each value says
// which schema wrote it.
func Registry[T any](c *registry.Client, subject string, s *Schema, opts ...registry.WriteOption) serde.Serde[T] {
	r := &registered[T]{client: c, s: s}
	text := ""
	if s != nil {
		text = s.String()
	}
	r.writer = c.Writer(subject, registry.Schema{Type: registry.Avro, Text: text}, opts...)
	return r
}

type registered[T any] struct {
	client *registry.Client
	s      *Schema
	writer *registry.Writer

	mu      sync.Mutex // guards the replacement of readers
	readers atomic.Pointer[map[int]*avro.Schema]
}

func (r *registered[T]) Append(dst []byte, v T) ([]byte, error) {
	if r.s == nil {
		return dst, errNoSchema
	}
	out, err := r.writer.AppendHeader(dst)
	if err != nil {
		return dst, fmt.Errorf("encode %T as avro %s: %w", v, r.s.name, err)
	}
	return appendValue(out, r.s, v)
}

func (r *registered[T]) Decode(b []byte) (T, error) {
	var zero T
	if r.s == nil {
		return zero, errNoSchema
	}
	id, b, err := registry.ParseHeader(b)
	if err != nil {
		return zero, fmt.Errorf("decode avro %s: %w", r.s.name, err)
	}
	how, err := r.reader(id)
	if err != nil {
		return zero, fmt.Errorf("decode avro %s: %w", r.s.name, err)
	}
	return decode[T](how, r.s, b)
}

// reader returns what reads values of the schema with that id.
func (r *registered[T]) reader(id int) (*avro.Schema, error) {
	if id != 0 && id == r.writer.Known() {
		return r.s.s, nil
	}
	if m := r.readers.Load(); m != nil {
		if how := (*m)[id]; how != nil {
			return how, nil
		}
	}
	how, err := r.resolve(context.Background(), id)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[int]*avro.Schema{id: how}
	if m := r.readers.Load(); m != nil {
		maps.Copy(next, *m)
	}
	r.readers.Store(&next)
	return how, nil
}

var errNoClient = errors.New("the schema registry's client is nil: make one with registry.New")

func (r *registered[T]) resolve(ctx context.Context, id int) (*avro.Schema, error) {
	if r.client == nil {
		return nil, errNoClient
	}
	written, err := r.client.SchemaByID(ctx, id)
	if err != nil {
		return nil, err
	}
	if written.Type != registry.Avro {
		return nil, fmt.Errorf("the schema of id %d is %s", id, written.Type)
	}
	named, err := r.client.Referenced(ctx, written)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, n := range named {
		texts = append(texts, n.Text)
	}
	writer, err := Parse(written.Text, texts...)
	if err != nil {
		return nil, fmt.Errorf("the schema of id %d: %w", id, err)
	}
	how, err := avro.Resolve(writer.s, r.s.s)
	if err != nil {
		return nil, fmt.Errorf("the schema of id %d cannot be read with this one: %w", id, err)
	}
	return how, nil
}

func (r *registered[T]) Fingerprint() string {
	if r.s == nil {
		return "avro-registry()"
	}
	return registryFingerprint(r.s.name)
}

func registryFingerprint(name string) string { return "avro-registry(" + name + ")" }

func (r *registered[T]) Accepts(fingerprint string) bool {
	name, ok := strings.CutPrefix(fingerprint, "avro-registry(")
	return ok && r.s != nil && slices.Contains(r.s.aliases, strings.TrimSuffix(name, ")"))
}
