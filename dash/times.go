package dash

import (
	"html/template"
	"time"

	"github.com/holdfast-go/holdfast/admin/observe"
)

// stamp is a moment on a page. The browser shows it in its own time zone.
type stamp struct {
	Ms   int64 // since 1970; 0 for never
	ISO  string
	Text string
}

func stamped(t time.Time, live bool) stamp {
	if t.IsZero() {
		return stamp{}
	}
	s := stamp{Ms: t.UnixMilli(), ISO: t.UTC().Format("2006-01-02T15:04:05.000Z")}
	if !live {
		s.Text = clock(t)
	}
	return s
}

// clock returns the time of day of t, in the server's time zone.
func clock(t time.Time) string { return t.Format("15:04:05") }

// ago is the time from a moment until now, which grows. Ms is that moment, in ms since 1970.
type ago struct {
	Ms      int64
	Text    string
	AtLeast bool // it may be longer
}

func since(t time.Time, atLeast, live bool) ago {
	a := ago{Ms: t.UnixMilli(), AtLeast: atLeast}
	if !live {
		a.Text = span(time.Since(t))
	}
	return a
}

// lease is the lease of a hold, as a page shows it.
type lease struct {
	Forever bool
	Unknown bool  // the store does not report when it ends
	Ends    int64 // in ms since 1970
	Span    int64 // the longest rest of the lease that a poll found, in ms
	Late    int64 // in ms since 1970: from then on a renewal is late; 0 if no renewal was found
	Left    int64 // the rest of the lease, in ms; not set for browsers that count it themselves
	IsLate  bool
	Text    string
}

// leaseOf describes the lease of h. Clients renew after a third of the lease, so a renewal
// is late when less than half is left.
func leaseOf(h observe.Hold, live bool) lease {
	if h.Ends.IsZero() {
		return lease{Forever: !h.UnknownEnd, Unknown: h.UnknownEnd}
	}
	l := lease{Ends: h.Ends.UnixMilli(), Span: max(h.Span.Milliseconds(), 1)}
	if h.Renewals > 0 {
		l.Late = h.Ends.Add(-h.Span / 2).UnixMilli()
	}
	if !live {
		left := max(time.Until(h.Ends), 0)
		l.Left, l.Text = left.Milliseconds(), span(left)
		l.IsLate = l.Late != 0 && time.Now().UnixMilli() > l.Late
	}
	return l
}

// trusted returns the output of a template as HTML that is safe.
func trusted(html string) template.HTML {
	return template.HTML(html) //nolint:gosec // every byte of it comes from html/template
}
