package dir

import (
	"cmp"
	"io/fs"
	"slices"
)

// sortAsKeys orders a folder's entries so that a walk yields keys in order: a
// folder sorts as its name with a slash, since that is how its keys go on.
func sortAsKeys(entries []fs.DirEntry) {
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(asKey(a), asKey(b)) })
}

func asKey(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}
