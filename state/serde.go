package state

// Serde is what the stores need of a serde: the methods of serde.Serde.
type Serde[T any] interface {
	Append(dst []byte, v T) ([]byte, error)
	Decode(b []byte) (T, error)
	Fingerprint() string
}
