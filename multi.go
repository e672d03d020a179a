package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Locks are several locks held together.
type Locks []*Lock

// LockAll takes all of ms or none. It waits for busy locks. If ctx ends first, it returns ctx's
// error. The option Wait limits the whole call: after that time LockAll returns ErrBusy with
// the holder that it waited for. In both cases it releases the locks that it has taken, in the
// background if the store is slow; Locker.Drain waits for that. The other options apply to each
// lock; Lease and AtMost count from the grant of each lock. AtLeast is an error. Calls of
// LockAll cannot deadlock, in whatever order they list the mutexes: a waiter holds only locks
// whose names come before the one it waits for. There is one exception: if one name is used
// with several Lockers, those mutexes are taken in the order of ms, which must then be the same
// everywhere. A program that also takes some of the locks one by one must do so in the order of
// their names.
//
// If all locks are free, those of one Locker take one round trip, if its store supports
// that.
//
// LockAll returns ErrLost as soon as it loses a lock while it waits for another; the error
// names both locks. It returns ErrDeadlock if ms has a name of one Locker twice, also with
// different kinds.
func LockAll(ctx context.Context, ms []*Mutex, opts ...Option) (Locks, error) {
	sorted := slices.SortedStableFunc(slices.Values(ms), func(a, b *Mutex) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return int(a.kind) - int(b.kind)
	})
	if m := namedTwice(sorted); m != nil {
		return nil, fmt.Errorf("lock %q: %w: LockAll got this name twice", m.name, ErrDeadlock)
	}
	requests := make([]request, len(sorted))
	for i, m := range sorted {
		r, err := m.prepare(ctx, forever, opts)
		if err == nil && r.atLeast != 0 {
			err = fmt.Errorf("AtLeast is for one Mutex, not for LockAll: %w", errors.ErrUnsupported)
		}
		if err != nil {
			return nil, fmt.Errorf("lock %q: %w", m.name, err)
		}
		requests[i] = r
	}
	began := time.Now()
	locks := make(Locks, 0, len(ms))
	held, cancel := context.WithCancel(ctx) // ends when one of the locks taken so far is lost
	defer cancel()
	joined := 0 // the number of locks whose end also ends the context `held`
	giveUp := func(err error) (Locks, error) { return nil, locks.giveUp(ctx, requests[0].left(began), err) }
	for len(locks) < len(sorted) {
		some, err := atOnce(ctx, sorted[len(locks):], requests[len(locks):], requests[0].left(began))
		locks = append(locks, some...)
		if err != nil {
			return giveUp(err)
		}
		if len(locks) == len(sorted) {
			break
		}
		held = locks[joined:].Context(held)
		joined = len(locks)
		next, until := sorted[joined], held
		if ctx.Err() != nil {
			until = ctx // ctx ends a moment before the context `held` does, and a try could start in between
		}
		lock, err := next.lock(until, forever, append(opts[:len(opts):len(opts)], Wait(requests[0].left(began))))
		lost := locks.Err()
		locks = append(locks, lock) // lock is nil if err is not nil
		switch {
		case lost != nil && ctx.Err() == nil:
			return giveUp(fmt.Errorf("%w, while LockAll waited for lock %q", lost, next.name))
		case err != nil:
			return giveUp(err)
		}
	}
	if err := locks.Err(); err != nil {
		return giveUp(err)
	}
	return locks, nil
}

// DoAll takes all of ms as LockAll does, runs fn with the locks, and then unlocks them. The
// context of fn ends when the first of the locks is lost.
func DoAll(ctx context.Context, ms []*Mutex, fn func(context.Context, Locks) error, opts ...Option) error {
	locks, err := LockAll(ctx, ms, opts...)
	return doWith(ctx, locks, err, fn)
}

// left returns how much longer a call that began at `began` may wait. When the time is over,
// left returns 1ns and not 0, because 0 means a try that does not wait, and such a try has
// another time limit.
func (r request) left(began time.Time) time.Duration {
	if r.wait == 0 || r.wait >= clock.Longest {
		return r.wait
	}
	return max(r.wait-time.Since(began), 1)
}

// namedTwice returns a mutex that has the same name and the same Locker as an earlier mutex in
// the sorted list; nil if there is none. LockAll would hold the earlier mutex while it waits
// for the later one, whatever their kinds are.
func namedTwice(sorted []*Mutex) *Mutex {
	for i, m := range sorted {
		for j := i - 1; j >= 0 && sorted[j].name == m.name; j-- {
			if sorted[j].locker == m.locker {
				return m
			}
		}
	}
	return nil
}

// batchMost bounds the claims in one TryAll.
const batchMost = 1000

// atOnce tries the first mutexes of a sorted list together: those before the first mutex for
// which the method ready returns false. It returns the granted locks that come before the first
// mutex that was not granted. It releases later ones, because a caller that waits for a busy
// lock must not hold a lock that comes later in the list. The error is that of a lock that the
// store will never grant.
func atOnce(ctx context.Context, ms []*Mutex, requests []request, wait time.Duration) (Locks, error) {
	if ownerOf(ctx) != nil || ctx.Err() != nil {
		return nil, nil
	}
	ms = ms[:min(len(ms), batchMost)]
	as, n := make([]acquisition, len(ms)), 0
	for n < len(ms) && ms[n].ready(ctx, &as[n], requests[n]) {
		n++
	}
	if n < 2 {
		for i := range n {
			as[i].giveUp()
		}
		return nil, nil
	}
	as = as[:n]
	b := &batch{as: as, answers: make([]driver.Attempt, len(as))}
	limit := ctx
	if 0 < wait && wait < clock.Longest {
		var cancel context.CancelFunc
		limit, cancel = context.WithTimeout(ctx, max(wait, retry.TimeoutLeast))
		defer cancel()
	}
	b.ask(limit)
	return b.take(ctx)
}

// ready fills the acquisition `a` for m, and gives it the place of a head in the queue of m.
// It returns false if m has to be locked alone.
func (m *Mutex) ready(ctx context.Context, a *acquisition, r request) bool {
	if _, ok := m.locker.backend.(driver.Batcher); !ok || holdsAlready(ctx, m) {
		return false
	}
	r.wait = 0 // busy locks are waited for later, one by one
	a.init(m.locker, m.name, m.kind, r)
	if a.waitInQueue(ctx, ctx) != nil {
		return false
	}
	a.makeClaim()
	return true
}

// batch is one try for each of several claims. It has the answers in the order of the claims.
type batch struct {
	as      []acquisition
	answers []driver.Attempt
}

// ask makes one call for each Locker, all of them at the same time.
func (b *batch) ask(ctx context.Context) {
	of := make(map[*Locker][]int)
	for i := range b.as {
		l := b.as[i].locker
		of[l] = append(of[l], i)
	}
	var wg sync.WaitGroup
	for l, at := range of {
		wg.Go(func() { b.askOne(ctx, l, at) })
	}
	wg.Wait()
}

func (b *batch) askOne(ctx context.Context, l *Locker, at []int) {
	claims, as := make([]driver.Claim, len(at)), make([]*acquisition, len(at))
	start := l.clock.Read()
	for j, i := range at {
		as[j] = &b.as[i]
		as[j].tries++
		as[j].asked = start
		claims[j] = as[j].claim
		b.answers[i].Err = retry.ErrNoAnswer
	}
	for j, answer := range l.tryAll(ctx, as, claims) {
		b.answers[at[j]] = answer
	}
}

// tryAll makes one attempt for several acquisitions.
func (l *Locker) tryAll(ctx context.Context, as []*acquisition, claims []driver.Claim) []driver.Attempt {
	if !l.info.Caps.Tombstones {
		return l.tryAllDetached(ctx, as, claims)
	}
	attempt, cancel := context.WithTimeout(ctx, retry.Timeout(l.ttl, 0))
	defer cancel()
	for _, a := range as { // otherwise a name may be busy because of such a release, and then the locks after it are released again
		_ = metOwnRelease(attempt, a.ownRelease())
	}
	return l.backend.(driver.Batcher).TryAll(attempt, claims) //nolint:forcetypeassert // ready has checked
}

// take keeps the granted locks that come before the first claim that was not granted. It
// releases the others, and then reports the calls. The error is that of the first claim that
// was not granted, if another try cannot succeed.
func (b *batch) take(ctx context.Context) (locks Locks, err error) {
	locks = b.keep()
	for i := range b.as {
		a, failed := &b.as[i], b.answers[i].Err
		a.locker.reportCall(ctx, OpTry, &a.claim, a.asked.Mono, failed)
		switch {
		case i < len(locks):
			a.report(ctx, locks[i], nil)
		case i == len(locks) && retry.Final(failed) && !retry.Gone(failed):
			err = a.refused(ctx, failed)
			a.report(ctx, nil, err)
		}
	}
	return locks, err
}

func (b *batch) keep() Locks {
	locks := make(Locks, 0, len(b.as))
	for i := range b.as {
		a, answer := &b.as[i], &b.answers[i]
		if len(locks) == i && answer.Err == nil && answer.Outcome.Granted {
			if lock := a.granted(a.asked, answer.Outcome); lock != nil {
				locks = append(locks, lock)
				continue
			}
		}
		if answer.Err != nil && !retry.Certain(answer.Err) {
			a.claim.Indeterminate = true
		}
		a.grantUnused = answer.Outcome.Granted
		a.giveUp()
	}
	return locks
}

// giveUp releases the locks after the error err, and returns err. It waits for the releases
// until ctx ends or the time `wait` has passed, and for a round trip after that. Then the
// releases go on in the background. Their errors are joined to err, except for losses, which
// the caller need not know.
func (ks Locks) giveUp(ctx context.Context, wait time.Duration, err error) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	ks = slices.DeleteFunc(ks, func(k *Lock) bool { return k == nil })
	for _, k := range ks {
		k.hold.lease.locker.background.Begin()
	}
	released := make(chan error, 1)
	go func() {
		released <- ks.Unlock()
		for _, k := range ks {
			k.hold.lease.locker.background.End()
		}
	}()
	var failed error
	select {
	case failed = <-released:
	case <-ctx.Done():
		select {
		case failed = <-released:
		case <-time.After(retry.TimeoutLeast):
		}
	}
	switch {
	case errors.Is(failed, ErrLost):
		failed = nil
	case failed != nil:
		failed = retry.Unanswered(failed) // it must not look like the end of the caller's context
	}
	return errors.Join(err, failed)
}

// Err returns nil while all locks are held, and otherwise the error of the first one that
// is not. See Lock.Err.
func (ks Locks) Err() error {
	for _, k := range ks {
		if err := k.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Context returns a context for the work under the locks. It is derived from ctx, and
// ends when the first of the locks is lost or unlocked.
func (ks Locks) Context(ctx context.Context) context.Context {
	for _, k := range ks {
		ctx = k.Context(ctx)
	}
	return ctx
}

// Unlock releases all locks and returns their errors joined, or nil. The locks of one
// Locker take one round trip, if its store supports that.
func (ks Locks) Unlock() error { return ks.unlock(false) }

// unlock is Unlock. It always waits for the answers of the stores.
func (ks Locks) unlock(bool) error {
	errs := make([]error, len(ks))
	together := make(map[*Locker][]int)
	var wg sync.WaitGroup
	for i, k := range ks {
		if k.inBatch() {
			l := k.hold.lease.locker
			together[l] = append(together[l], i)
		} else {
			wg.Go(func() { errs[i] = k.unlock(false) })
		}
	}
	for l, at := range together {
		for len(at) > 0 {
			n := min(len(at), batchMost)
			some := at[:n]
			at = at[n:]
			wg.Go(func() { l.unlockAll(ks, some, errs) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// inBatch reports whether a lock can be released together with others.
func (k *Lock) inBatch() bool {
	if k == nil || k.owned != nil {
		return false
	}
	_, ok := k.hold.lease.locker.backend.(driver.Batcher)
	return ok
}
