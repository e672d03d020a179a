package rows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

const (
	// chunkMost bounds the claims of one transaction.
	chunkMost = 500

	// conflictsMost is how often a call is made again that was in conflict with
	// another, conflictDelay how long the pause before that is at most.
	conflictsMost = 50
	conflictDelay = 20 * time.Millisecond

	// lockedFirst is the pause before a row is tried again that may have been locked; it
	// doubles up to conflictDelay.
	lockedFirst = 200 * time.Microsecond
)

// Engine is a driver.Backend over a Table. It has no goroutine of its own but while
// somebody waits, for two seconds after that, and for a second after the Release of an
// indeterminate claim.
type Engine struct {
	info  driver.Info
	table Table
	batch int // how many claims a Try or a Release takes

	tries, releases, renewals lane
	names                     nameLanes // of releases

	checked atomic.Bool
	taken   takenNames
	group   background.Group
	sweeper sweeper
	hub     hub
}

var (
	_ driver.Backend = (*Engine)(nil)
	_ driver.Batcher = (*Engine)(nil)
	_ driver.Drainer = (*Engine)(nil)
	_ admin.Source   = (*Engine)(nil)
)

// New returns an Engine over table. It does no I/O.
func New(table Table, limits Limits) *Engine {
	e := &Engine{
		info: limits.info(), table: table, batch: cmp.Or(limits.Batch, chunkMost),
		tries: make(lane, triesMost), releases: make(lane, releasesMost), renewals: make(lane, renewalsMost),
	}
	e.hub.table, e.hub.group, e.hub.listens, e.hub.noQueue = table, &e.group, limits.Listens, limits.NoQueue
	return e
}

// Info describes the store.
func (e *Engine) Info() driver.Info { return e.info }

// Drain waits until no claim is swept and nobody listens, or returns ctx's error.
func (e *Engine) Drain(ctx context.Context) error { return e.hub.drain(ctx) }

// Try makes one attempt. It is granted where the row is free or its owner holds; a
// repeated grant never shortens the lease, and has the same tokens.
func (e *Engine) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	a := e.tryAll(ctx, []driver.Claim{c})[0]
	return a.Outcome, a.Err
}

// TryAll makes one attempt for each of cs, as many in one transaction as the table takes:
// those of one TTL and one number of tokens, as are the claims of a Locker. None of them
// waits in a queue.
func (e *Engine) TryAll(ctx context.Context, cs []driver.Claim) []driver.Attempt {
	passing := slices.Clone(cs)
	for i := range passing {
		passing[i].NoQueue = true
	}
	return e.tryAll(ctx, passing)
}

func (e *Engine) tryAll(ctx context.Context, cs []driver.Claim) []driver.Attempt {
	type shape struct {
		ttl    time.Duration
		tokens int
	}
	answers, alike := make([]driver.Attempt, len(cs)), make(map[shape][]int, 1)
	for i, c := range cs {
		s := shape{c.TTL, c.Tokens}
		alike[s] = append(alike[s], i)
	}
	for _, group := range alike {
		for part := range slices.Chunk(group, e.batch) {
			e.tryAlike(ctx, cs, part, answers)
		}
	}
	return answers
}

// tryAlike fills in the answers to cs[i], i in pending. A row that came up while a
// statement ran is tried again alone: what was granted before stands, whatever becomes
// of that.
func (e *Engine) tryAlike(ctx context.Context, cs []driver.Claim, pending []int, answers []driver.Attempt) {
	stamps := make([]uint64, len(cs)) // of before the call
	for _, i := range pending {
		stamps[i] = e.hub.stamp(cs[i].Name, cs[i].Owner)
	}
	pending = e.readFirst(ctx, cs, pending, stamps, answers)
	for tries := 0; len(pending) > 0; tries++ {
		if tries > 1 { // the row is locked, or another one is made
			retry.Sleep(ctx, lockedDelay(tries-2))
		}
		asked := make([]driver.Claim, len(pending))
		for n, i := range pending {
			asked[n] = cs[i]
		}
		rows, err := call(ctx, e, e.tries, func() ([]Row, error) { return e.table.Try(ctx, asked) })
		left := pending[:0]
		for n, i := range pending {
			switch {
			case err != nil:
				answers[i] = driver.Attempt{Err: fmt.Errorf("%s: try %q: %w", e.info.Name, cs[i].Name, err)}
			case !rows[n].Known && tries < conflictsMost:
				left = append(left, i)
			default:
				answers[i].Outcome = e.answered(&rows[n], &cs[i], stamps[i])
			}
		}
		pending = left
	}
}

// lockedDelay is the pause before a row that may be locked is tried again, after n of them.
func lockedDelay(n int) time.Duration { return min(lockedFirst<<min(n, 10), conflictDelay) }

// answer returns what a Try of c is answered with.
func (r *Row) answer(c driver.Claim, stamp uint64) driver.Outcome {
	if r.Granted {
		return driver.Outcome{Granted: true, Token: r.First, ValidFor: c.TTL}
	}
	place := slices.Index(r.Waiters, c.Owner)
	o := driver.Outcome{Queued: place >= 0, RetryAfter: max(r.FreeIn(c.Owner), 0)}
	if !o.Queued {
		place = Waiting
	}
	o.Ahead = ahead{stamp, place}
	if r.Rest > 0 {
		o.Holder, o.HeldFor, o.Kept = r.Note, max(r.Held, 0), driver.Kept(r.Owner)
	}
	return o
}

// Renew extends the leases that are held. Of those with a fixed end it reads the rows.
func (e *Engine) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	answers := make([]driver.Renewal, len(cs))
	for fixed, renew := range map[bool]func(context.Context, []driver.Claim) ([]bool, error){false: e.table.Renew, true: e.held} {
		var some []driver.Claim
		var at []int
		for i, c := range cs {
			if c.Fixed == fixed {
				some, at = append(some, c), append(at, i)
			}
		}
		e.each(ctx, "renew", e.renewals, some, chunkMost, renew, func(n int, err error) { answers[at[n]].Err = err })
	}
	for i, c := range cs {
		if answers[i].Err == nil {
			answers[i].ValidFor = c.TTL
		}
	}
	return answers, nil
}

// held reports which of cs are held, and changes nothing.
func (e *Engine) held(ctx context.Context, cs []driver.Claim) ([]bool, error) {
	names, held := make([]string, len(cs)), make([]bool, len(cs))
	for i, c := range cs {
		names[i] = c.Name
	}
	rows, err := e.table.Look(ctx, names)
	if err != nil {
		return nil, err
	}
	for i, c := range cs {
		held[i] = rows[i].Rest > 0 && rows[i].Owner == c.Owner
	}
	return held, nil
}

// Release ends the lease, and wakes waiters. Of a claim that is Indeterminate it
// is repeated a second later, in the background.
func (e *Engine) Release(ctx context.Context, c driver.Claim) error {
	return e.ReleaseAll(ctx, []driver.Claim{c})[0]
}

// ReleaseAll releases each of cs, as many in one transaction as the table takes.
func (e *Engine) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	errs := make([]error, len(cs))
	for _, c := range cs {
		e.taken.drop(c.Name)
	}
	e.each(ctx, "release", nil, cs, e.batch, e.release, func(i int, err error) { errs[i] = err })
	var late []driver.Claim
	for i, c := range cs {
		if c.Indeterminate && !errors.Is(errs[i], driver.ErrNotExecuted) { // else the next Release would find it gone, and call it lost
			late = append(late, c)
		}
	}
	e.sweep(late)
	return errs
}

// release makes a Release when there is room in its lane, and in that of its name if it has
// only one. Several take their rows in order, and are few.
func (e *Engine) release(ctx context.Context, cs []driver.Claim) ([]bool, error) {
	if len(cs) == 1 {
		leave, err := e.names.enter(ctx, cs[0].Name)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	if err := e.releases.enter(ctx); err != nil {
		return nil, err
	}
	defer e.releases.leave()
	return e.table.Release(ctx, cs)
}

// each calls do with cs, most at a time, and answer with what became of each: a
// claim that do did not find is gone.
func (e *Engine) each(ctx context.Context, what string, in lane, cs []driver.Claim, most int, do func(context.Context, []driver.Claim) ([]bool, error), answer func(i int, err error)) {
	var gone []int
	for at := 0; at < len(cs); at += most {
		chunk := cs[at:min(at+most, len(cs))]
		found, err := call(ctx, e, in, func() ([]bool, error) { return do(ctx, chunk) })
		for n, c := range chunk {
			switch {
			case err != nil:
				answer(at+n, fmt.Errorf("%s: %s %q: %w", e.info.Name, what, c.Name, err))
			case !found[n]:
				gone = append(gone, at+n)
			}
		}
	}
	for part := range slices.Chunk(gone, chunkMost) {
		for n, err := range e.reasons(ctx, in, cs, part) {
			answer(part[n], err)
		}
	}
}

// reasons says why the claims cs[i], i in gone, are gone, as far as the rows tell.
func (e *Engine) reasons(ctx context.Context, in lane, cs []driver.Claim, gone []int) []error {
	names, errs := make([]string, len(gone)), make([]error, len(gone))
	for n, i := range gone {
		names[n] = cs[i].Name
	}
	rows, err := call(ctx, e, in, func() ([]Row, error) { return e.table.Look(ctx, names) })
	for n, i := range gone {
		g := &driver.GoneError{Reason: driver.ReasonExpired, Detail: "nothing of the claim is left: it expired or was released"}
		switch {
		case err != nil: // that it is gone is certain all the same
		case rows[n].Forced == cs[i].Owner:
			g = &driver.GoneError{Reason: driver.ReasonForced, Detail: "ended by force: " + rows[n].Reason}
		case !rows[n].Known:
			g = &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "the row of the name is not there"}
		case rows[n].Rest > 0 && rows[n].Owner != "" && rows[n].Owner != cs[i].Owner && !driver.Kept(rows[n].Owner):
			g = &driver.GoneError{Reason: driver.ReasonNotOwner, Detail: fmt.Sprintf("another owner holds the name: %q", rows[n].Note)}
		}
		errs[n] = g
	}
	return errs
}

// call makes a call of the table when there is room in its lane, and makes it again where
// it was in conflict with another transaction: it was undone, so nothing is repeated that
// has had an effect.
func call[T any](ctx context.Context, e *Engine, in lane, do func() (T, error)) (answer T, err error) {
	if err := ctx.Err(); err != nil {
		return answer, unsent.Error(err)
	}
	if err := in.enter(ctx); err != nil {
		return answer, err
	}
	defer in.leave()
	if !e.checked.Load() {
		if err := e.table.Check(ctx); err != nil {
			return answer, notExecuted(err)
		}
		e.checked.Store(true)
	}
	for conflicts := 0; ; conflicts++ {
		answer, err = do()
		if !errors.Is(err, ErrConflict) || conflicts == conflictsMost ||
			!retry.Sleep(ctx, retry.Delay(conflicts+1, conflictDelay)) {
			return answer, err
		}
	}
}

// notExecuted says of an error that it came up before the call was made.
func notExecuted(err error) error {
	if errors.Is(err, driver.ErrNotExecuted) {
		return err
	}
	return unsent.Error(err)
}
