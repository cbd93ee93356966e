// Package avroserde has serdes for Apache Avro: with a schema registry in
// Confluent's wire format ([Registry]), with the schema's fingerprint before
// each value ([SingleObject]), and bare ([Of]).
//
// # Which one
//
//	Registry      topics shared with others. The schema's id is in each record,
//	              so anything that resolves to the reader's schema is read.
//	SingleObject  state and topics of one's own, without a registry: 10 bytes
//	              before each value say which schema wrote it.
//	Of            the bare value. It can be read with its own schema only, so a
//	              changed schema is refused at a restore.
//
// # Go types
//
// T is a struct whose fields carry `avro:"name"` tags, a basic type for a basic
// schema, or map[string]any for a record whose schema is not known beforehand.
// Logical types become time.Time, time.Duration, *big.Rat and so on; see
// github.com/twmb/avro, which does the work.
//
// # Schema evolution
//
// The writer's schema is the one that a record was written with, the reader's is
// the one given to the serde. Fields are matched by name or alias, missing ones
// get the reader's default, superfluous ones are skipped, numbers are widened.
// What does not resolve is an error of the record that names the field.
//
// # Keys
//
// Keys are compared as bytes. An Avro map has no order, so a schema with a map
// in it does not suit a key. With a registry the schema's id is part of the key's
// bytes: a changed key schema makes other keys (as with Kafka Streams). Prefer
// Of, or a serde of package serde, for keys.
//
// # Mistakes
//
// A serde of this package is made from a schema's text; when the text is wrong
// the serde's Append and Decode return the error. [Parse] finds it early.
package avroserde
