package dash

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	findingsLife = 30 * time.Second
	findingsTime = 10 * time.Second
)

// Severity is how much a Finding matters.
type Severity int

// Severities, from harmless to dangerous.
const (
	Good    Severity = iota // checked, no problem
	Unknown                 // the store did not report what the check needs
	Note                    // good to know
	Warning                 // locks may be lost, or unreachable
	Danger                  // locks are not safe
)

// String returns the severity in lower case.
func (s Severity) String() string {
	names := []string{"good", "unknown", "note", "warning", "danger"}
	return names[min(max(s, Good), Danger)]
}

// Finding is a result of a check of the store.
type Finding struct {
	Severity Severity
	Title    string // the name of the check: "eviction"
	Text     string // what was found
	Remedy   string // what to do; may be ""
}

// healthData is the page Health.
type healthData struct {
	Store    []factData
	Checked  time.Time
	Findings []Finding
	Examines bool // Options.Findings is set
}

type factData struct{ Name, Text string }

// findings keeps the results of the last checks for a while.
type findings struct {
	busy    chan struct{} // of capacity 1; the caller that fills it may use the fields below
	list    []Finding
	checked time.Time
}

// get returns the results of the last checks, and their time. If they are older than
// findingsLife, it runs the checks again, and other callers wait for the results. If ctx ends
// first, it returns nil and the zero time.
func (f *findings) get(ctx context.Context, examine func(context.Context) []Finding) ([]Finding, time.Time) {
	select {
	case f.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, time.Time{}
	}
	defer func() { <-f.busy }() // also when examine panics
	if time.Since(f.checked) >= findingsLife {
		limited, cancel := context.WithTimeout(ctx, findingsTime)
		defer cancel()
		list := examine(limited)
		if ctx.Err() != nil { // the client disconnected during the checks
			return nil, time.Time{}
		}
		worstFirst := func(a, b Finding) int { return cmp.Compare(b.Severity, a.Severity) }
		f.list, f.checked = slices.SortedStableFunc(slices.Values(list), worstFirst), time.Now()
	}
	return f.list, f.checked
}

func (d *Dashboard) healthContent(_ query, e extras) content {
	data := healthData{Store: d.facts(), Checked: e.checked, Findings: e.findings, Examines: d.options.Findings != nil}
	return content{title: "Health", page: "health", data: data, parts: []part{{"facts", "facts", data.Store}}}
}

// facts returns the state of the store, the number of names in use, and the state of the
// scan.
func (d *Dashboard) facts() []factData {
	c := d.store.now()
	p := d.table.now()
	answer := "not yet"
	if !c.answered.IsZero() {
		answer = "yes"
	}
	if !c.failing.IsZero() {
		answer = "no answer since " + clock(c.failing)
	}
	facts := []factData{{"Store", short(printable(d.console.Info().Name), 100)}, {"Answers", answer}}
	if c.median > 0 {
		facts = append(facts, factData{"Time for an answer", fmt.Sprintf("%s, at most %s, over the last two minutes", fine(c.median), fine(c.worst))})
	}
	walk := "no scan is complete yet"
	if !p.ended.IsZero() {
		walk = fmt.Sprintf("the last complete scan took %s, and ended at %s", fine(p.lasted), clock(p.ended))
	}
	if p.running && time.Since(p.began) > max(p.lasted, scanEvery) {
		walk += "; another one has run since " + clock(p.began)
	}
	if p.partial != nil {
		walk += "; the last scan did not see everything: " + errorText(p.partial)
	}
	names := fmt.Sprint(sum(d.table.All).Names)
	if p.unread > 0 {
		names += ", as far as they are read: " + p.progress()
	}
	return append(facts,
		factData{"Names in use", names},
		factData{"Scan of all names", walk},
	)
}

// fine formats d: rounded to 10 µs if it is less than 1 s, else to seconds.
func fine(d time.Duration) string {
	if d >= time.Second {
		return span(d)
	}
	return d.Round(10 * time.Microsecond).String()
}
