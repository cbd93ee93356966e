// Package guide holds docs/guide to the code: the tables of windows.md and
// joins.md are run row by row, and the Go side of the migration guide's example
// is the code of this package.
package guide
