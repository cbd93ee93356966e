package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Type is the language of a schema.
type Type string

// The languages that registries know.
const (
	Avro     Type = "AVRO"
	Protobuf Type = "PROTOBUF"
	JSON     Type = "JSON"
)

// Schema is a schema as a registry keeps it.
type Schema struct {
	// Type is Avro when empty.
	Type Type
	// Text is the schema in its language.
	Text string
	// References are the schemas that the text refers to by name.
	References []Reference
}

// Reference is a schema under another subject.
type Reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// Version is a schema under a subject.
type Version struct {
	Subject string
	Version int
	ID      int
	Schema  Schema
}

// Client asks a schema registry and keeps its answers. It is safe for concurrent
// use; a program needs one per registry.
type Client struct {
	http     caller
	byID     cache[string, Schema]
	bySchema cache[string, int]
	versions cache[string, Version]
}

// New returns a client of the registry at a URL, or of one that has several
// URLs, separated by commas. It does not connect.
func New(urls string, opts ...Option) (*Client, error) {
	c, err := configOf(opts)
	if err != nil {
		return nil, fmt.Errorf("schema registry: %w", err)
	}
	bases, err := c.bases(urls)
	if err != nil {
		return nil, fmt.Errorf("schema registry: %w", err)
	}
	client := &Client{http: caller{config: c, bases: bases}}
	client.byID.keepUnknown = true
	return client, nil
}

// wireSchema is a schema in requests and answers.
type wireSchema struct {
	Subject    string      `json:"subject,omitempty"`
	Version    int         `json:"version,omitempty"`
	ID         int         `json:"id,omitempty"`
	SchemaType Type        `json:"schemaType,omitempty"`
	Schema     string      `json:"schema,omitempty"`
	References []Reference `json:"references,omitempty"`
}

func (w wireSchema) schema() Schema {
	s := Schema{Type: w.SchemaType, Text: w.Schema, References: w.References}
	if s.Type == "" {
		s.Type = Avro
	}
	return s
}

func (s Schema) wire() wireSchema {
	w := wireSchema{SchemaType: s.Type, Schema: s.Text, References: s.References}
	if s.Type == Avro {
		w.SchemaType = "" // older registries know no types
	}
	return w
}

func (s Schema) key(subject string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q", subject, s.wire().SchemaType, s.Text)
	for _, r := range s.References {
		fmt.Fprintf(&b, " %q %q %d", r.Name, r.Subject, r.Version)
	}
	return b.String()
}

// SchemaByID returns the schema of an id, from the cache where it can.
func (c *Client) SchemaByID(ctx context.Context, id int) (Schema, error) {
	return c.schemaByID(ctx, id, "")
}

// SerializedByID returns the schema of an id in the form that the registry calls
// "serialized": for Protobuf, the base64 of a FileDescriptorProto. Registries
// that do not know it answer with the usual text.
func (c *Client) SerializedByID(ctx context.Context, id int) (Schema, error) {
	return c.schemaByID(ctx, id, "?format=serialized")
}

func (c *Client) schemaByID(ctx context.Context, id int, query string) (Schema, error) {
	path := "/schemas/ids/" + strconv.Itoa(id) + query
	return c.byID.get(ctx, path, func() (Schema, error) {
		var out wireSchema
		if err := c.http.do(ctx, http.MethodGet, path, nil, &out); err != nil {
			return Schema{}, fmt.Errorf("get the schema of id %d: %w", id, err)
		}
		return out.schema(), nil
	})
}

// Register registers a schema under a subject, unless it is there already, and
// returns its id.
func (c *Client) Register(ctx context.Context, subject string, s Schema) (int, error) {
	return c.idOf(ctx, subject, s, "register the schema under subject", "/versions")
}

// Lookup returns the id of a schema that is registered under a subject.
func (c *Client) Lookup(ctx context.Context, subject string, s Schema) (int, error) {
	return c.idOf(ctx, subject, s, "look the schema up under subject", "")
}

func (c *Client) idOf(ctx context.Context, subject string, s Schema, what, path string) (int, error) {
	if subject == "" {
		return 0, errors.New("the subject of the schema registry is empty: name one, for example registry.ValueSubject(topic)")
	}
	return c.bySchema.get(ctx, path+" "+s.key(subject), func() (int, error) {
		var out wireSchema
		to := "/subjects/" + url.PathEscape(subject) + path
		if c.http.config.normalize {
			to += "?normalize=true"
		}
		if err := c.http.do(ctx, http.MethodPost, to, s.wire(), &out); err != nil {
			return 0, fmt.Errorf("%s %q: %w", what, subject, err)
		}
		if out.ID <= 0 {
			return 0, fmt.Errorf("%s %q: the answer has no id", what, subject)
		}
		return out.ID, nil
	})
}

// VersionOf returns the version number of a schema that is registered under a
// subject.
func (c *Client) VersionOf(ctx context.Context, subject string, s Schema) (int, error) {
	v, err := c.versions.get(ctx, "lookup "+s.key(subject), func() (Version, error) {
		var out wireSchema
		if err := c.http.do(ctx, http.MethodPost, "/subjects/"+url.PathEscape(subject), s.wire(), &out); err != nil {
			return Version{}, fmt.Errorf("look the schema up under subject %q: %w", subject, err)
		}
		return Version{Subject: subject, Version: out.Version, ID: out.ID, Schema: out.schema()}, nil
	})
	return v.Version, err
}

// Version returns a version of a subject.
func (c *Client) Version(ctx context.Context, subject string, version int) (Version, error) {
	path := "/subjects/" + url.PathEscape(subject) + "/versions/" + strconv.Itoa(version)
	return c.versions.get(ctx, path, func() (Version, error) { return c.version(ctx, subject, path) })
}

// Latest returns the newest version of a subject. It is asked for each time.
func (c *Client) Latest(ctx context.Context, subject string) (Version, error) {
	return c.version(ctx, subject, "/subjects/"+url.PathEscape(subject)+"/versions/latest")
}

func (c *Client) version(ctx context.Context, subject, path string) (Version, error) {
	var out wireSchema
	if err := c.http.do(ctx, http.MethodGet, path, nil, &out); err != nil {
		return Version{}, fmt.Errorf("get a version of subject %q: %w", subject, err)
	}
	return Version{Subject: subject, Version: out.Version, ID: out.ID, Schema: out.schema()}, nil
}

// maxReferences bounds what one schema may bring along.
const maxReferences = 1000

// Referenced returns the schemas that s refers to, directly or not, each after
// those that it refers to itself.
func (c *Client) Referenced(ctx context.Context, s Schema) ([]Schema, error) {
	var out []Schema
	seen := map[Reference]bool{}
	var walk func(s Schema) error
	walk = func(s Schema) error {
		for _, r := range s.References {
			// One schema may be known by several names.
			if r.Name = ""; seen[r] {
				continue
			}
			if seen[r] = true; len(seen) > maxReferences {
				return fmt.Errorf("a schema refers to more than %d others", maxReferences)
			}
			v, err := c.Version(ctx, r.Subject, r.Version)
			if err != nil {
				return err
			}
			if err := walk(v.Schema); err != nil {
				return err
			}
			out = append(out, v.Schema)
		}
		return nil
	}
	return out, walk(s)
}
