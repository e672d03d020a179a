package dash

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
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
	Unknown                 // the store did not report it
	Note                    // good to know
	Warning                 // locks may be lost, or unreachable
	Danger                  // locks are not safe
)

// String returns the severity in lower case.
func (s Severity) String() string {
	switch s {
	case Good:
		return "good"
	case Unknown:
		return "unknown"
	case Note:
		return "note"
	case Warning:
		return "warning"
	default:
		return "danger"
	}
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
	Checked  stamp
	Findings []Finding
	Examines bool // Options.Findings is set
}

type factData struct{ Name, Text string }

// findings keeps the results of the last checks for a while.
type findings struct {
	mu      sync.Mutex
	list    []Finding
	checked time.Time
	busy    chan struct{} // closed when the running checks have ended; nil if no checks run
}

// get returns the results of the last checks, and their time. If they are older than
// findingsLife, it runs the checks, or waits for another caller that runs them.
func (f *findings) get(ctx context.Context, examine func(context.Context) []Finding) ([]Finding, time.Time) {
	for ctx.Err() == nil {
		f.mu.Lock()
		fresh, busy := !f.checked.IsZero() && time.Since(f.checked) < findingsLife, f.busy
		mine := !fresh && busy == nil
		if mine {
			f.busy = make(chan struct{})
		}
		f.mu.Unlock()
		switch {
		case fresh:
			return f.last()
		case mine:
			f.run(ctx, examine)
			return f.last()
		}
		select {
		case <-busy:
		case <-ctx.Done():
		}
	}
	return f.last()
}

func (f *findings) last() ([]Finding, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list, f.checked
}

func (f *findings) run(ctx context.Context, examine func(context.Context) []Finding) {
	limited, cancel := context.WithTimeout(ctx, findingsTime)
	defer cancel()
	var list []Finding
	whole := false
	defer func() { // also when examine panics: other callers wait for busy
		f.mu.Lock()
		defer f.mu.Unlock()
		if whole {
			f.list, f.checked = list, time.Now()
		}
		close(f.busy)
		f.busy = nil
	}()
	list = examine(limited)
	whole = ctx.Err() == nil // otherwise the client disconnected during the checks
}

// healthPage makes the page Health, with the results of the checks.
func (d *Dashboard) healthPage(ctx context.Context) healthData {
	data := healthData{Store: d.facts(), Examines: d.options.Findings != nil}
	if data.Examines {
		list, checked := d.findings.get(ctx, d.options.Findings)
		data.Findings, data.Checked = slices.Clone(list), stamped(checked, false)
	}
	slices.SortStableFunc(data.Findings, func(a, b Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	return data
}

func (d *Dashboard) healthContent(bool) content {
	facts := d.facts()
	return content{title: "Health", page: "health", data: healthData{Store: facts}, parts: []part{{"facts", "facts", facts}}}
}

// facts returns the state of the store, the number of names in use, and the state of the
// scan.
func (d *Dashboard) facts() []factData {
	c := d.store.now()
	names, _, _ := d.table.totals()
	p := d.table.now()
	answer := "not yet"
	if !c.answered.IsZero() {
		answer = "yes"
	}
	if !c.failing.IsZero() {
		answer = "not since " + clock(c.failing)
	}
	facts := []factData{{"Store", short(printable(d.console.Info().Name), 100)}, {"Answers", answer}}
	if c.median > 0 {
		facts = append(facts, factData{"Time for an answer", fmt.Sprintf("%s, at most %s, over the last two minutes", fine(c.median), fine(c.worst))})
	}
	walk := "the first one is running"
	if !p.ended.IsZero() {
		walk = "the last one took " + fine(p.lasted)
	}
	if p.partial != nil {
		walk += "; the one before this did not see everything: " + short(printable(p.partial.Error()), 200)
	}
	return append(facts,
		factData{"Names in use", fmt.Sprint(names)},
		factData{"Scan of all names", walk},
	)
}

// fine formats d: rounded to 10 µs if it is less than 10 ms, to 1 ms if it is less than 1 s,
// else to seconds.
func fine(d time.Duration) string {
	switch {
	case d >= time.Second:
		return span(d)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	default:
		return d.Round(10 * time.Microsecond).String()
	}
}
