package memhold

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/document"
)

// shown is the most holders, and the most waiters, that a Record lists.
const shown = 32

// List yields locks, semaphores and latches in the order of their names. It reads all names at
// its beginning, and the state of each name when it yields the name. After f.Keys names it ends
// with admin.ErrIncomplete. f.Pace has no effect.
func (b *Backend) List(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
	return func(yield func(admin.Record, error) bool) {
		names := b.names(f.NamePrefix)
		for i, name := range names {
			if f.Keys > 0 && i == f.Keys {
				yield(admin.Record{}, admin.ErrIncomplete)
				return
			}
			records, err := b.Get(ctx, name)
			if err != nil {
				yield(admin.Record{}, err)
				return
			}
			if records[0].Kind != "" && !yield(records[0], nil) {
				return
			}
		}
		if err := ended(ctx); err != nil {
			yield(admin.Record{}, err)
		}
	}
}

// names returns the names in use that begin with the prefix, sorted byte by byte.
func (b *Backend) names(prefix string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()
	var names []string
	for name := range b.resources {
		if strings.HasPrefix(name, prefix) && b.live(name, now) != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Get returns the Records of the names, all at the same instant. Record.Listeners is -1.
func (b *Backend) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()
	records := make([]admin.Record, len(names))
	for i, name := range names {
		if e := b.live(name, now); e != nil {
			records[i] = e.record(now)
		}
		records[i].Name, records[i].Listeners = name, -1
	}
	return records, nil
}

// Describe returns the Record of the name, as Get does. There are no keys. Detail.Token is 0,
// because one counter serves all names; the holds have tokens.
func (b *Backend) Describe(ctx context.Context, name string) (admin.Detail, error) {
	records, err := b.Get(ctx, name)
	if err != nil {
		return admin.Detail{}, err
	}
	return admin.Detail{Record: records[0]}, nil
}

// record returns the Record of e.
func (e *resource) record(now time.Time) admin.Record {
	r := admin.Record{
		Kind: e.listed(), Holders: len(e.Grants), Waiting: len(e.Queue), Count: e.Document.Count,
		Remaining: -1, // a semaphore and a latch keep this value, because they have no end
	}
	if e.Kind == document.Semaphore {
		r.Permits, r.Free = e.Permits, e.Free()
	}
	for _, g := range e.Grants[:min(shown, len(e.Grants))] {
		r.Holds = append(r.Holds, admin.Hold{
			Holder:  admin.Holder{Owner: g.Owner, Note: g.Note, Holds: g.Holds, Remaining: g.Expires.Sub(now)},
			Mode:    g.Mode,
			Token:   g.Token,
			HeldFor: now.Sub(g.Since),
			Client:  admin.Client{Note: g.Note},
		})
	}
	for _, p := range e.Queue[:min(shown, len(e.Queue))] {
		r.Waiters = append(r.Waiters, admin.Waiter{
			Owner: p.Owner, Note: p.Note, Mode: p.Mode, Remaining: p.Expires.Sub(now),
			Client: admin.Client{Note: p.Note},
		})
	}
	if e.Kind == document.Mutex || e.Kind == document.ReadWrite {
		r.Remaining = e.lasts(now)
	}
	return r
}

// lasts returns the time until the last grant or place in the queue of e expires, if nothing is
// renewed.
func (e *resource) lasts(now time.Time) time.Duration {
	var last time.Time
	for _, g := range e.Grants {
		last = later(last, g.Expires)
	}
	for _, p := range e.Queue {
		last = later(last, p.Expires)
	}
	return last.Sub(now)
}

// listed returns Record.Kind of e.
func (e *resource) listed() admin.Kind {
	switch e.Kind {
	case document.Semaphore:
		return admin.KindSemaphore
	case document.ReadWrite:
		return admin.KindReadWrite
	case document.Latch:
		return admin.KindLatch
	}
	if len(e.Queue) > 0 {
		return admin.KindFair
	}
	return admin.KindMutex
}
