// Package servers finds or starts the real servers that integration tests, the crash
// run and the benchmark work with: a Kafka broker and an S3 server.
//
// # Where they come from
//
// Kafka, first that is there: a running broker named by TIDEGATE_KAFKA_BROKERS; a
// container of apache/kafka in a Docker engine; Java with the broker's jars from Maven.
// TIDEGATE_KAFKA=docker or =java takes that way only. S3: a running server named by
// TIDEGATE_S3_ENDPOINT, else versitygw on a temporary folder, built once from
// tools/go.mod into ./bin.
//
// # Invariants
//
//  1. Nothing but loopback is dialled. An address of the environment is checked before
//     the first connection, and clients made here use [LoopbackDialer], so that an
//     address a broker advertises is checked too.
//  2. A server that is stopped and started again, or killed, keeps its port and data.
//     Ports come from below the range that outgoing connections use, so that none of
//     them can take the port in between.
//  3. A server started here does not outlive this process, however it ends: [CloseAll]
//     on the ordinary way out, the kernel's parent-death signal or a watchdog (a shell
//     that waits for the end of a pipe) when the process is killed or panics.
//     Temporary folders of dead processes are removed at the next start.
//  4. A running server of the environment is never stopped: Stop, Kill and Pause answer
//     [ErrNotOurs].
//
// # Goroutines
//
// One per process, which waits for its end; one for the whole package, locked to its
// thread, that starts processes (see starter).
//
// # Faults
//
// [KafkaCluster] is three brokers of which any may be stopped. [Network] is the way
// of one client to its servers: cut, stalled or slow. [StoreProxy] is a bad object
// store in front of a good one.
//
// The package does not create users or TLS.
package servers
