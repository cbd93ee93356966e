package checkpoint

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
)

// probePrefix holds the objects of Probe. They are a few bytes and removed at
// once; one may stay behind when a process dies in the middle.
const probePrefix = "tidegate-probe/"

// Probe is the part of Check that is the same for all stores: with an object
// of a random name it tries everything that the protocol needs, and says what
// is missing. The store's Check calls it after its own checks.
func Probe(ctx context.Context, s Store) (err error) {
	key := probePrefix + rand.Text()
	first, second := []byte("tidegate probe, first"), []byte("tidegate probe, second")
	if err := s.PutIfAbsent(ctx, key, first); err != nil {
		return probeError(s, key, "write an object", err)
	}
	defer func() {
		if derr := s.Delete(ctx, []string{key}); err == nil && derr != nil {
			err = probeError(s, key, "delete an object", derr)
		}
	}()
	switch err := s.PutIfAbsent(ctx, key, second); {
	case err == nil:
		return &Error{
			Kind: KindInvalid, Op: "check", Store: s.String(), Key: key,
			Err:  errors.New("the store ignores put-if-absent (If-None-Match: *): a second put of one name succeeded"),
			Hint: "two coordinators could both complete a checkpoint; use a server or a file system that honours it (Amazon S3, MinIO, versitygw and Ceph of 2024 or later do)",
		}
	case !errors.Is(err, ErrExists):
		return probeError(s, key, "repeat a put-if-absent", err)
	}
	b, err := Get(ctx, s, key)
	if err != nil {
		return probeError(s, key, "read an object", err)
	}
	if !bytes.Equal(b, first) {
		return &Error{
			Kind: KindInvalid, Op: "check", Store: s.String(), Key: key,
			Err:  errors.New("a refused put-if-absent changed the object, or a read returns other bytes than were written"),
			Hint: "this store cannot hold checkpoints",
		}
	}
	return probeListing(ctx, s, key)
}

func probeListing(ctx context.Context, s Store, key string) error {
	for o, err := range s.List(ctx, key) {
		if err != nil {
			return probeError(s, key, "list objects", err)
		}
		if o.Key == key {
			return nil
		}
	}
	return &Error{
		Kind: KindInvalid, Op: "check", Store: s.String(), Key: key,
		Err:  errors.New("an object that was just written is not in the listing"),
		Hint: "this store is not strongly consistent and cannot hold checkpoints",
	}
}

func probeError(s Store, key, what string, err error) error {
	if e := (*Error)(nil); errors.As(err, &e) && e.Hint != "" {
		return err
	}
	hint := "checkpoint storage needs the rights to read, write, list and delete"
	if errors.Is(err, ErrUnavailable) {
		hint = "is it running, and is the address right?"
	}
	kind := KindInvalid
	if e := (*Error)(nil); errors.As(err, &e) {
		kind = e.Kind
	}
	return &Error{Kind: kind, Op: "check", Store: s.String(), Key: key, Err: fmt.Errorf("%s: %w", what, err), Hint: hint}
}
