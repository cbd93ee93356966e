// Package upgrade tests what goes on from a checkpoint of an earlier life
// (StartFrom): the same topology after its control log was lost, and changed ones,
// over the in-process broker.
package upgrade
