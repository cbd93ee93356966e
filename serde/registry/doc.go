// Package registry is a client of a schema registry that speaks the REST
// interface of Confluent's (Karapace, Redpanda and Apicurio have it too), and
// the wire format of records whose schema lies there.
//
// serde/avroserde and serde/protoserde build on it; most programs make one
// [Client] and hand it to their serdes:
//
//	reg, err := registry.New("https://registry:8081", registry.WithBasicAuth("me", "secret"))
//	clicks := avroserde.Registry[Click](reg, registry.ValueSubject("clicks"), schema)
//
// # Subjects
//
// A registry keeps versions of a schema under a subject. tidegate's serdes do
// not know the topic that they serve, since one serde may serve several, a
// repartition topic and a store: the subject is an argument of their
// constructor. [KeySubject] and [ValueSubject] name it as Kafka clients do by
// default (TopicNameStrategy), [RecordSubject] and [TopicRecordSubject] as their
// other two strategies. A subject is asked for when the first value is written;
// who only reads needs none.
//
// # Wire format
//
// One byte 0, the schema's id in 4 bytes, big endian, then for Protobuf the path
// of the message within its file (see [AppendIndexes]), then the payload.
//
// # Invariants
//
//  1. What an id stands for never changes, so it is fetched once per Client and
//     kept for good. The id of a schema under a subject likewise. That an id is
//     unknown is remembered for 10 seconds.
//  2. Several goroutines that ask for the same thing wait for one request.
//  3. No call waits longer than its context allows, nor than the client's
//     timeout times its attempts plus the pauses between them.
//  4. Errors that are not the record's fault wrap serde.ErrUnavailable:
//     everything but an id that the registry does not know.
//  5. No error text has a password in it.
package registry
