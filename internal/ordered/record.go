package ordered

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// besideOwner is what is appended to the owner of a writer that has left, for the
// readers that stand on its entry.
const besideOwner = ".readers"

// parted is a queue: its holders, and its waiters.
type parted struct{ holders, waiters []Entry }

// part takes a queue apart. Who is behind one that waits waits, too. Permits hold as long
// as no entry says how many there are.
func part(queue []Entry) parted {
	permits := PermitsOf(queue, Mark{Permits: math.MaxInt})
	n := 0
	for ; n < len(queue); n++ {
		m := queue[n].Mark
		m.Permits = permits
		if len(blocked(queue[:n], m)) > 0 {
			break
		}
	}
	return parted{queue[:n], queue[n:]}
}

// read returns the queue of a name, with so many of the holders and the first waiters
// complete, and how many calls that took. What was removed meanwhile is left out.
func read(ctx context.Context, v Viewer, name string, holders int) (p parted, calls int, err error) {
	queue, err := v.Look(ctx, name)
	calls = 1
	for seen := -1; err == nil && len(queue) != seen; {
		seen, p = len(queue), part(queue)
		first := p.entries(holders, shown)
		for _, entry := range first {
			if entry.Order == 0 {
				calls++
			}
		}
		errs := make([]error, len(first))
		each(len(first), func(i int) {
			var there bool
			if there, errs[i] = v.Complete(ctx, first[i]); !there {
				first[i].Key = ""
			}
		})
		err = cmp.Or(errs...)
		queue = slices.DeleteFunc(queue, func(entry Entry) bool { return entry.Key == "" })
	}
	return p, calls, err
}

// entries returns the first of the holders and of the waiters, so many at most.
func (p *parted) entries(holders, waiters int) (first []*Entry) {
	for i := range p.holders[:min(holders, len(p.holders))] {
		first = append(first, &p.holders[i])
	}
	for i := range p.waiters[:min(waiters, len(p.waiters))] {
		first = append(first, &p.waiters[i])
	}
	return first
}

// failed returns what is known to have failed for one of the sessions that are shown.
func (p *parted) failed(sessions map[int64]error) error {
	for _, entry := range p.entries(shown, shown) {
		if err := sessions[entry.Session]; err != nil {
			return err
		}
	}
	return nil
}

// record describes a name, of which a part could not be read where failed is not nil.
func (p *parted) record(name string, rests map[int64]time.Duration, failed error) admin.Record {
	r := admin.Record{Name: name, Listeners: -1}
	switch {
	case errors.Is(failed, driver.ErrMismatch):
		r.Kind = admin.KindOther
		return r
	case failed != nil:
		r.Kind = admin.KindUnknown
		return r
	case len(p.holders) == 0:
		return r
	}
	r.Kind, r.Holders, r.Waiting = p.kind(), len(p.holders), len(p.waiters)
	if r.Kind == admin.KindSemaphore {
		if r.Permits = PermitsOf(slices.Concat(p.holders, p.waiters), Mark{}); r.Permits > 0 {
			r.Free = r.Permits - r.Holders
		}
	}
	for _, entry := range p.holders[:min(shown, len(p.holders))] {
		r.Holds = append(r.Holds, entry.hold(rests[entry.Session]))
	}
	for _, entry := range p.waiters[:min(shown, len(p.waiters))] {
		h := entry.hold(rests[entry.Session])
		if r.Kind == admin.KindSemaphore {
			h.Mode = driver.Permit
		}
		r.Waiters = append(r.Waiters, admin.Waiter{Owner: h.Owner, Note: h.Note, Mode: h.Mode, Remaining: h.Remaining, Client: h.Client})
	}
	for _, entry := range p.entries(shown, shown) {
		if rest := rests[entry.Session]; rest < 0 || r.Remaining < 0 {
			r.Remaining = admin.RemainingUnknown
		} else {
			r.Remaining = max(r.Remaining, rest)
		}
	}
	return r
}

// kind is what the name is used for. Entries of other programs that do not say what they
// are of are as those of a mutex, which go with all kinds. Whether a mutex was asked for,
// or a fair one, is not stored: both have a queue.
func (p *parted) kind() admin.Kind {
	for _, entry := range p.entries(shown, shown) {
		switch {
		case entry.Mark.Kind == Permit:
			return admin.KindSemaphore
		case entry.Mark.Kind != Mutex:
			return admin.KindReadWrite
		}
	}
	return admin.KindMutex
}

// hold describes an entry.
func (e *Entry) hold(rest time.Duration) admin.Hold {
	note, client, _ := e.read()
	h := admin.Hold{Holder: admin.Holder{Owner: e.owner(), Note: note, Holds: 1, Remaining: rest}, Mode: e.mode()}
	if e.Mark.ID == "" {
		h.Client.ID = fmt.Sprintf("%x", e.Session)
		return h
	}
	h.Token, h.Client = tokenOf(e.Order), admin.Client{ID: client, Library: "holdfast", Note: note}
	return h
}

// owner is who made the entry. That of another program is the session, and the number
// of the entry: a program may use one session for all of its locks.
func (e *Entry) owner() string {
	_, _, owner := e.read()
	switch {
	case owner == "":
		return fmt.Sprintf("%x:%d", e.Session, e.Order)
	case e.Shared:
		return owner + besideOwner
	}
	return owner
}

func (e *Entry) mode() driver.Mode {
	switch {
	case e.Mark.Kind == Permit:
		return driver.Permit
	case e.Mark.Kind == Reader || e.Shared:
		return driver.Shared
	default:
		return driver.Exclusive
	}
}
