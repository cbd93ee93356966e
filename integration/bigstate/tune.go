package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// knob is a setting of Pebble that the engine fixes, to be tried here.
type knob struct {
	name, about string
	set         func(*pebble.Options, int64)
}

var knobs = []knob{
	{"l0", "sublevels in L0 from which they are compacted", func(o *pebble.Options, n int64) { o.L0CompactionThreshold = int(n) }},
	{"l0files", "files in L0 from which they are compacted", func(o *pebble.Options, n int64) { o.L0CompactionFileThreshold = int(n) }},
	{"base", "bytes of the base level", func(o *pebble.Options, n int64) { o.LBaseMaxBytes = n }},
	{"multiplier", "how much larger each level is than the one above", func(o *pebble.Options, n int64) { o.Experimental.LevelMultiplier = int(n) }},
	{"table", "bytes of a table in L0 and the base level; doubled per level, at most 16 times", func(o *pebble.Options, n int64) {
		for i := range o.TargetFileSizes {
			o.TargetFileSizes[i] = n << min(i, 4)
		}
	}},
	{"flat", "bytes of a table in every level", func(o *pebble.Options, n int64) {
		for i := range o.TargetFileSizes {
			o.TargetFileSizes[i] = n
		}
	}},
	{"split", "bytes at which a flush is split", func(o *pebble.Options, n int64) { o.FlushSplitBytes = n }},
	{"block", "bytes of a block", func(o *pebble.Options, n int64) {
		for i := range o.Levels {
			o.Levels[i].BlockSize = int(n)
		}
	}},
	{"compactions", "compactions of one engine at a time", func(o *pebble.Options, n int64) {
		o.CompactionConcurrencyRange = func() (int, int) { return 1, int(n) }
	}},
}

var units = []struct {
	suffix string
	size   int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// parseTune turns "name=number,…" into a function on Pebble's options.
func parseTune(list string) (func(*pebble.Options), error) {
	var sets []func(*pebble.Options)
	for _, item := range strings.Split(list, ",") {
		if item == "" {
			continue
		}
		name, value, ok := strings.Cut(item, "=")
		k := knobNamed(name)
		if !ok || k == nil {
			return nil, fmt.Errorf("-tune %q: want name=number with a name that -help-tune lists", item)
		}
		unit := int64(1)
		for _, u := range units {
			if v, found := strings.CutSuffix(value, u.suffix); found {
				value, unit = v, u.size
			}
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-tune %q: want a number of at least 1, with KiB, MiB or GiB behind it where it is bytes", item)
		}
		sets = append(sets, func(o *pebble.Options) { k.set(o, n*unit) })
	}
	return func(o *pebble.Options) {
		for _, set := range sets {
			set(o)
		}
	}, nil
}

func knobNamed(name string) *knob {
	for i := range knobs {
		if knobs[i].name == name {
			return &knobs[i]
		}
	}
	return nil
}
