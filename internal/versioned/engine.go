// Package versioned keeps locks in a store that has nothing but documents and conditional writes:
// "write this, if nobody has written since I read". A file system, a table, a key-value store and
// many object stores have that.
//
// Each name has one document. Package document says what happens to it. An Engine reads the
// document, changes a copy, and writes the copy on the condition that the document is still the one
// that it read. The Engine keeps each document that it has seen or written, so that the usual call
// is one write.
//
//   - A yes may come from what the Engine keeps, because a write succeeds only if that is still what
//     the store has. A no comes from a read that began after the call.
//   - All calls of a process for a name are collected: one flight applies them all, with one write.
//     So few writes of a name are in conflict with each other.
//   - Leases need no common clock. A document says how much of a lease was left when it was written.
//     Each process counts from the moment at which it first saw the lease, the holder from before its
//     call. So all that is needed is that clocks run equally fast.
//   - A process that has just started counts from the write of the document, if the store says how
//     old a document is. If the store has no clock, the process counts from the clock of the writer,
//     as far as Limits.Tolerance allows. So a dead holder is replaced also by processes that look
//     only once.
//   - Waiters read the documents of all names for which they wait, again and again, unless the store
//     reports changes. Claims that are not fair take turns, see document.Turn.
package versioned

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/document"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// Limits describe what a Store can do.
type Limits struct {
	Name    string // driver.Info.Name
	Layout  string // driver.Info.Layout
	MaxName int    // the longest name in bytes; 0 means no limit

	// NoClock says that Item.Age is negative. Then a process that sees a lease for the first time may
	// take its end for later than it is, by up to Tolerance, and so Caps.AtLeast is not set.
	NoClock bool

	// Tolerance is how far the clocks of two processes may be apart, if NoClock is set. If they are
	// further apart, a process may take the end of a lease for earlier than it is, and then two
	// holders are possible. 0 means DefaultTolerance.
	Tolerance time.Duration

	MaxSize int // the largest document in bytes; 0 means DefaultMaxSize
	Calls   int // how many calls of one method of the Store run at once at most; 0 means DefaultCalls, or DefaultBatchCalls for a Batcher
	Batch   int // how many documents a call of a Batcher has at most; 0 means DefaultBatch
}

// What Limits mean that are not set.
const (
	// DefaultTolerance is how far clocks may be apart.
	DefaultTolerance = 10 * time.Second
	// DefaultMaxSize is the size of the largest document.
	DefaultMaxSize = 256 << 10
	// DefaultCalls is how many calls of one method run at once.
	DefaultCalls = 16
	// DefaultBatchCalls is the same for a Batcher. The fewer calls run at once, the larger are the
	// batches.
	DefaultBatchCalls = 4
	// DefaultBatch is how many documents a call of a Batcher has.
	DefaultBatch = 100
)

const (
	// namesMost is how many documents an Engine keeps that are not in use.
	namesMost = 10_000
	// parallel is how many claims of one call are under way at once.
	parallel = DefaultBatch
)

// Engine is a driver.Backend over a Store. It has goroutines only while calls are under way, while
// there are waiters, and for two seconds after the last waiter of a Watcher.
type Engine struct {
	info      driver.Info
	store     Store
	tolerance time.Duration
	maxSize   int
	wall      func(time.Time) time.Time // the clock on the wall, for tests of clocks that differ

	group background.Group
	gets  *lane[string, Item]
	puts  *lane[Write, Version]
	hub   hub
	trip  atomic.Int64 // how long a call of the store takes, smoothed

	presences presences
	moments   atomic.Uint64 // the last moment

	mu    sync.Mutex
	names map[string]*entry
}

var (
	_ driver.Backend = (*Engine)(nil)
	_ driver.Batcher = (*Engine)(nil)
	_ driver.Resizer = (*Engine)(nil)
	_ driver.Latcher = (*Engine)(nil)
	_ driver.Drainer = (*Engine)(nil)
	_ admin.Source   = (*Engine)(nil)
)

// New returns an Engine over store. It does no I/O.
func New(store Store, limits Limits) *Engine {
	e := &Engine{
		store:     store,
		tolerance: cmp.Or(limits.Tolerance, DefaultTolerance),
		maxSize:   cmp.Or(limits.MaxSize, DefaultMaxSize),
		wall:      func(t time.Time) time.Time { return t },
		names:     map[string]*entry{},
	}
	_, watches := store.(Watcher)
	e.info = driver.Info{
		Name: limits.Name, Layout: limits.Layout, MaxName: limits.MaxName,
		MinTTL: 10 * time.Millisecond, MaxTTL: 10 * 365 * 24 * time.Hour,
		PlaceTTL: document.Presence + keepsFor,
		Caps: driver.Caps{
			Shared: true, Permits: true, Latches: true, Fair: true, Fencing: true, Wakes: watches,
			ExpiresAlone: true, Counts: true, Tombstones: true, AtLeast: !limits.NoClock,
		},
	}
	if !watches {
		e.info.Recheck = 5 * time.Second // the polls find the end of a lease, too
	}
	e.presences.store, _ = store.(Presence)
	e.presences.arrived, e.presences.departed = map[string]bool{}, map[string]bool{}
	e.gets, e.puts = lanes(store, limits, &e.group)
	e.hub.init(e)
	return e
}

// Info describes the store.
func (e *Engine) Info() driver.Info { return e.info }

// Drain waits until the Engine has no goroutine any more. If ctx ends first, it returns an error with
// that of ctx.
func (e *Engine) Drain(ctx context.Context) error {
	e.hub.drains(1)
	defer e.hub.drains(-1)
	return e.group.Wait(ctx)
}

// Try makes one attempt, as driver.Backend says. A claim that is not fair gets a mark in the
// document if it is refused, unless NoQueue is set; see document.TryInTurn.
func (e *Engine) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	if err := e.presences.arrive(c.Client); err != nil {
		return driver.Outcome{}, e.failed("try", c.Name, unsent.Error(err))
	}
	n := e.enter(c.Name)
	defer e.leave(n)
	var out driver.Outcome
	var refused error
	err := e.run(n, &op{ctx: ctx, owner: c.Owner, urgent: late, do: func(d *document.Document, now time.Time) (changes change) {
		out, changes, refused = n.try(d, c, now, e.maxSize)
		return changes
	}})
	if err == nil {
		err = refused
	}
	if err != nil {
		return driver.Outcome{}, e.failed("try", c.Name, err)
	}
	return out, nil
}

// TryAll makes one attempt for each claim in cs. No claim enters a queue, or gets a mark.
func (e *Engine) TryAll(ctx context.Context, cs []driver.Claim) []driver.Attempt {
	answers := make([]driver.Attempt, len(cs))
	background.Each(len(cs), parallel, func(i int) {
		c := cs[i]
		c.NoQueue = true
		answers[i].Outcome, answers[i].Err = e.Try(ctx, c)
	})
	return answers
}

// Renew extends held claims, and places in the queue, as driver.Backend says.
func (e *Engine) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	answers := make([]driver.Renewal, len(cs))
	background.Each(len(cs), parallel, func(i int) { answers[i] = e.renew(ctx, cs[i]) })
	return answers, nil
}

func (e *Engine) renew(ctx context.Context, c driver.Claim) driver.Renewal {
	n := e.enter(c.Name)
	defer e.leave(n)
	var renewal driver.Renewal
	err := e.call(ctx, n, early, func(d *document.Document, now time.Time) (changes change) {
		renewal, changes = n.renew(d, c, now)
		return changes
	})
	if err != nil {
		return driver.Renewal{Err: e.failed("renew", c.Name, err)}
	}
	return renewal
}

// Release ends a claim, as driver.Backend says. If c.Indeterminate is set, and an earlier Try may
// still take effect because the document has the version that this Try expects, Release writes the
// document also if it has nothing of the claim.
func (e *Engine) Release(ctx context.Context, c driver.Claim) error {
	n := e.enter(c.Name)
	defer e.leave(n)
	n.givesUp(c)
	var gone error
	err := e.call(ctx, n, early, func(d *document.Document, now time.Time) change {
		if gone = nil; d.Release(c, now) {
			return keeps
		}
		gone = n.gone(d, c)
		if c.Indeterminate && n.mayStillBeGranted(c.Owner) {
			return keeps
		}
		return unchanged
	})
	if err == nil {
		err = gone
	}
	return e.failed("release", c.Name, err)
}

// ReleaseAll releases each claim in cs.
func (e *Engine) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	errs := make([]error, len(cs))
	background.Each(len(cs), parallel, func(i int) { errs[i] = e.Release(ctx, cs[i]) })
	return errs
}

// failed returns the error of a call about a name; nil if err is nil.
func (e *Engine) failed(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s %q: %w", e.info.Name, what, name, err)
}
