// Package measure holds what a measurement of a stream processor needs beside
// the processor: a fast writer of input records, a small read_committed reader
// of its output, the check of running counts, the rate of output that comes in
// bursts, and what a process took of memory and processor.
//
// The reader and the writer share no code with what is measured. A [Reader]
// belongs to one goroutine; a [Counter] may be asked while it runs.
package measure
