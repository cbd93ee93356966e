package registry

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tidegate/tidegate/serde"
)

// KeySubject is "topic-key", the subject of the keys of a topic by default.
func KeySubject(topic string) string { return topic + "-key" }

// ValueSubject is "topic-value", the subject of the values of a topic by
// default.
func ValueSubject(topic string) string { return topic + "-value" }

// RecordSubject is the full name of the record or message: one subject for all
// topics (RecordNameStrategy).
func RecordSubject(fullName string) string { return fullName }

// TopicRecordSubject is "topic-fullName" (TopicRecordNameStrategy).
func TopicRecordSubject(topic, fullName string) string { return topic + "-" + fullName }

// WriteOption says where a Writer gets its id from.
type WriteOption func(*Writer)

// LookupOnly lets a serde write only with a schema that somebody registered
// before (auto.register.schemas=false). By default it registers its own.
func LookupOnly() WriteOption { return func(w *Writer) { w.lookup = true } }

// Writer provides the header of the records of one schema under one subject. It
// is safe for concurrent use.
type Writer struct {
	client  *Client
	subject string
	schema  func(context.Context, *Client) (Schema, error)
	lookup  bool
	id      atomic.Int64 // 0: not known yet
}

// Writer returns a writer of a schema that is known beforehand.
func (c *Client) Writer(subject string, s Schema, opts ...WriteOption) *Writer {
	return c.WriterFunc(subject, func(context.Context, *Client, bool) (Schema, error) { return s, nil }, opts...)
}

// WriterFunc is Writer for a schema that is made when it is first needed, for
// example since what it refers to must be registered before.
func (c *Client) WriterFunc(
	subject string, schema func(ctx context.Context, c *Client, lookupOnly bool) (Schema, error), opts ...WriteOption,
) *Writer {
	w := &Writer{client: c, subject: subject}
	for _, o := range opts {
		o(w)
	}
	w.schema = func(ctx context.Context, c *Client) (Schema, error) { return schema(ctx, c, w.lookup) }
	return w
}

// ID returns the schema's id. The first call asks the registry. Without an id
// nothing at all can be written, so every error wraps serde.ErrUnavailable.
func (w *Writer) ID(ctx context.Context) (int, error) {
	if id := w.id.Load(); id != 0 {
		return int(id), nil
	}
	id, err := w.ask(ctx)
	if err != nil {
		if !errors.Is(err, serde.ErrUnavailable) {
			err = unavailable(err)
		}
		return 0, err
	}
	w.id.Store(int64(id))
	return id, nil
}

func (w *Writer) ask(ctx context.Context) (int, error) {
	if w.client == nil {
		return 0, errors.New("the schema registry's client is nil: make one with registry.New")
	}
	s, err := w.schema(ctx, w.client)
	if err != nil {
		return 0, err
	}
	if !w.lookup {
		return w.client.Register(ctx, w.subject, s)
	}
	id, err := w.client.Lookup(ctx, w.subject, s)
	var e *Error
	if errors.As(err, &e) && e.Status == 404 {
		err = fmt.Errorf("%w: with LookupOnly the schema must be registered before", err)
	}
	return id, err
}

// AppendHeader appends the header of a record.
func (w *Writer) AppendHeader(dst []byte) ([]byte, error) {
	id, err := w.ID(context.Background())
	if err != nil {
		return dst, err
	}
	return AppendHeader(dst, id), nil
}

// Known returns the id as far as it is known, else 0.
func (w *Writer) Known() int { return int(w.id.Load()) }
