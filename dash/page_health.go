package dash

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	findingsLife = 30 * time.Second // how long the page Health shows the same findings
	findingsTime = 10 * time.Second // the longest time of the checks
	findingsNews = 5 * time.Minute  // how often the store is checked while a browser is open
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
	Findings []Finding // those that are not Good, the worst first
	Good     []Finding
	Examines bool // Options.Findings is set
}

type factData struct{ Name, Text string }

// findings keeps the results of the last checks for a while.
type findings struct {
	busy    chan struct{} // of capacity 1; the caller that fills it may use the fields list and checked
	list    []Finding     // the worst first
	checked time.Time

	link atomic.Pointer[healthLink] // without the field Current; nil before the first check
}

// healthLink is the link to the page Health in the navigation, with the number of problems: the
// findings that are a Warning or a Danger.
type healthLink struct {
	Current  bool // the page is the page Health itself
	Problems int
	Worst    Severity
	Titles   string // of the problems
}

// linkOn returns the link as the given page shows it.
func (f *findings) linkOn(page string) healthLink {
	var link healthLink
	if last := f.link.Load(); last != nil {
		link = *last
	}
	link.Current = page == "health"
	return link
}

// linkToHealth returns the link to findings, of which the worst comes first.
func linkToHealth(list []Finding) *healthLink {
	var link healthLink
	var titles []string
	for _, finding := range list {
		if finding.Severity >= Warning {
			link.Worst = max(link.Worst, finding.Severity)
			titles = append(titles, finding.Title)
		}
	}
	link.Problems, link.Titles = len(titles), strings.Join(titles, ", ")
	return &link
}

// examine checks the store now and then while a browser is open, so that the navigation shows
// the number of problems. It returns when ctx ends.
func (d *Dashboard) examine(ctx context.Context) {
	if d.options.Findings == nil {
		return
	}
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if d.views.watched() {
			d.findings.get(ctx, findingsNews, d.options.Findings)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// get returns the results of the last checks, and their time. If they are older than `life`,
// it runs the checks again, and other callers wait for the results. If ctx ends first, it
// returns nil and the zero time.
func (f *findings) get(ctx context.Context, life time.Duration, examine func(context.Context) []Finding) ([]Finding, time.Time) {
	select {
	case f.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, time.Time{}
	}
	defer func() { <-f.busy }() // also when examine panics
	if time.Since(f.checked) >= life {
		limited, cancel := context.WithTimeout(ctx, findingsTime)
		defer cancel()
		list := examine(limited)
		if ctx.Err() != nil { // the client disconnected during the checks
			return nil, time.Time{}
		}
		worstFirst := func(a, b Finding) int { return cmp.Compare(b.Severity, a.Severity) }
		f.list, f.checked = slices.SortedStableFunc(slices.Values(list), worstFirst), time.Now()
		f.link.Store(linkToHealth(f.list))
	}
	return f.list, f.checked
}

func (d *Dashboard) healthContent(_ query, e extras) content {
	data := healthData{Store: d.facts(), Checked: e.checked, Examines: d.options.Findings != nil}
	for _, f := range e.findings {
		if f.Severity == Good {
			data.Good = append(data.Good, f)
			continue
		}
		data.Findings = append(data.Findings, f)
	}
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
