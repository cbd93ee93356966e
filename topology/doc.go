// Package topology is the graph that the DSL describes: what reads and writes
// which topic, which steps need a repartition topic, how the graph falls into
// subtopologies, and what identifies its state.
//
// # The idea
//
// A [Builder] collects nodes. A node carries opaque factories that package
// operators understands; this package never looks into them, knows no Go type
// of a key or value and does no I/O. [Builder.Build] checks the graph and
// divides it:
//
//	clicks ─ filter ─ select-key ─▶ [by-user-repartition] ─▶ count ─▶ counts
//	└──── subtopology 0 ────────┘                         └ subtopology 1 ┘
//
// A subtopology is a connected component of the graph after it was cut at
// repartition topics. Nodes are connected by data, by reading another node's
// store, by sharing a store, and by reading the same external topic (R18: a
// topic is read by exactly one subtopology). Components are numbered in the
// order in which their first node was described.
//
// [Topology.Resolve] brings in what only the cluster knows: the partition
// counts of the external topics. It gives the number of tasks of each
// subtopology, the partition count of each repartition topic, the channels
// (R5) and the fingerprint.
//
// # Invariants
//
//  1. Build and Resolve are pure: the same calls give the same result, to the
//     byte of Describe and Fingerprint.
//  2. All errors are collected: Build and Resolve return them joined, each
//     with the user's file and line.
//  3. Stateless steps have no influence on the names of topics and stores, on
//     the fingerprint, or on the numbers of subtopologies (unless a stateless
//     step joins two of them).
//  4. Cycle channels (R9) are the back edges of a depth-first walk over the
//     subtopologies from those with external inputs in number order, edges in
//     the order of reader and topic. They are part of the fingerprint.
//  5. The fingerprint holds the patterns of sources and not the topics that they
//     matched; a Resolved reads the same topics for as long as it lives.
//
// # What it does not do
//
// It creates no topic and runs nothing: that is the work of runtime and
// operators. It knows no application id before Resolve, which prefixes the
// names of internal topics.
package topology
