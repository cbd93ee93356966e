package main

import (
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

// Visit is what a user did without a longer pause; it is the record of topic
// "visits".
type Visit struct {
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	Pages []string  `json:"pages"`
}

// Topology describes the service: it reads page views from topic "views", keyed
// by user, and writes a record to topic "visits" when a visit is over.
func Topology() (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()

	b.Stream("views", serde.String(), serde.String()).
		// The views are keyed by user already, so no topic is needed in between.
		// The step has a name in case that changes.
		GroupByKey("by-user").
		// A visit goes on while no pause is longer than half an hour. Views
		// that arrive up to a minute late are still taken.
		SessionWindowedBy(tidegate.Session(30*time.Minute).Grace(time.Minute), tidegate.ByWindow).
		// One record per visit, when it is over. Without this line there would
		// be one for every view.
		EmitOnClose().
		Aggregate("visits", newVisit, addView, mergeVisits, serde.JSON[Visit]()).
		ToStream().
		// The key is the user with the window of the visit: put the window into
		// the value, and the user alone into the key.
		Map(visitOfUser, tidegate.With(serde.String(), serde.JSON[Visit]())).
		To("visits")

	return b.Build()
}

// newVisit is the visit before its first view.
func newVisit() Visit { return Visit{} }

// addView adds a view to a visit.
func addView(_ string, page string, v Visit) Visit {
	v.Pages = append(v.Pages, page)
	return v
}

// mergeVisits makes one visit of two. It is called when a late view lies between
// two visits and closes the pause between them; the first is the earlier one.
func mergeVisits(_ string, first, second Visit) Visit {
	first.Pages = append(first.Pages, second.Pages...)
	return first
}

func visitOfUser(k tidegate.Windowed[string], v Visit) (string, Visit) {
	v.Begin, v.End = k.StartTime().UTC(), k.EndTime().UTC()
	return k.Key, v
}
