package avroserde

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/twmb/avro"

	"github.com/tidegate/tidegate/serde"
)

// Schema is a parsed Avro schema.
type Schema struct {
	s           *avro.Schema
	name        string // full name, or the type where it has none
	aliases     []string
	fingerprint string
}

// Parse parses a schema in Avro's JSON form. Schemas that it refers to by name
// come first.
func Parse(text string, named ...string) (*Schema, error) {
	var cache avro.SchemaCache
	for i, n := range named {
		if _, err := cache.Parse(n); err != nil {
			return nil, fmt.Errorf("parse the avro schema %d that another refers to: %w", i, err)
		}
	}
	s, err := cache.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse avro schema: %w", err)
	}
	if len(named) > 0 {
		// The text has to stand alone, in a registry as anywhere.
		if s, err = s.Root().Schema(); err != nil {
			return nil, fmt.Errorf("join the avro schema with those that it refers to: %w", err)
		}
	}
	return schemaOf(s), nil
}

// MustParse is Parse for schemas that are part of the program; it panics.
func MustParse(text string, named ...string) *Schema {
	s, err := Parse(text, named...)
	if err != nil {
		panic(err)
	}
	return s
}

// SchemaFor makes the schema of a struct type from its fields and their avro
// tags.
func SchemaFor[T any]() (*Schema, error) {
	s, err := avro.SchemaFor[T]()
	if err != nil {
		return nil, fmt.Errorf("make the avro schema of %T: %w", *new(T), err)
	}
	return schemaOf(s), nil
}

// MustSchemaFor is SchemaFor that panics.
func MustSchemaFor[T any]() *Schema {
	s, err := SchemaFor[T]()
	if err != nil {
		panic(err)
	}
	return s
}

// String returns the schema's text.
func (s *Schema) String() string { return s.s.String() }

// Name returns the full name of a record, enum or fixed, else the type: "long".
func (s *Schema) Name() string { return s.name }

// Fingerprint identifies what the bytes mean: 32 hexadecimal digits of a SHA-256
// over Avro's canonical form and the logical types, which that form leaves out.
// Documentation, aliases and defaults are not in it.
func (s *Schema) Fingerprint() string { return s.fingerprint }

func schemaOf(s *avro.Schema) *Schema {
	root := s.Root()
	out := &Schema{s: s, name: root.Type}
	if root.Name != "" && named(root.Type) {
		out.name = fullName(root.Namespace, root.Name)
		for _, a := range root.Aliases {
			out.aliases = append(out.aliases, fullName(root.Namespace, a))
		}
	}
	h := sha256.New()
	h.Write(s.Canonical())
	writeLogical(h, root, map[string]bool{})
	out.fingerprint = hex.EncodeToString(h.Sum(nil)[:16])
	return out
}

func named(kind string) bool {
	return kind == "record" || kind == "error" || kind == "enum" || kind == "fixed"
}

func fullName(namespace, name string) string {
	for _, r := range name {
		if r == '.' {
			return name
		}
	}
	if namespace == "" {
		return name
	}
	return namespace + "." + name
}

type hashWriter interface{ Write([]byte) (int, error) }

// writeLogical adds the logical types in the order of the schema's tree. The
// canonical form before it says where in the tree they are.
func writeLogical(h hashWriter, n *avro.SchemaNode, seen map[string]bool) {
	if n == nil {
		return
	}
	if n.Name != "" && named(n.Type) {
		name := fullName(n.Namespace, n.Name)
		if seen[name] {
			return
		}
		seen[name] = true
	}
	_, _ = fmt.Fprintf(h, "\n%s %q", n.Type, n.LogicalType)
	if n.LogicalType == "decimal" {
		_, _ = fmt.Fprintf(h, " %d %d", n.Precision, n.Scale)
	}
	for i := range n.Fields {
		writeLogical(h, &n.Fields[i].Type, seen)
	}
	writeLogical(h, n.Items, seen)
	writeLogical(h, n.Values, seen)
	for i := range n.Branches {
		writeLogical(h, &n.Branches[i], seen)
	}
}

var errNoSchema = errors.New("the avro schema is nil: pass one from Parse or SchemaFor")

// Of is the bare Avro value, without a word about its schema. Only the same
// schema reads it, apart from documentation, aliases and defaults.
func Of[T any](s *Schema) serde.Serde[T] { return bare[T]{s} }

type bare[T any] struct{ s *Schema }

func (b bare[T]) Append(dst []byte, v T) ([]byte, error) {
	if b.s == nil {
		return dst, errNoSchema
	}
	return appendValue(dst, b.s, v)
}

func (b bare[T]) Decode(in []byte) (T, error) {
	if b.s == nil {
		var zero T
		return zero, errNoSchema
	}
	return decode[T](b.s.s, b.s, in)
}

func (b bare[T]) Fingerprint() string {
	if b.s == nil {
		return "avro()"
	}
	return "avro(" + b.s.fingerprint + ")"
}

func appendValue[T any](dst []byte, s *Schema, v T) ([]byte, error) {
	out, err := s.s.AppendEncode(dst, v)
	if err != nil {
		return dst, fmt.Errorf("encode %T as avro %s: %w", v, s.name, err)
	}
	return out, nil
}

// decode reads one value that must fill b; how is the reader's schema, or the
// writer's resolved to it.
func decode[T any](how *avro.Schema, s *Schema, b []byte) (T, error) {
	var v T
	rest, err := how.Decode(b, &v)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes behind the value: was it written with another schema?", len(rest))
	}
	if err != nil {
		var zero T
		return zero, fmt.Errorf("decode avro %s into %T: %w", s.name, zero, err)
	}
	return v, nil
}
