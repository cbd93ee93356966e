package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Kind says how a caller must react to a store's error.
type Kind uint8

const (
	// KindUnavailable: the store could not be reached or asked to slow down.
	// The operation may or may not have happened; repeat it.
	KindUnavailable Kind = iota + 1
	// KindNotFound: no object has that key.
	KindNotFound
	// KindExists: a put-if-absent found an object under its key. After a
	// repeated attempt that object may be our own: read and compare (R17).
	KindExists
	// KindDenied: the credentials are missing, wrong, or lack a right.
	KindDenied
	// KindCorrupted: an object's bytes are not those that were written.
	KindCorrupted
	// KindInvalid: the configuration or the request is wrong, for instance a
	// missing bucket. Repeating does not help.
	KindInvalid
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindUnavailable:
		return "unavailable"
	case KindNotFound:
		return "not found"
	case KindExists:
		return "already exists"
	case KindDenied:
		return "access denied"
	case KindCorrupted:
		return "corrupted"
	case KindInvalid:
		return "invalid"
	}
	return "unknown"
}

// Sentinels for errors.Is; an *Error matches the one of its kind.
var (
	ErrUnavailable = errors.New("store unavailable")
	ErrNotFound    = errors.New("object not found")
	ErrExists      = errors.New("object already exists")
	ErrDenied      = errors.New("access denied")
	ErrCorrupted   = errors.New("object corrupted")
	ErrInvalid     = errors.New("store configuration or request invalid")
)

// Error is what every operation of this package returns when a store, or an
// object in it, is at fault. A context's own error is returned as it is, so
// that a cancelled upload is not mistaken for an outage.
type Error struct {
	Kind Kind
	// Op is what was attempted: "put", "get", "list", "check", "decode".
	Op string
	// Store is the store's String().
	Store string
	// Key names the object; "" when the operation has none.
	Key string
	// Hint says what to do about it; "" when the kind says it all.
	Hint string
	// Err is the cause; may be nil.
	Err error
}

// Error returns "checkpoint store S: put K: kind: cause; hint".
func (e *Error) Error() string {
	var b strings.Builder
	if e.Store != "" {
		fmt.Fprintf(&b, "checkpoint store %s: ", e.Store)
	}
	b.WriteString(e.Op)
	if e.Key != "" {
		fmt.Fprintf(&b, " %s", e.Key)
	}
	fmt.Fprintf(&b, ": %s", e.Kind)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "; %s", e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrNotFound) and its like work.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnavailable:
		return e.Kind == KindUnavailable
	case ErrNotFound:
		return e.Kind == KindNotFound
	case ErrExists:
		return e.Kind == KindExists
	case ErrDenied:
		return e.Kind == KindDenied
	case ErrCorrupted:
		return e.Kind == KindCorrupted
	case ErrInvalid:
		return e.Kind == KindInvalid
	}
	return false
}

// Retriable reports whether the same call may succeed later without anybody
// changing anything.
func Retriable(err error) bool { return errors.Is(err, ErrUnavailable) }

// contextError reports whether err is only the caller's own context ending.
func contextError(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

// corrupted builds the error for an object whose bytes are wrong. It names the
// object and the way out, because the reader of this message is an operator
// whose application does not start.
func corrupted(store, op, key string, err error) *Error {
	return &Error{
		Kind: KindCorrupted, Op: op, Store: store, Key: key, Err: err,
		Hint: "the object was damaged after it was written: put back an intact copy of it, or fall back to an older checkpoint with RestoreFrom(n, AllowDuplicates)",
	}
}
