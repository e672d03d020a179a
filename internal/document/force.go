package document

import (
	"slices"
	"time"
)

// Forced is a grant that Force has ended.
type Forced struct {
	Owner   string
	Note    string
	Why     string // the reason that was given to Force
	Expires time.Time
	Renewed uint64 // Document.Revision when Expires was set
}

// Force ends the grant of an owner as End does, and remembers the reason until the lease would have
// ended, and for at least the time Remember. Until then, Gone returns that reason.
func (d *Document) Force(owner, why string, now time.Time) (g Grant, ok bool) {
	g, ok = d.End(owner, now)
	if ok {
		until := later(g.Expires, now.Add(Remember))
		d.Forced = append(d.Forced, Forced{Owner: owner, Note: g.Note, Why: why, Expires: until, Renewed: d.Revision})
	}
	return g, ok
}

// ForcedWhy returns the reason with which Force has ended a grant of the owner; "" if there is none.
func (d *Document) ForcedWhy(owner string) string {
	if f := d.forced(owner); f != nil {
		return f.Why
	}
	return ""
}

func (d *Document) forced(owner string) *Forced {
	i := slices.IndexFunc(d.Forced, func(f Forced) bool { return f.Owner == owner })
	if i < 0 {
		return nil
	}
	return &d.Forced[i]
}
