package main

import (
	"iter"
	"strconv"
	"strings"
	"unicode"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

// Topology describes the service: it reads lines of text from topic "lines",
// and writes to topic "counts" how often each word came so far.
func Topology() (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()

	b.Stream("lines", serde.String(), serde.String()).
		// A line becomes a record per word. The serde at the end is for the
		// words: they will be written to a topic.
		FlatMapValues(words, serde.String()).
		// To count a word, all its records must meet in one task. GroupBy sends
		// them through the internal topic "wordcount-by-word-repartition".
		GroupBy("by-word", wordAsKey, serde.String()).
		// The counts are kept in the store "word-counts".
		Count("word-counts").
		// The table of counts becomes a stream of its changes: every record in
		// is an updated count out.
		ToStream().
		// Text, so that any consumer can read it.
		MapValues(countAsText, serde.String()).
		To("counts")

	return b.Build()
}

// words are the words of a line, in lower case.
func words(line string) iter.Seq[string] {
	notLetter := func(r rune) bool { return !unicode.IsLetter(r) }
	return strings.FieldsFuncSeq(strings.ToLower(line), notLetter)
}

func wordAsKey(_, word string) string { return word }

func countAsText(n int64) string { return strconv.FormatInt(n, 10) }
