// Package protoserde has serdes for Protocol Buffers messages: bare ([Of]) and
// with a schema registry in Confluent's wire format ([Registry]).
//
//	orders := protoserde.Of[*pb.Order]()
//	clicks := protoserde.Registry[*pb.Click](reg, registry.ValueSubject("clicks"))
//
// T is a pointer to a generated message. A message known only at run time has
// [Dynamic] and [DynamicRegistry].
//
// # Schema evolution
//
// A Protobuf message can be read by any version of its type as long as field
// numbers keep their meaning, so the fingerprint is the message's full name and a
// restore refuses nothing but another message. Unknown fields are kept: they are
// written again.
//
// # Keys
//
// Messages are written deterministically: map entries in the order of their
// keys. Protobuf promises that for one version of the library only, and an
// unknown field changes the bytes. Prefer a serde of package serde for keys.
//
// # Null
//
// A nil message is not written: null in a topic is Kafka's null. Use
// serde.Nullable to see or send it.
package protoserde
