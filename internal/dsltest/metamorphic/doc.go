// Package metamorphic has tests of whole topologies: a seed gives a random
// topology, random input, and random circumstances (partitions, cache, points of
// restart, order of turns), and the results must be those of a plain reference,
// which knows none of the circumstances.
//
// The reference works on whole multisets of records and whole tables with maps
// and nested loops: a step's results are computed from its parents' final
// results. So it says nothing about the order of updates, and only what must not
// depend on an interleaving is compared:
//
//   - M1: of a stream that no order can change, every record with its key,
//     value and timestamp, as often as it comes: sources, steps without state,
//     joins of two such streams, joins with tables that do not change meanwhile,
//     and results of windows that closed.
//   - M2: of a table, the rows that are left when all is read: the last record
//     of each key, without tombstones.
//   - M3: no record is late. Every window and join gets a grace that covers how
//     far its input may lie behind stream time, so that which records are dropped
//     does not depend on the circumstances either; the driver's counter must be 0.
//
// Aggregates are sums of mixed values: they depend on no order, can be taken
// back, and a record too many or too few shows.
//
// TestDriver does this in one goroutine, without a broker; TestBroker with two
// instances on the in-process broker; TestFleet with instances that come, go and
// are cut off from the brokers, in both modes and with both guarantees.
//
// A seed that fails prints itself, the steps of its topology and the differences;
// -seed=N replays it. -seeds=N runs more of them. Package metamorphic has nothing
// but tests.
package metamorphic
