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
	"github.com/holdfast-go/holdfast/internal/background"
)

// besideOwner is the end of the owner that operators see for a shared entry: see Entry.Shared.
const besideOwner = ".readers"

// parted is a queue, split into its holders and its waiters.
type parted struct{ holders, waiters []Entry }

// part splits a queue into holders and waiters. An entry behind a waiter waits, too. In a queue
// for permits whose entries do not contain the number of permits, all entries are holders.
func part(queue []Entry) parted {
	permits := PermitsOf(queue, Label{Permits: math.MaxInt})
	n := 0
	for ; n < len(queue); n++ {
		m := queue[n].Label
		m.Permits = permits
		if len(blocking(queue[:n], m)) > 0 {
			break
		}
	}
	return parted{queue[:n], queue[n:]}
}

// readQueue returns the queue of a name, and how many calls of the store it made. It completes
// the first entries with Store.Complete: at most `holders` holders, and at most shownMost
// waiters. It leaves out entries that were removed meanwhile.
func readQueue(ctx context.Context, store Store, name string, holders int) (p parted, calls int, err error) {
	if err := ctx.Err(); err != nil {
		return p, 0, err
	}
	queue, err := store.FullQueue(ctx, name)
	calls = 1
	for seen := -1; err == nil && len(queue) != seen; {
		seen, p = len(queue), part(queue)
		first := p.entries(holders, shownMost)
		for _, entry := range first {
			if entry.Order == 0 {
				calls++
			}
		}
		errs := make([]error, len(first))
		background.Each(len(first), parallelCalls, func(i int) {
			var there bool
			if there, errs[i] = store.Complete(ctx, first[i]); !there {
				first[i].Key = ""
			}
		})
		err = cmp.Or(errs...)
		queue = slices.DeleteFunc(queue, func(entry Entry) bool { return entry.Key == "" })
	}
	return p, calls, err
}

// entries returns the first entries of the queue: at most `holders` holders, and at most
// `waiters` waiters.
func (p *parted) entries(holders, waiters int) (first []*Entry) {
	for i := range p.holders[:min(holders, len(p.holders))] {
		first = append(first, &p.holders[i])
	}
	for i := range p.waiters[:min(waiters, len(p.waiters))] {
		first = append(first, &p.waiters[i])
	}
	return first
}

// failed returns the error of the first shown entry whose session has an error in the map
// `sessions`. It returns nil if no shown entry has such a session.
func (p *parted) failed(sessions map[int64]error) error {
	for _, entry := range p.entries(shownMost, shownMost) {
		if err := sessions[entry.Session]; err != nil {
			return err
		}
	}
	return nil
}

// record returns the Record of the name that has the queue p. The map `rests` has the remaining
// time of each session. `failed` is nil if the queue and the remaining times could be read, and
// otherwise the error of the read that failed.
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
		if r.Permits = PermitsOf(slices.Concat(p.holders, p.waiters), Label{}); r.Permits > 0 {
			r.Free = r.Permits - r.Holders
		}
	}
	for _, entry := range p.holders[:min(shownMost, len(p.holders))] {
		r.Holds = append(r.Holds, entry.hold(rests[entry.Session]))
	}
	for _, entry := range p.waiters[:min(shownMost, len(p.waiters))] {
		h := entry.hold(rests[entry.Session])
		if r.Kind == admin.KindSemaphore {
			h.Mode = driver.Permit
		}
		r.Waiters = append(r.Waiters, admin.Waiter{Owner: h.Owner, Note: h.Note, Mode: h.Mode, Remaining: h.Remaining, Client: h.Client})
	}
	for _, entry := range p.entries(shownMost, shownMost) {
		if rest := rests[entry.Session]; rest < 0 || r.Remaining < 0 {
			r.Remaining = admin.RemainingUnknown
		} else {
			r.Remaining = max(r.Remaining, rest)
		}
	}
	return r
}

// kind returns what the name is used for. Entries of other programs have the kind Mutex in
// every queue, so kind ignores them. A mutex and a fair mutex look the same, because both have
// a queue.
func (p *parted) kind() admin.Kind {
	for _, entry := range p.entries(shownMost, shownMost) {
		switch {
		case entry.Label.Kind == Permit:
			return admin.KindSemaphore
		case entry.Label.Kind != Mutex:
			return admin.KindReadWrite
		}
	}
	return admin.KindMutex
}

// hold returns an entry as operators see it. `rest` is the remaining time of the entry's
// session.
func (e *Entry) hold(rest time.Duration) admin.Hold {
	note, client, _ := e.parseNote()
	h := admin.Hold{Holder: admin.Holder{Owner: e.owner(), Note: note, Holds: 1, Remaining: rest}, Mode: e.mode()}
	if e.Label.ID == "" {
		h.Client.ID = fmt.Sprintf("%x", e.Session)
		return h
	}
	h.Token, h.Client = tokenOf(e.Order), admin.Client{ID: client, Library: "holdfast", Note: note}
	return h
}

// owner returns the owner of the entry. The owner of an entry of another program consists of
// the session and the number of the entry, because a program may use one session for all of
// its locks.
func (e *Entry) owner() string {
	_, _, owner := e.parseNote()
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
	case e.Label.Kind == Permit:
		return driver.Permit
	case e.Label.Kind == Reader || e.Shared:
		return driver.Shared
	default:
		return driver.Exclusive
	}
}
