package storetest

import (
	"testing"

	"github.com/tidegate/tidegate/checkpoint"
)

func TestMemory(t *testing.T) {
	Run(t, func(*testing.T) checkpoint.Store { return NewMemory() }, Options{})
}

func TestFaultyIsTransparent(t *testing.T) {
	Run(t, func(*testing.T) checkpoint.Store { return NewFaulty(NewMemory(), 1, Faults{}) }, Options{})
}
