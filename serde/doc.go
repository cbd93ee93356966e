// Package serde turns keys and values into the bytes of Kafka records and
// back.
//
// A [Serde] appends to a buffer that the caller reuses, so that encoding
// allocates nothing where the type allows it. Numbers are in the big-endian
// formats of Kafka's own serializers, so a Java producer or consumer beside
// tidegate sees what it expects.
//
// # Identity of keys
//
// Two keys are the same key when their serialised bytes are equal: partitions,
// stores, caches and joins all compare bytes. A key serde must therefore be
// deterministic: one value, one encoding. [JSON] is for structs with fixed
// fields; a JSON key that holds a Go map is deterministic too, since
// encoding/json sorts map keys.
//
// # Null
//
// Kafka's null is not a value of a plain Go type. It travels beside the value
// as a flag (record.Null), and a plain serde never sees it. Who wants to
// handle tombstones in user code takes [Nullable] and the Go type
// record.Opt[T].
//
// # Fingerprints
//
// Every checkpoint stores the fingerprint of the serdes of each store. A
// restore with another fingerprint is refused, unless the new serde implements
// [Evolver] and accepts the old one. A fingerprint names the format of the
// bytes, not the Go type: two types with one format may share it.
//
// Optional interfaces, found by type assertion: [Evolver], [Cloner], [Aliaser],
// [NullSerde], [PartitionKeyer].
package serde
