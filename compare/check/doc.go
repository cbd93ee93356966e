// Package check judges the output of the workloads: each row is right, none is
// lost, none comes twice. What is right follows from the generator of the input
// (package nexmark), so a check holds only what it saw.
//
// Rows near the end of the input may be missing: a window closes only when
// something later arrives, and how much later is a setting of each system.
package check
