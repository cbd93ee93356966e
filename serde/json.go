package serde

import (
	"encoding/json"
	"fmt"
)

// JSON is encoding/json. Its fingerprint is "json" whatever T is: adding,
// removing or renaming fields is a matter between the user's types, as with
// any JSON, and is not refused at a restore.
func JSON[T any]() Serde[T] { return jsonSerde[T]{} }

type jsonSerde[T any] struct{}

func (jsonSerde[T]) Append(dst []byte, v T) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return dst, fmt.Errorf("encode %T as json: %w", v, err)
	}
	return append(dst, b...), nil
}

func (jsonSerde[T]) Decode(b []byte) (T, error) {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		var zero T
		return zero, fmt.Errorf("decode json into %T: %w (%s)", v, err, excerpt(b))
	}
	return v, nil
}

func (jsonSerde[T]) Fingerprint() string { return "json" }
