package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// Catalog reads and writes the descriptions of one life's checkpoints:
// manifests, markers and parts. It keeps no state and may be used from any
// goroutine.
type Catalog struct {
	store Store
	names Names
	retry Retry
}

// NewCatalog returns the catalog of a life.
func NewCatalog(s Store, n Names, r Retry) *Catalog { return &Catalog{store: s, names: n, retry: r} }

// Names returns the names of the catalog's life.
func (c *Catalog) Names() Names { return c.names }

// Marked is a checkpoint that was completed and wholly committed.
type Marked struct {
	Life       ids.Life
	Checkpoint ids.CheckpointID
	// Manifest is the key of its manifest; "" if Err says that the marker is
	// damaged. Life and Checkpoint are then taken from its name.
	Manifest string
	Err      error
	// markerKey is where this was read.
	markerKey string
}

type markerBody struct {
	App        string           `json:"app"`
	Life       ids.Life         `json:"life"`
	Checkpoint ids.CheckpointID `json:"checkpoint"`
	Manifest   string           `json:"manifest"`
}

// PutManifest stores m under (life, checkpoint, term) and returns its key, to
// be named in Complete. If the key exists, an earlier attempt of ours may have
// been stored though it failed: what is there is read and compared, but for
// the informational creation time (R17). A different manifest is ErrExists:
// somebody else wrote under this term, and the checkpoint must not complete.
func (c *Catalog) PutManifest(ctx context.Context, m Manifest) (string, error) {
	if m.App != c.names.App || m.Life != c.names.Life {
		return "", fmt.Errorf("store manifest: it is of %s/%s, this is %s/%s", m.App, m.Life, c.names.App, c.names.Life)
	}
	m.Sort()
	key := c.names.Manifest(m.Checkpoint, m.Term)
	b, err := m.Encode()
	if err != nil {
		return "", err
	}
	err = c.putOnce(ctx, key, b, func(old []byte) error {
		found, err := DecodeManifest(old)
		if err != nil {
			return corrupted(c.store.String(), "get", key, err)
		}
		found.Created = m.Created
		if again, err := found.Encode(); err != nil || !slices.Equal(again, b) {
			return &Error{Kind: KindExists, Op: "put", Store: c.store.String(), Key: key, Hint: "another manifest was stored for this checkpoint and term; the checkpoint must be aborted"}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("store manifest of checkpoint %d: %w", m.Checkpoint, err)
	}
	return key, nil
}

// Mark makes a completed checkpoint restorable by key. REQUIRES: all its
// Committed were read (R17). Marking twice is no error.
func (c *Catalog) Mark(ctx context.Context, n ids.CheckpointID, manifestKey string) error {
	key := c.names.Marker(n)
	b, err := encodeEnvelope(envelopeMarker, markerBody{App: c.names.App, Life: c.names.Life, Checkpoint: n, Manifest: manifestKey})
	if err != nil {
		return err
	}
	err = c.putOnce(ctx, key, b, func(old []byte) error {
		if !slices.Equal(old, b) {
			return corrupted(c.store.String(), "get", key, errors.New("the marker names another manifest"))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("mark checkpoint %d: %w", n, err)
	}
	return nil
}

// putOnce is put-if-absent with repetition; same judges what is already there.
func (c *Catalog) putOnce(ctx context.Context, key string, b []byte, same func([]byte) error) error {
	return c.retry.do(ctx, Retriable, func() error {
		err := c.store.PutIfAbsent(ctx, key, b)
		if !errors.Is(err, ErrExists) {
			return err
		}
		old, err := Get(ctx, c.store, key)
		if err != nil {
			return err
		}
		return same(old)
	})
}

// Load reads a manifest by its key, which may be of another life.
func (c *Catalog) Load(ctx context.Context, key string) (Manifest, error) {
	var m Manifest
	err := c.load(ctx, key, func(b []byte) (err error) {
		m, err = DecodeManifest(b)
		return err
	})
	if err != nil {
		return Manifest{}, fmt.Errorf("load manifest: %w", err)
	}
	if at := (Names{App: m.App, Life: m.Life}).Manifest(m.Checkpoint, m.Term); at != key {
		return Manifest{}, corrupted(c.store.String(), "get", key, fmt.Errorf("it holds the manifest that belongs at %s", at))
	}
	return m, nil
}

// LoadMarked reads the manifest of a marked checkpoint of this life;
// ErrNotFound when it is not marked.
func (c *Catalog) LoadMarked(ctx context.Context, n ids.CheckpointID) (Manifest, error) {
	mark, err := c.readMarker(ctx, c.names.Marker(n))
	if err != nil {
		return Manifest{}, fmt.Errorf("find checkpoint %d: %w", n, err)
	}
	return c.Load(ctx, mark.Manifest)
}

// LoadPart reads a part by its key.
func (c *Catalog) LoadPart(ctx context.Context, key string) (Part, error) {
	var p Part
	err := c.load(ctx, key, func(b []byte) (err error) {
		p, err = DecodePart(b)
		return err
	})
	if err != nil {
		return Part{}, fmt.Errorf("load part: %w", err)
	}
	if name, err := ParseName(key); err != nil || name.Kind != NamePart || name.Life != p.Life || name.Checkpoint != p.Checkpoint {
		return Part{}, corrupted(c.store.String(), "get", key, fmt.Errorf("it holds a part of life %s, checkpoint %d", p.Life, p.Checkpoint))
	}
	return p, nil
}

// load reads and decodes; what does not decode is read once more before it
// counts as corrupted.
func (c *Catalog) load(ctx context.Context, key string, decode func([]byte) error) error {
	damaged := 0
	return c.retry.do(ctx, func(err error) bool {
		if errors.Is(err, ErrCorrupted) {
			damaged++
			return damaged < 2
		}
		return Retriable(err)
	}, func() error {
		b, err := Get(ctx, c.store, key)
		if err != nil {
			return err
		}
		if err := decode(b); err != nil {
			return corrupted(c.store.String(), "get", key, err)
		}
		return nil
	})
}

func (c *Catalog) readMarker(ctx context.Context, key string) (Marked, error) {
	var body markerBody
	err := c.load(ctx, key, func(b []byte) error {
		body = markerBody{}
		return decodeEnvelope(envelopeMarker, b, &body)
	})
	if err != nil {
		return Marked{}, err
	}
	if (Names{App: body.App, Life: body.Life}).Marker(body.Checkpoint) != key {
		return Marked{}, corrupted(c.store.String(), "get", key, fmt.Errorf("it holds the marker of life %s, checkpoint %d", body.Life, body.Checkpoint))
	}
	return Marked{Life: body.Life, Checkpoint: body.Checkpoint, Manifest: body.Manifest, markerKey: key}, nil
}

// ListMarked returns the life's restorable checkpoints, oldest first.
func (c *Catalog) ListMarked(ctx context.Context) ([]Marked, error) {
	return c.listMarked(ctx, c.names.MarkerPrefix())
}

// ListAllMarked returns the restorable checkpoints of all lives of an
// application: if there are any while the control log is empty, the log was
// lost (R24).
func ListAllMarked(ctx context.Context, s Store, app string, r Retry) ([]Marked, error) {
	c := NewCatalog(s, Names{App: app}, r)
	return c.listMarked(ctx, escape(app)+"/marked/")
}

func (c *Catalog) listMarked(ctx context.Context, prefix string) ([]Marked, error) {
	keys, err := listKeys(ctx, c.store, prefix, c.retry)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	var out []Marked
	for _, key := range keys {
		name, err := ParseName(key)
		if err != nil || name.Kind != NameMarker {
			continue
		}
		m, err := c.readMarker(ctx, key)
		if errors.Is(err, ErrCorrupted) { // it hides none of the others
			m, err = Marked{Life: name.Life, Checkpoint: name.Checkpoint, Err: err, markerKey: key}, nil
		}
		if errors.Is(err, ErrNotFound) {
			continue // retired and cleaned since the listing
		}
		if err != nil {
			return nil, fmt.Errorf("list checkpoints: %w", err)
		}
		out = append(out, m)
	}
	return out, nil
}

func listKeys(ctx context.Context, s Store, prefix string, r Retry) (keys []string, err error) {
	err = r.do(ctx, Retriable, func() error {
		keys = keys[:0]
		for o, err := range s.List(ctx, prefix) {
			if err != nil {
				return err
			}
			keys = append(keys, o.Key)
		}
		return nil
	})
	return keys, err
}
