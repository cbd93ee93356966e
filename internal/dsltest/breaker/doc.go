// Package breaker has tests that try to break the topology language: random
// input through many topologies, with restarts, caches of any size, and records
// that fail and are skipped, compared with a run without them. It has nothing but
// tests.
package breaker
