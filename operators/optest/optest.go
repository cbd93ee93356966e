// Package optest is the former name of internal/harness.
package optest

import "github.com/tidegate/tidegate/internal/harness"

// The names of internal/harness.
type (
	Driver  = harness.Driver
	Record  = harness.Record
	Failure = harness.Failure
)

// New is harness.New.
var New = harness.New
