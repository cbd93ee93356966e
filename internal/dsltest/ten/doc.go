// Package ten runs many instances of one application in one process, over the
// in-process broker, and measures how long checkpoints take from the Trigger to
// the Complete in the control log, and what of unchanged state they upload.
//
//	go test ./internal/dsltest/ten               few tasks, to see that it works
//	go test ./internal/dsltest/ten -measure -v   ten instances, 200 tasks, 20,000 records a second
//
// The package has nothing but tests.
package ten
