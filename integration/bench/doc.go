// Command bench measures the headline rate: the count workload on a real
// broker, as a share of the floor.
//
// Input records have a random 8-byte key and a 100-byte value. They are
// re-keyed modulo 100,000, counted per key, and every update is written to the
// output topic. The contestants take turns on the same broker, topics, bytes
// and partitions:
//
//   - floor: the program in ./floor, which only moves the bytes;
//   - tidegate: a child process of this program that runs the topology through
//     the public API, in barrier mode with Pebble and a checkpoint store, or
//     with -mode changelog in changelog mode.
//
// The output is read by this process with isolation read_committed while it is
// written, through a small reader (package measure), so that the measurement costs
// little and does not share a client with what is measured. It checks that the
// running counts of each key are exactly 1, 2, 3, …: a lost or doubled output
// record fails the run. A record lost before it is counted shows only in a
// round that counts the whole input (few -records): then the total stays short
// and the round fails with the end offsets of all topics.
//
// The rate of a round is the slope of the number of output records over time,
// the first seconds dropped. A line per round is printed, then the medians:
//
//	floor N records/s
//	tidegate N records/s
//	rss max N MB
//	ratio to floor 0.NN
//
// Servers come from the package servers. With a floor below 0.8 M records/s
// the machine was busy with something else, and the run is void.
package main
