package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// LockAll takes all of ms or none. It waits for busy locks. If ctx ends first, it returns ctx's
// error. The option Wait limits the whole call: after that time LockAll returns ErrBusy with
// the holder that it waited for. In both cases it releases the locks that it has taken, in the
// background if the store is slow; Locker.Drain waits for that. The other options apply to each
// lock; FixedLease and AtMost count from the grant of each lock. AtLeast and RetryRefused are errors. Calls of
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
	sorted := make([]*Mutex, len(ms))
	copy(sorted, ms)
	slices.SortStableFunc(sorted, byName)
	if m := namedTwice(sorted); m != nil {
		return nil, fmt.Errorf("lock %q: %w: LockAll got this name twice", m.name, ErrDeadlock)
	}
	tries := make(batch, len(sorted))
	var all request // the options of the call
	for i, m := range sorted {
		r, err := m.locker.prepare(ctx, m.name, m.kind, forever, opts)
		if err == nil && r.atLeast != 0 {
			err = fmt.Errorf("AtLeast is for one Mutex, not for LockAll: %w", errors.ErrUnsupported)
		}
		if err == nil && r.refused != nil {
			err = fmt.Errorf("RetryRefused is for one lock, not for LockAll: %w", errors.ErrUnsupported)
		}
		if err != nil {
			return nil, fmt.Errorf("lock %q: %w", m.name, err)
		}
		all = r
		tries[i].req = r
	}
	began := time.Now()
	locks, err := tries.atOnce(ctx, sorted, all.left(began), make(Locks, 0, len(sorted)))
	if err == nil && len(locks) < len(sorted) {
		locks, err = tries.oneByOne(ctx, sorted, opts, all, began, locks)
	}
	if err == nil {
		err = locks.Err()
	}
	if err != nil {
		return nil, locks.giveUp(ctx, all.left(began), err)
	}
	return locks, nil
}

// byName orders the mutexes of a LockAll by name, and then by kind.
func byName(a, b *Mutex) int {
	return cmp.Or(strings.Compare(a.name, b.name), int(a.kind)-int(b.kind))
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

// oneByOne takes the mutexes that atOnce has not taken. It waits for the first of them, tries
// the rest at once, and so on. The parameter `locks` has the locks that LockAll has taken so
// far. oneByOne returns them with those that it has taken, also if it returns an error.
func (b batch) oneByOne(ctx context.Context, sorted []*Mutex, opts []Option, all request, began time.Time, locks Locks) (Locks, error) {
	held, cancel := context.WithCancel(ctx) // ends when one of the locks taken so far is lost
	defer cancel()
	joined := 0 // the number of locks whose end also ends the context `held`
	for len(locks) < len(sorted) {
		held = locks[joined:].Context(held)
		joined = len(locks)
		next := sorted[joined]
		until := held
		if ctx.Err() != nil {
			until = ctx // ctx ends a moment before the context `held` does, and a try could start in between
		}
		lock, err := next.lock(until, forever, append(opts[:len(opts):len(opts)], Wait(all.left(began))))
		lost := locks.Err()
		locks = append(locks, lock) // lock is nil if err is not nil
		switch {
		case lost != nil && ctx.Err() == nil:
			return locks, fmt.Errorf("%w, while LockAll waited for lock %q", lost, next.name)
		case err != nil:
			return locks, err
		}
		if locks, err = b[len(locks):].atOnce(ctx, sorted[len(locks):], all.left(began), locks); err != nil {
			return locks, err
		}
	}
	return locks, nil
}

// DoAll takes all of ms as LockAll does, runs fn with the locks, and then unlocks them. The
// context of fn ends when the first of the locks is lost.
func DoAll(ctx context.Context, ms []*Mutex, fn func(context.Context, Locks) error, opts ...Option) error {
	locks, err := LockAll(ctx, ms, opts...)
	return doWith(ctx, locks, err, fn)
}

// batchMost bounds the claims in one TryAll.
const batchMost = 1000

// batch has the tries of a LockAll, in the order of the names.
type batch []batchTry

// batchTry is one try for a claim, together with the tries for other claims.
type batchTry struct {
	acquisition
	answer driver.Attempt
}

// atOnce tries the first mutexes of a sorted list together: those before the first mutex for
// which the method ready returns false. It adds the granted locks that come before the first
// mutex that was not granted to `locks`. It releases later ones, because a caller that waits for
// a busy lock must not hold a lock that comes later in the list. The error is that of a lock
// that the store will never grant.
func (b batch) atOnce(ctx context.Context, ms []*Mutex, wait time.Duration, locks Locks) (Locks, error) {
	if ownerOf(ctx) != nil || ctx.Err() != nil {
		return locks, nil
	}
	n := 0
	for n < min(len(ms), batchMost) && ms[n].ready(ctx, &b[n].acquisition) {
		n++
	}
	b = b[:n]
	if n < 2 {
		b.giveUp()
		return locks, nil
	}
	limit := ctx
	if 0 < wait && wait < clock.Longest {
		var cancel context.CancelFunc
		limit, cancel = context.WithTimeout(ctx, max(wait, retry.TimeoutLeast))
		defer cancel()
	}
	returned := false
	defer func() {
		if !returned { // the store's code has panicked
			b.giveUp()
		}
	}()
	b.ask(limit)
	returned = true
	locks, err := b.take(ctx, locks)
	if limit.Err() != nil {
		until := time.Now().Add(removalWait)
		for i := range b {
			b[i].awaitRemoval(until)
		}
	}
	return locks, err
}

func (b batch) giveUp() {
	for i := range b {
		b[i].acquisition.giveUp()
	}
}

// ready fills the acquisition `a` for m, and gives it the place of a head in the queue of m.
// The field a.req is set already. ready returns false if m has to be locked alone.
func (m *Mutex) ready(ctx context.Context, a *acquisition) bool {
	if _, ok := m.locker.backend.(driver.Batcher); !ok || holdsAlready(ctx, m.locker, m.name) {
		return false
	}
	a.req.wait = 0 // busy locks are waited for later, one by one
	a.init(ctx, m.locker, m.name, m.kind, a.req)
	if a.waitInQueue(callTime{ctx, ctx}) != nil {
		return false
	}
	a.makeClaim()
	return true
}

// ask makes one call for each Locker, all of them at the same time.
func (b batch) ask(ctx context.Context) {
	for i := range b {
		if b[i].locker != b[0].locker {
			b.askSeveral(ctx)
			return
		}
	}
	b.askOne(ctx, b[0].locker)
}

func (b batch) askSeveral(ctx context.Context) {
	asked := make(map[*Locker]bool)
	var calls sync.WaitGroup
	for i := range b {
		if l := b[i].locker; !asked[l] {
			asked[l] = true
			calls.Go(func() { b.askOne(ctx, l) })
		}
	}
	calls.Wait()
}

// of returns the tries of one Locker.
func (b batch) of(l *Locker) iter.Seq[*batchTry] {
	return func(yield func(*batchTry) bool) {
		for i := range b {
			if b[i].locker == l && !yield(&b[i]) {
				return
			}
		}
	}
}

// askOne makes one call for the tries of one Locker, and records the answers.
func (b batch) askOne(ctx context.Context, l *Locker) {
	claims := make([]driver.Claim, 0, len(b))
	start := l.clock.Read()
	for a := range b.of(l) {
		a.tries++
		a.asked = start
		a.asking = true
		claims = append(claims, a.claim)
	}
	answers := b.call(ctx, l, claims)
	for a := range b.of(l) {
		a.asking = false
		a.answer = driver.Attempt{Err: retry.ErrNoAnswer}
		if len(answers) > 0 {
			a.answer = answers[0]
			answers = answers[1:]
		}
	}
}

// call makes one attempt for the claims of all tries of one Locker.
func (b batch) call(ctx context.Context, l *Locker, claims []driver.Claim) []driver.Attempt {
	if !l.info.Caps.Tombstones {
		return l.tryAllDetached(ctx, b, claims)
	}
	attempt := deadline.New(ctx, time.Now().Add(retry.Timeout(l.ttl, 0)))
	defer attempt.End()
	for a := range b.of(l) { // otherwise a name may be busy because of such a release, and then the locks after it are released again
		l.releases.wait(attempt, a.ownRelease())
	}
	return l.backend.(driver.Batcher).TryAll(attempt, claims) //nolint:forcetypeassert // ready has checked
}

// tryAllDetached is tryDetached for the tries of a batch that are l's.
func (l *Locker) tryAllDetached(ctx context.Context, b batch, claims []driver.Claim) []driver.Attempt {
	store := l.backend.(driver.Batcher) //nolint:forcetypeassert // ready has checked
	answers, try := callDetached(ctx, l, retry.Timeout(l.ttl, 0), func(ctx context.Context) []driver.Attempt {
		return store.TryAll(ctx, claims)
	}, func(answers []driver.Attempt) bool { return slices.ContainsFunc(answers, maybeSent) })
	for a := range b.of(l) {
		a.detached = try
	}
	return answers
}

// take keeps the granted locks that come before the first claim that was not granted, and adds
// them to `locks`. It releases the others, and then reports the calls. The error is that of the
// first claim that was not granted, if another try cannot succeed.
func (b batch) take(ctx context.Context, locks Locks) (_ Locks, err error) {
	before := len(locks)
	locks = b.keep(locks)
	taken := locks[before:]
	for i := range b {
		a := &b[i]
		failed := a.answer.Err
		a.locker.reportCall(ctx, OpTry, &a.claim, a.asked.Mono, failed)
		switch {
		case i < len(taken):
			a.report(ctx, taken[i], nil)
		case i == len(taken) && retry.Final(failed) && !retry.Gone(failed):
			err = refusedBy(ctx, a.claim.Name, failed)
			a.report(ctx, nil, err)
		}
	}
	return locks, err
}

// keep is take without the reports. The leases of the kept locks are in one slice, and so are
// the Locks, which saves allocations.
func (b batch) keep(locks Locks) Locks {
	n := 0
	for n < len(b) && b[n].answer.Err == nil && b[n].answer.Outcome.Granted {
		n++
	}
	leases := make([]lease, n)
	room := make([]Lock, n)
	kept := 0
	for i := range b {
		a := &b[i]
		answer := &a.answer
		if i == kept && i < n {
			a.room = holdRoom{&leases[i], &room[i]}
			if lock := a.granted(a.asked, answer.Outcome); lock != nil {
				locks = append(locks, lock)
				kept++
				continue
			}
		}
		if answer.Err != nil && !retry.Certain(answer.Err) {
			a.claim.Indeterminate = true
		}
		a.grantUnused = answer.Outcome.Granted
		a.giveUp()
	}
	shareNet(room[:kept], leases[:kept])
	return locks
}

// Locks are several locks held together.
type Locks []*Lock

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
	ks.stopSharedNet()
	if len(ks) > 0 && len(ks) <= batchMost && !slices.ContainsFunc(ks, func(k *Lock) bool { return !k.inBatch() || !k.sameLocker(ks[0]) }) {
		return errors.Join(ks[0].hold.lease.locker.unlockAll(ks)...)
	}
	return errors.Join(ks.unlockSeveral()...)
}

// unlockSeveral releases locks of several Lockers, or locks that cannot be released together. It
// returns the errors of those that failed.
func (ks Locks) unlockSeveral() []error {
	var calls []func() []error
	var lockers []*Locker
	together := make(map[*Locker]Locks)
	for _, k := range ks {
		if !k.inBatch() {
			calls = append(calls, func() []error { return []error{k.unlock(false)} })
			continue
		}
		l := k.hold.lease.locker
		if together[l] == nil {
			lockers = append(lockers, l)
		}
		together[l] = append(together[l], k)
	}
	for _, l := range lockers {
		for some := range slices.Chunk(together[l], batchMost) {
			calls = append(calls, func() []error { return l.unlockAll(some) })
		}
	}
	errs := make([][]error, len(calls))
	var wg sync.WaitGroup
	for i, unlock := range calls {
		wg.Go(func() { errs[i] = unlock() })
	}
	wg.Wait()
	return slices.Concat(errs...)
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

// sameLocker reports whether two locks are of one Locker.
func (k *Lock) sameLocker(other *Lock) bool { return k.hold.lease.locker == other.hold.lease.locker }

// inBatch reports whether a lock can be released together with others.
func (k *Lock) inBatch() bool {
	if k == nil || k.owned != nil {
		return false
	}
	_, ok := k.hold.lease.locker.backend.(driver.Batcher)
	return ok
}

// unlockAll unlocks locks of l in one call. It returns the errors of those that failed.
func (l *Locker) unlockAll(ks Locks) (errs []error) {
	var ctx *deadline.Context
	released := make([]*hold, 0, len(ks))
	claims := make([]driver.Claim, 0, len(ks)) // of the released holds
	var passed []*hold
	defer func() { // last, because the observer may be slow
		for _, h := range passed {
			h.report(nil)
		}
	}()
	now := l.clock.Now()
	until := now + retry.TimeoutLeast // the call may take as long as the longest lease
	for _, k := range ks {
		k.stopNet()
		if k.hold.passOn() {
			passed = append(passed, k.hold)
		} else if err := k.hold.finish(); err != nil {
			errs = append(errs, err)
		} else {
			ctx = &k.releasing // that of any of them
			released = append(released, k.hold)
			claims = append(claims, k.hold.lease.releaseClaim(now))
			until = max(until, k.hold.lease.unlockBy(now))
		}
		runtime.KeepAlive(k)
	}
	if len(released) > 0 {
		errs = append(errs, l.releaseAll(ctx, released, claims, now, until)...)
	}
	return errs
}

// shareNet sets one net for Locks that lie in one slice, whose holds are the first ones of
// leases in one slice. The garbage collector finds these Locks when the program has dropped all
// of them.
func shareNet(locks []Lock, leases []lease) {
	if len(locks) == 0 {
		return
	}
	if c := leases[0].locker.collector; c != nil {
		for i := range locks {
			c.Returned(&locks[i], leases[i].first.dropped)
		}
		return
	}
	net := runtime.AddCleanup(&locks[0], func(leases []lease) {
		for i := range leases {
			leases[i].first.dropped()
		}
	}, leases)
	for i := range locks {
		locks[i].net = net
		leases[i].first.sharers = int32(len(locks))
	}
}

// stopSharedNet is called before all locks in ks are unlocked. It stops the net that they share,
// unless locks that are not in ks share it, too.
func (ks Locks) stopSharedNet() {
	for _, k := range ks {
		if k == nil || k.net != ks[0].net || int(k.hold.sharers) != len(ks) {
			return
		}
	}
	if len(ks) > 0 {
		ks[0].net.Stop()
	}
}
