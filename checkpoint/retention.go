package checkpoint

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// Held is a checkpoint and every object that it needs: manifest, marker, parts
// and state files, its own and those it references.
type Held struct {
	Checkpoint ids.CheckpointID
	Keys       []string
}

// CleanInput is what PlanClean judges. All but the listings comes from the fold
// of the control log up to ReadTo. When the listings are made does not matter:
// what a Trigger not read yet wrote is not decided, and what it references its
// base holds, which is retained or undecided at ReadTo.
type CleanInput struct {
	Names Names
	// ReadTo is the offset up to which the log was read: checkpoints at or
	// above it are not known, and their objects stay.
	ReadTo ids.CheckpointID
	// Undecided checkpoints below ReadTo.
	Undecided []ids.CheckpointID
	// Retained are all completed checkpoints without a valid Retire.
	Retained []Held
	// Bases are the bases of undecided checkpoints, also retired ones.
	Bases []Held
	// Savepoints hold their own copies, but until they are copied they may
	// hold a checkpoint's objects.
	Savepoints []Held
	// Listing are the keys found in the store, in any order.
	Listing []string
	// Incomplete are unfinished uploads, in any order.
	Incomplete []Upload
}

// CleanPlan is what may go. Deleting in the order of the fields never leaves a
// marker whose manifest, or a manifest whose objects, are gone.
type CleanPlan struct {
	Markers   []string
	Manifests []string
	Objects   []string
	Uploads   []Upload
	// Kept counts objects of this life that stay; Unknown lists keys of this
	// life that no function of Names builds: they stay, too.
	Kept    int
	Unknown []string
}

// PlanClean decides by R30 what may be deleted: an object written for
// checkpoint m once m is decided and no retained manifest, no savepoint and no
// base of an undecided checkpoint holds it. It is pure; its result depends on
// no order of its input. Objects of other lives and applications are ignored.
//
// Deleting may happen at any later time, by anyone: a decided checkpoint stays
// decided, and nothing that is not held can become held again, because a
// checkpoint references only what its base holds or what was written for it.
func PlanClean(in CleanInput) CleanPlan {
	held := map[string]bool{}
	for _, list := range [][]Held{in.Retained, in.Bases, in.Savepoints} {
		for _, h := range list {
			for _, k := range h.Keys {
				held[k] = true
			}
		}
	}
	decided := func(n ids.CheckpointID) bool { return n < in.ReadTo && !slices.Contains(in.Undecided, n) }

	var p CleanPlan
	for _, key := range in.Listing {
		if !in.Names.Owns(key) {
			continue
		}
		name, err := ParseName(key)
		if err != nil {
			p.Unknown = append(p.Unknown, key)
			continue
		}
		if name.Kind != NameShare && (held[key] || !decided(name.Checkpoint)) {
			p.Kept++
			continue
		}
		p.add(name.Kind, key)
	}
	for _, u := range in.Incomplete {
		name, err := ParseName(u.Key)
		if err == nil && in.Names.Owns(u.Key) && name.Kind != NameShare && decided(name.Checkpoint) {
			p.Uploads = append(p.Uploads, u)
		}
	}
	p.sort()
	return p
}

func (p *CleanPlan) add(kind NameKind, key string) {
	switch kind {
	case NameMarker:
		p.Markers = append(p.Markers, key)
	case NameManifest:
		p.Manifests = append(p.Manifests, key)
	default:
		p.Objects = append(p.Objects, key)
	}
}

func (p *CleanPlan) sort() {
	for _, list := range []*[]string{&p.Markers, &p.Manifests, &p.Objects, &p.Unknown} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.SortFunc(p.Uploads, compareUploads)
}

// Retirable returns which completed checkpoints may be retired so that the
// newest keep stay (keep below 1 counts as 1): never the last completed one,
// and none in pinned. Retiring them is the control log's business and comes
// before any deletion (R30).
func Retirable(completed []ids.CheckpointID, keep int, pinned []ids.CheckpointID) []ids.CheckpointID {
	sorted := slices.Clone(completed)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	sorted = sorted[:max(0, len(sorted)-max(keep, 1))]
	return slices.DeleteFunc(sorted, func(n ids.CheckpointID) bool { return slices.Contains(pinned, n) })
}
