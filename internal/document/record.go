package document

import (
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

// shown is the most holders, and the most waiters, that a Record lists.
const shown = 32

// Record returns what operators see of the name at the time `now`. Purge comes before Record.
func (d *Document) Record(name string, now time.Time) admin.Record {
	r := admin.Record{
		Name: name, Kind: d.listed(), Holders: len(d.Grants), Waiting: len(d.Queue), Count: d.Count, Listeners: -1,
	}
	switch d.Kind {
	case "":
	case Mutex, ReadWrite:
		r.Remaining = d.lasts(now)
	case Semaphore:
		r.Permits, r.Free, r.Remaining = d.Permits, d.Free(), -1
	default:
		r.Remaining = -1 // a latch has no end
	}
	for _, g := range d.Grants[:min(shown, len(d.Grants))] {
		r.Holds = append(r.Holds, admin.Hold{
			Holder:  admin.Holder{Owner: g.Owner, Note: g.Note, Holds: g.Holds, Remaining: g.Expires.Sub(now)},
			Mode:    g.Mode,
			Token:   g.Token,
			HeldFor: now.Sub(g.Since),
			Client:  admin.Client{Note: g.Note},
		})
	}
	for _, p := range d.Queue[:min(shown, len(d.Queue))] {
		r.Waiters = append(r.Waiters, admin.Waiter{
			Owner: p.Owner, Note: p.Note, Mode: p.Mode, Remaining: p.Expires.Sub(now),
			Client: admin.Client{Note: p.Note},
		})
	}
	return r
}

// lasts returns the time until the last grant or place in the queue expires, if nothing is renewed.
func (d *Document) lasts(now time.Time) time.Duration {
	var last time.Time
	for _, g := range d.Grants {
		last = later(last, g.Expires)
	}
	for _, p := range d.Queue {
		last = later(last, p.Expires)
	}
	return last.Sub(now)
}

// listed returns Record.Kind.
func (d *Document) listed() admin.Kind {
	switch d.Kind {
	case Semaphore:
		return admin.KindSemaphore
	case ReadWrite:
		return admin.KindReadWrite
	case Latch:
		return admin.KindLatch
	case Mutex:
		if len(d.Queue) > 0 {
			return admin.KindFair
		}
		return admin.KindMutex
	}
	return ""
}
