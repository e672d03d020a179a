package memhold

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// shown is how many holders and waiters of each name are shown.
const shown = 32

// List walks over what is locked, and over semaphores and latches, in the order
// of their names. Its names are those of the instant at which it begins, of which
// o.Keys looks at the first; what it yields is as it is then. It keeps no pace:
// nothing is asked of a server.
func (b *Backend) List(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		names := b.names(o.Prefix)
		for i, name := range names {
			if o.Keys > 0 && i == o.Keys {
				yield(driver.Record{}, driver.ErrIncomplete)
				return
			}
			records, err := b.Look(ctx, name)
			if err != nil {
				yield(driver.Record{}, err)
				return
			}
			if records[0].Kind != "" && !yield(records[0], nil) {
				return
			}
		}
		if err := ended(ctx); err != nil {
			yield(driver.Record{}, err)
		}
	}
}

// names returns the names in use that begin with prefix, in order.
func (b *Backend) names(prefix string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()
	var names []string
	for name := range b.entries {
		if strings.HasPrefix(name, prefix) && b.live(name, now) != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Look returns what is kept of names, all at the same instant. Nobody knows who
// listens: Record.Listeners is -1.
func (b *Backend) Look(ctx context.Context, names ...string) ([]driver.Record, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()
	records := make([]driver.Record, len(names))
	for i, name := range names {
		if e := b.live(name, now); e != nil {
			records[i] = e.record(now)
		}
		records[i].Name, records[i].Listeners = name, -1
	}
	return records, nil
}

// Detail returns what Look does. There are no keys, and tokens are drawn for all
// names together; Hold.Token has those of the holds.
func (b *Backend) Detail(ctx context.Context, name string) (driver.Detail, error) {
	records, err := b.Look(ctx, name)
	if err != nil {
		return driver.Detail{}, err
	}
	return driver.Detail{Record: records[0]}, nil
}

// record describes e.
func (e *entry) record(now time.Time) driver.Record {
	r := driver.Record{
		Kind: e.listed(), Held: len(e.grants), Waiting: len(e.queue), Count: e.count,
		Remaining: -1, // of a semaphore and a latch
	}
	if e.kind == semaphore {
		r.Permits, r.Free = e.permits, e.permits-len(e.grants)
	}
	for _, g := range e.grants[:min(shown, len(e.grants))] {
		r.Holds = append(r.Holds, driver.Hold{
			Holder: driver.Holder{Owner: g.owner, Note: g.note, Holds: g.holds, Remaining: g.expires.Sub(now)},
			Mode:   g.mode,
			Token:  g.token,
			Since:  now.Sub(g.since),
			Client: driver.Client{Note: g.note},
		})
	}
	for _, p := range e.queue[:min(shown, len(e.queue))] {
		r.Waiters = append(r.Waiters, driver.Queued{
			Owner: p.owner, Note: p.note, Mode: p.mode, Remaining: p.until.Sub(now),
			Client: driver.Client{Note: p.note},
		})
	}
	if e.kind == mutex || e.kind == readWrite {
		r.Remaining = e.lasts(now)
	}
	return r
}

// lasts returns how long something of e remains, unless it is renewed.
func (e *entry) lasts(now time.Time) time.Duration {
	var last time.Time
	for _, g := range e.grants {
		last = later(last, g.expires)
	}
	for _, p := range e.queue {
		last = later(last, p.until)
	}
	return last.Sub(now)
}

// listed is e's kind, as it is shown.
func (e *entry) listed() driver.Kind {
	switch e.kind {
	case semaphore:
		return driver.KindSemaphore
	case readWrite:
		return driver.KindReadWrite
	case latch:
		return driver.KindLatch
	}
	if len(e.queue) > 0 {
		return driver.KindFair
	}
	return driver.KindMutex
}
