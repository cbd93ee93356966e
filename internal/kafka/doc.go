// Package kafka is all Kafka I/O of tidegate, built on sarama's broker-level
// requests: connections, record-batch fetcher and writer, transaction
// requests, administration, the control log's reader and writer, and group
// membership. Nothing outside it (but one file of options in the root package)
// imports sarama.
//
// # The idea
//
// A Client owns the metadata cache and makes one connection pool per role
// (fetching per isolation level, producing, transactions, group, control log),
// because a sarama Broker holds its lock until a response arrives: an idle
// fetch would delay a produce request or a heartbeat by its whole wait.
//
// Records move in batches, never one by one through channels. A Fetcher runs
// one loop per partition leader and isolation level; each answer becomes one
// Batch per partition, handed to the subscription's Sink. A Batch says how far
// the position moved, also past Kafka's own markers and past aborted records,
// and what the end of the partition was, so that a reader can know that it has
// read to an end even when the last thing in the log is invisible. What is
// handed out and not yet returned is bounded per partition (Batch.Credit).
//
// A Writer takes whole record batches. Sequence numbers are kept per producer
// id and partition; batches go out in the order in which they were enqueued
// and are repeated, as they are, until Kafka gave a definite answer. What waits
// behind others is merged into larger batches before it is first sent.
//
//	         Enqueue                     all earlier acked, window open
//	Builder ─────────► queued ─────────────────────────────► in flight
//	   ▲                 ▲                                       │
//	   │ recycled        └──── retriable error or in doubt ──────┤
//	   └──────────────────────────── acknowledged ◄──────────────┤
//	                   producer failed ◄──── definite error ◄────┘
//
// # Invariants
//
//	K1  Batches of one (producer id, partition) are appended in the order of
//	    Enqueue, each once. One that was sent never changes.
//	K2  Until the first batch of a producer id in a partition is acknowledged,
//	    and after an error there, one batch is in flight at a time (R8).
//	K3  A batch with a Token is sent only after everything that the token
//	    covers was acknowledged (R18).
//	K4  A transactional batch is sent only after its partition was added to the
//	    transaction.
//	K5  A Batch of a Generation older than the subscription's is never
//	    delivered by a fetch that was started after SeekTo returned; older ones
//	    may still arrive and carry their own Generation.
//	K6  NextOffset of a Batch is FirstOffset of the next one of that Generation.
//	K7  An error whose outcome is unknown satisfies InDoubt; any other error is
//	    a definite answer.
//
// # Goroutines
//
// Fetcher: one per (leader, isolation), and one that finds leaders. Writer: one
// per leader, one that finds leaders, one per transaction that adds partitions.
// Group: one. LogReader: those of its Fetcher. All end in Close, which cuts the
// connections and so does not wait for time-outs. Sinks and callbacks run on
// these goroutines and must not block.
//
// # What it does not do
//
// It decides nothing about checkpoints, ownership or assignment, knows nothing
// of headers, and does not partition records.
package kafka
