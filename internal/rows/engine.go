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
	// chunkMost is how many claims one transaction has at most.
	chunkMost = 500

	// conflictsMost is how often the Engine repeats a call at most, if its transaction was in
	// conflict with another transaction, or if another transaction may have locked the row.
	// conflictDelay is the longest pause before such a repetition.
	conflictsMost = 50
	conflictDelay = 20 * time.Millisecond

	// lockedFirst is the first pause before the Engine repeats the Try of a row that another
	// transaction may have locked. Each later pause is twice as long, up to conflictDelay.
	lockedFirst = 200 * time.Microsecond
)

// Engine is a driver.Backend over a Table. It has goroutines only in these times: while there
// are waiters, for two seconds after the last waiter was closed, and for at least one second
// after the Release of an indeterminate claim.
type Engine struct {
	info  driver.Info
	table Table
	batch int // the most claims of one call of Table.Try or Table.Release

	tries, releases, renewals limiter
	releaseLocks              nameLocks // one release at a time changes a row

	checked atomic.Bool
	taken   Recent[bool] // names that a Try or a read has just found taken; the value is true if the queue was full
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
		tries: make(limiter, triesMost), releases: make(limiter, releasesMost), renewals: make(limiter, renewalsMost),
	}
	e.hub.table, e.hub.group, e.hub.listens, e.hub.noQueue = table, &e.group, limits.Listens, limits.NoQueue
	return e
}

// Info returns what the store can do.
func (e *Engine) Info() driver.Info { return e.info }

// Drain waits until the hub has stopped, and no claim is left that the Engine must release once
// more. If ctx ends first, Drain returns the error of ctx.
func (e *Engine) Drain(ctx context.Context) error { return e.hub.drain(ctx) }

// Try makes one attempt. The name is granted if its row is free for c.Owner, or if c.Owner is
// the holder already. A repeated grant never shortens the lease, and has the same tokens.
func (e *Engine) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	a := e.tryAll(ctx, []driver.Claim{c})[0]
	return a.Outcome, a.Err
}

// TryAll makes one attempt for each claim in cs. No claim enters a queue. Claims with the same
// TTL and the same number of tokens, such as those of one Locker, share transactions. A
// transaction has at most Limits.Batch claims.
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

// tryAlike fills in answers[i] for each index i in `pending`, by a Try of the claim cs[i]. A
// Try has no answer for a claim if the row of the name may be locked, or was created while the
// statement ran. In that case tryAlike tries the claim again, in another transaction. The
// grants of earlier transactions stay.
func (e *Engine) tryAlike(ctx context.Context, cs []driver.Claim, pending []int, answers []driver.Attempt) {
	versions := make([]uint64, len(cs)) // of the topics, before the first statement
	for _, i := range pending {
		versions[i] = e.hub.versionOf(cs[i].Name, cs[i].Owner)
	}
	pending = e.readFirst(ctx, cs, pending, versions, answers)
	for tries := 0; len(pending) > 0; tries++ {
		if tries > 1 { // the row is locked, or another client is creating it
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
				answers[i].Outcome = e.recordAnswer(&rows[n], &cs[i], versions[i])
			}
		}
		pending = left
	}
}

// lockedDelay returns the pause before the Engine repeats a Try of a row that may be locked.
// The parameter n is the number of earlier pauses.
func lockedDelay(n int) time.Duration { return min(lockedFirst<<min(n, 10), conflictDelay) }

// answer returns the Outcome for the claim c, whose Try has returned the row r. The parameter
// `version` is the version of the topic before that Try.
func (r *Row) answer(c driver.Claim, version uint64) driver.Outcome {
	if r.Granted {
		validFor := c.TTL
		if r.Remaining > 0 { // an earlier call of the claim may have got the name, and this one may not have extended its lease
			validFor = min(validFor, r.Remaining)
		}
		return driver.Outcome{Granted: true, Token: r.First, ValidFor: validFor}
	}
	position := slices.Index(r.Waiters, c.Owner)
	o := driver.Outcome{Queued: position >= 0, RetryAfter: max(r.FreeIn(c.Owner), 0)}
	if !o.Queued {
		position = Waiting
	}
	o.Ahead = ahead{version, position, c.NoQueue}
	if r.Remaining > 0 {
		o.Holder, o.HeldFor, o.Kept = r.Note, max(r.HeldFor, 0), driver.Kept(r.Owner)
	}
	return o
}

// Renew extends the lease of each claim whose owner is the holder. If Claim.Fixed is set, Renew
// only reads the row.
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

// held reports for each claim in cs whether the owner of the claim is the holder. It changes no
// row.
func (e *Engine) held(ctx context.Context, cs []driver.Claim) ([]bool, error) {
	names, held := make([]string, len(cs)), make([]bool, len(cs))
	for i, c := range cs {
		names[i] = c.Name
	}
	rows, err := e.table.Read(ctx, names)
	if err != nil {
		return nil, err
	}
	for i, c := range cs {
		held[i] = rows[i].Remaining > 0 && rows[i].Owner == c.Owner
	}
	return held, nil
}

// Release ends the lease, and wakes waiters. If c.Indeterminate is set, the Engine repeats
// the release a second later, in the background.
func (e *Engine) Release(ctx context.Context, c driver.Claim) error {
	return e.ReleaseAll(ctx, []driver.Claim{c})[0]
}

// ReleaseAll releases each claim in cs. A transaction has at most Limits.Batch claims.
func (e *Engine) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	errs := make([]error, len(cs))
	for _, c := range cs {
		e.taken.Drop(c.Name)
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

// release calls Table.Release, and respects the limit of concurrent releases. If cs has a
// single claim, it also waits for the lock of the name in releaseLocks. Several claims do not
// need these locks: the database locks their rows in order, and such calls are few.
func (e *Engine) release(ctx context.Context, cs []driver.Claim) ([]bool, error) {
	if len(cs) == 1 {
		leave, err := e.releaseLocks.acquire(ctx, cs[0].Name)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	if err := e.releases.acquire(ctx); err != nil {
		return nil, err
	}
	defer e.releases.release()
	return e.table.Release(ctx, cs)
}

// each calls the function `do` with parts of cs. A part has at most as many claims as the
// number `most`. A claim has failed if `do` returned an error, or did not find the claim, which
// is then gone. For each claim that failed, `each` calls the function `answer` with the index
// of the claim in cs and with an error.
func (e *Engine) each(ctx context.Context, what string, in limiter, cs []driver.Claim, most int, do func(context.Context, []driver.Claim) ([]bool, error), answer func(i int, err error)) {
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

// reasons returns the errors of the claims that are gone: one for each index in the parameter
// `gone`, in the same order. An error says why the claim is gone, as far as the row of the name
// shows the reason.
func (e *Engine) reasons(ctx context.Context, in limiter, cs []driver.Claim, gone []int) []error {
	names, errs := make([]string, len(gone)), make([]error, len(gone))
	for n, i := range gone {
		names[n] = cs[i].Name
	}
	rows, err := call(ctx, e, in, func() ([]Row, error) { return e.table.Read(ctx, names) })
	for n, i := range gone {
		g := &driver.GoneError{Reason: driver.ReasonExpired, Detail: "nothing of the claim is left: it expired or was released"}
		switch {
		case err != nil: // the claim is gone all the same
		case rows[n].Forced == cs[i].Owner:
			g = &driver.GoneError{Reason: driver.ReasonForced, Detail: "ended by force: " + rows[n].Reason}
		case !rows[n].Known:
			g = &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "the row of the name is not there"}
		case rows[n].Remaining > 0 && rows[n].Owner != "" && rows[n].Owner != cs[i].Owner && !driver.Kept(rows[n].Owner):
			g = &driver.GoneError{Reason: driver.ReasonNotOwner, Detail: fmt.Sprintf("another owner holds the name: %q", rows[n].Note)}
		}
		errs[n] = g
	}
	return errs
}

// call calls the function `do`, and returns its results. The limiter `in` limits how many such
// calls run at once. Before the first `do` of the Engine, it checks the table. If `do` returns
// ErrConflict, it calls `do` again. In that case the database has undone the transaction, so
// nothing takes effect twice.
func call[T any](ctx context.Context, e *Engine, in limiter, do func() (T, error)) (answer T, err error) {
	if err := ctx.Err(); err != nil {
		return answer, unsent.Error(err)
	}
	if err := in.acquire(ctx); err != nil {
		return answer, err
	}
	defer in.release()
	if !e.checked.Load() {
		if err := e.table.Check(ctx); err != nil {
			return answer, unsent.Error(err)
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
