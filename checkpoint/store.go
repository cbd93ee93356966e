package checkpoint

import (
	"bytes"
	"context"
	"io"
	"iter"
)

// Source is what a Put stores: Size bytes, readable any number of times and
// from several goroutines, so that a store can repeat and parallelise.
type Source struct {
	Reader io.ReaderAt
	Size   int64
}

// BytesSource is a Source over b, which must not change during the Put.
func BytesSource(b []byte) Source {
	return Source{Reader: bytes.NewReader(b), Size: int64(len(b))}
}

// Object is one entry of a listing.
type Object struct {
	Key  string
	Size int64
}

// Store is a flat space of named immutable byte objects shared by all
// instances: a directory (checkpoint/dir) or a bucket (checkpoint/s3). It is
// the counterpart of Flink's checkpoint FileSystem.
//
// A key is one or more segments joined by "/"; a segment is not empty, does
// not begin with a dot, is at most 200 bytes, and consists of
// [A-Za-z0-9._%=-] (ValidKey checks it).
//
// All methods may be called from any goroutine. Their errors are *Error, or the
// context's own error when it ended first. They retry little or not at all;
// the functions of this package that use a Store retry what is Unavailable.
//
// What the protocol needs of a store:
//  1. A Put or PutIfAbsent that returned nil is durable and at once visible to
//     Open and List of every instance.
//  2. An object appears whole or not at all.
//  3. Of several PutIfAbsent of one key at most one ever succeeds.
//  4. A call that failed as Unavailable, or whose context ended, may still take
//     effect later.
type Store interface {
	// Put stores an object. No name is ever put twice with different bytes
	// (R15), so whether it replaces does not matter.
	Put(ctx context.Context, key string, src Source) error
	// PutIfAbsent stores a small object unless the key exists: ErrExists.
	PutIfAbsent(ctx context.Context, key string, data []byte) error
	// Open reads length bytes from offset on; a length below zero reads to the
	// end. Fewer bytes than asked for are ErrCorrupted or io.ErrUnexpectedEOF
	// from Read. The caller closes the reader.
	Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	// List yields the objects whose key begins with prefix, in key order. After
	// an error it ends.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
	// Delete removes objects; a key that does not exist is no error.
	Delete(ctx context.Context, keys []string) error
	// Check finds at start what would otherwise fail at the first checkpoint:
	// a missing bucket or directory, denied access, a server that ignores
	// put-if-absent. Each is an error that says what to do.
	Check(ctx context.Context) error
	// String names the store in messages, without secrets.
	String() string
}

// Incomplete is implemented by stores in which an upload that was cut off
// leaves something that List does not show: S3's unfinished multipart uploads,
// a directory's temporary files. Cleaning ends those of decided checkpoints.
type Incomplete interface {
	// ListIncomplete yields unfinished uploads of keys with that prefix.
	ListIncomplete(ctx context.Context, prefix string) iter.Seq2[Upload, error]
	// AbortIncomplete discards one; one that is gone is no error.
	AbortIncomplete(ctx context.Context, u Upload) error
}

// Upload names one unfinished upload of a key.
type Upload struct {
	Key string
	ID  string
}

// maxSegment is the longest segment of a key: a file name may have 255 bytes
// on common file systems, and temporary names need some of them.
const maxSegment = 200

// maxKey is the longest key; S3 allows 1024 bytes including a prefix.
const maxKey = 800

// ValidKey reports why key is not acceptable to a Store, or nil. Stores call
// it first, so that no key can leave their folder or prefix.
func ValidKey(key string) error {
	if len(key) > maxKey {
		return keyError(key[:64]+"...", "it is longer than 800 bytes")
	}
	start := 0
	for i := 0; i <= len(key); i++ {
		if i < len(key) && key[i] != '/' {
			if !plainByte(key[i]) && key[i] != '%' && key[i] != '=' {
				return keyError(key, "it has a character outside [A-Za-z0-9._%=-]")
			}
			continue
		}
		switch seg := key[start:i]; {
		case seg == "":
			return keyError(key, "a segment is empty")
		case seg[0] == '.':
			return keyError(key, "a segment begins with a dot")
		case len(seg) > maxSegment:
			return keyError(key, "a segment is longer than 200 bytes")
		}
		start = i + 1
	}
	return nil
}

// ValidPrefix is ValidKey for List: empty, or a key's beginning that may end
// in "/" or within a segment.
func ValidPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if prefix[len(prefix)-1] == '/' {
		return ValidKey(prefix[:len(prefix)-1])
	}
	return ValidKey(prefix)
}

func keyError(key, why string) error {
	return &Error{Kind: KindInvalid, Op: "use key", Key: key, Hint: why}
}

func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}
