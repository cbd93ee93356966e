package runtime

import (
	"context"
	"log/slog"
)

// atLeast hides records below a level: Pebble tells of every flush.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}

func (h atLeast) WithAttrs(a []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(a), h.level}
}

func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}

// quieter returns the logger without what is below a level.
func quieter(l *slog.Logger, level slog.Level) *slog.Logger {
	return slog.New(atLeast{l.Handler(), level})
}
