package dash

import (
	"html/template"
	"time"

	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/internal/plural"
	"github.com/holdfast-go/holdfast/internal/webpage"
)

// loadTemplates parses the templates that are part of the program. If `live` is true, they
// leave out the texts of times, because the browser writes these texts itself. The HTML of an
// element then stays the same while no lock changes.
func loadTemplates(static webpage.Files, live bool) *template.Template {
	textOf := func(text string) string {
		if live {
			return ""
		}
		return text
	}
	funcs := template.FuncMap{
		"static": static.Address,
		"iso":    iso,
		"plural": plural.Count[int],
		"clock":  func(t time.Time) string { return textOf(clock(t)) },
		"passed": func(t time.Time) string { return textOf(span(time.Since(t))) },
		"left":   func(t time.Time) string { return textOf(span(time.Until(t))) },
		"lease":  func(h observe.Hold) lease { return leaseOf(h, live) },
	}
	return template.Must(template.New("").Funcs(funcs).ParseFS(templateFiles, "templates/*.html"))
}

// iso returns t for the attribute datetime, or "" if t is zero.
func iso(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// clock returns the time of day of t, in the server's time zone.
func clock(t time.Time) string { return t.Format("15:04:05") }

// ago is the time that has passed since At.
type ago struct {
	At      time.Time
	AtLeast bool // the real time may be longer
}

// lease is the lease of a hold, as a page shows it.
type lease struct {
	Forever bool
	Unknown bool  // the store does not report when the lease ends
	Ends    int64 // when the lease ends, in ms since 1970
	Span    int64 // the longest time until the end of the lease that a poll found, in ms
	Soon    int64 // from this time on the lease ends soon, in ms since 1970; see endsSoon
	Renewed bool  // a renewal was found, so that the next one is late if the lease ends soon
	Left    int64 // the rest of the lease, in ms; not set for browsers that count it themselves
	IsSoon  bool
	Text    string
}

// leaseOf describes the lease of h. If `live` is true, the result has no fields that the
// browser computes itself.
func leaseOf(h observe.Hold, live bool) lease {
	if h.Ends.IsZero() {
		return lease{Forever: !h.UnknownEnd, Unknown: h.UnknownEnd}
	}
	l := lease{Ends: h.Ends.UnixMilli(), Span: max(h.Span.Milliseconds(), 1), Renewed: h.Renewals > 0}
	if !h.Kept() {
		l.Soon = soonFrom(h).UnixMilli()
	}
	if !live {
		now := time.Now()
		left := max(h.Ends.Sub(now), 0)
		l.Left, l.Text = left.Milliseconds(), span(left)
		l.IsSoon = endsSoon(h, now)
	}
	return l
}

// endsSoon reports whether the lease of h is near its end, so that an operator may want to
// look at it: a renewal is late, or a lease that was never renewed has almost passed. A name
// that stays taken after its release is not meant to be renewed, so its end is no news.
func endsSoon(h observe.Hold, now time.Time) bool {
	return !h.Ends.IsZero() && !h.Kept() && now.After(soonFrom(h))
}

// soonFrom returns the time after which the lease of h ends soon. Clients renew after a third
// of the lease, so a renewal is late when less than half is left. A lease that was never
// renewed may be fixed, and long: then it ends soon within its last minute.
func soonFrom(h observe.Hold) time.Time {
	last := h.Span / 2
	if h.Renewals == 0 {
		last = min(last, time.Minute)
	}
	return h.Ends.Add(-last)
}
