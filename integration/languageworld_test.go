package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/testkit"
)

// langRecords is how many records each input topic gets.
const langRecords = 400

type langRecord struct {
	k, v string
	ts   int64
}

// langWorld is the input of the language's test and its plain evaluation.
type langWorld struct {
	left, right, orders, customers []langRecord // a value "" is null
}

func newLangWorld() *langWorld {
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's seed
	w := &langWorld{}
	for i := range langRecords {
		at := func() int64 { return langStart + int64(i)*10 + int64(rnd.IntN(25)) }
		w.left = append(w.left, langRecord{fmt.Sprint("k", i), strconv.Itoa(i), at()})
		w.right = append(w.right, langRecord{fmt.Sprint("k", i), strconv.Itoa(i + rnd.IntN(3)), at()})
		order := langRecord{fmt.Sprint("o", rnd.IntN(40)), fmt.Sprintf("c%d|%d", rnd.IntN(8), i), at()}
		customer := langRecord{fmt.Sprint("c", rnd.IntN(8)), fmt.Sprint("name", i), at()}
		switch rnd.IntN(6) {
		case 0:
			order.v = ""
		case 1:
			order.v = "nobody"
		case 2:
			customer.v = ""
		}
		w.orders, w.customers = append(w.orders, order), append(w.customers, customer)
	}
	return w
}

// produce writes the records from one number to another.
func (w *langWorld) produce(l *lab, from, to int) {
	l.Helper()
	for topic, all := range map[string][]langRecord{"in": w.left, "right": w.right, "orders": w.orders, "customers": w.customers} {
		var list []testkit.Message
		for _, r := range all[from:to] {
			m := testkit.Message{Key: []byte(r.k), Timestamp: r.ts}
			m.Partition = ids.Partition(m.Key, l.parts)
			if r.v != "" {
				m.Value = []byte(r.v)
			}
			list = append(list, m)
		}
		l.produceTo(l.topic(topic), list...)
	}
}

// want is what each output topic must hold, sorted.
func (w *langWorld) want() map[string][]string {
	out := map[string][]string{}
	put := func(topic, k, v string, ts int64) {
		out[topic] = append(out[topic], fmt.Sprintf("%s=%s@%d", k, v, ts-langStart))
	}
	met := map[int]bool{}
	times := map[string][]int64{}
	for _, l := range w.left {
		k, found := langKey(l.v), false
		put("left-out", k, l.v, l.ts)
		times[k] = append(times[k], l.ts)
		for i, r := range w.right {
			if langKey(r.v) == k && l.ts-langWithin <= r.ts && r.ts <= l.ts+langWithin {
				put("joined", k, l.v+","+r.v, max(l.ts, r.ts))
				found, met[i] = true, true
			}
		}
		if !found {
			put("joined", k, l.v+",-", l.ts)
		}
	}
	for i, r := range w.right {
		put("right-out", langKey(r.v), r.v, r.ts)
		if !met[i] {
			put("joined", langKey(r.v), "-,"+r.v, r.ts)
		}
	}
	for k, all := range times {
		slices.Sort(all)
		w.sessions(k, all, put)
		w.hops(k, all, put)
	}
	out["owned"] = w.owned()
	for _, list := range out {
		slices.Sort(list)
	}
	return out
}

func (w *langWorld) sessions(k string, all []int64, put func(topic, k, v string, ts int64)) {
	for begin := 0; begin < len(all); {
		end := begin
		for end+1 < len(all) && all[end+1]-all[end] <= langGap {
			end++
		}
		put("sessions", fmt.Sprintf("%s@%d-%d", k, all[begin]-langStart, all[end]-langStart), strconv.Itoa(end-begin+1), all[end])
		begin = end + 1
	}
}

func (w *langWorld) hops(k string, all []int64, put func(topic, k, v string, ts int64)) {
	for start := langStart - langStart%langAdvance - langSize; start <= all[len(all)-1]; start += langAdvance {
		n, last := 0, int64(0)
		for _, ts := range all {
			if start <= ts && ts < start+langSize {
				n, last = n+1, ts
			}
		}
		if n > 0 {
			put("hops", fmt.Sprintf("%s@%d-%d", k, start-langStart, start+langSize-langStart), strconv.Itoa(n), last)
		}
	}
}

func (w *langWorld) owned() (out []string) {
	rows := func(all []langRecord) map[string]string {
		t := map[string]string{}
		for _, r := range all {
			if t[r.k] = r.v; r.v == "" {
				delete(t, r.k)
			}
		}
		return t
	}
	customers := rows(w.customers)
	for k, v := range rows(w.orders) {
		name := "-"
		if c, named := langForeign(k, v); named && customers[c] != "" {
			name = customers[c]
		}
		out = append(out, k+"="+v+","+name)
	}
	return out
}
