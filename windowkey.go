package tidegate

import (
	"time"

	"github.com/tidegate/tidegate/serde"
)

// WindowKey makes the key type of a windowed table from a key and a window.
// ByWindow is the usual one; a user's own type needs its own WindowKey.
type WindowKey[K, WK any] struct {
	// Make and Split are each other's inverse.
	Make  func(K, Window) WK
	Split func(WK) (K, Window)
	// Serde writes the key where it reaches a topic.
	Serde serde.Serde[WK]
}

// WindowFormat says what must be written of a key's window.
type WindowFormat struct {
	size  time.Duration
	fixed bool
}

// Size is the size of all windows, of sliding windows the difference: then the
// start is enough. Else, for sessions, calendar windows and unlimited ones, it
// is false: the end must be written, too.
func (f WindowFormat) Size() (size time.Duration, fixed bool) { return f.size, f.fixed }

// ByWindow keys windowed results by Windowed[K]. It is passed to WindowedBy and
// SessionWindowedBy as it is. Topics get Kafka Streams' formats: key and start
// for windows of one size (serde.Windowed with that size), else key, end and
// start, as for sessions (serde.WindowedSpan).
func ByWindow[K any](ks serde.Serde[K], f WindowFormat) WindowKey[K, Windowed[K]] {
	key := WindowKey[K, Windowed[K]]{
		Make:  func(k K, w Window) Windowed[K] { return Windowed[K]{Key: k, Window: w} },
		Split: func(w Windowed[K]) (K, Window) { return w.Key, w.Window },
		Serde: serde.WindowedSpan(ks),
	}
	if size, fixed := f.Size(); fixed {
		key.Serde = serde.Windowed(ks, size)
	}
	return key
}
