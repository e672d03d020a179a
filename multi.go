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
)

// Locks are several locks that are held together.
type Locks []*Lock

// LockAll takes all of ms or none of them. It waits until ctx is done; what it
// has taken by then it gives back. However the mutexes are ordered, two calls
// cannot wait for each other in a circle: whoever waits for one of them holds
// only those that come before it in the order of Lockers, names and kinds. A
// program that also takes some of them one by one has to keep that order itself.
//
// Where nobody is in the way, all locks of one Locker take one round trip, if its
// store can do that.
//
// A mutex that is named twice is ErrDeadlock.
func LockAll(ctx context.Context, ms ...*Mutex) (Locks, error) {
	sorted := slices.SortedFunc(slices.Values(ms), compare)
	for i := 1; i < len(sorted); i++ {
		if sorted[i].key() == sorted[i-1].key() {
			return nil, fmt.Errorf("lock %q: %w: it is named twice", sorted[i].name, ErrDeadlock)
		}
	}
	locks := make(Locks, 0, len(ms))
	for len(locks) < len(sorted) {
		locks = append(locks, atOnce(ctx, sorted[len(locks):])...)
		if len(locks) == len(sorted) {
			break
		}
		lock, err := sorted[len(locks)].Lock(ctx)
		if err != nil {
			return nil, errors.Join(err, locks.giveUp())
		}
		locks = append(locks, lock)
	}
	if err := locks.Err(); err != nil {
		return nil, errors.Join(err, locks.giveUp())
	}
	return locks, nil
}

// compare orders mutexes for LockAll.
func compare(a, b *Mutex) int {
	if c := strings.Compare(a.locker.id, b.locker.id); c != 0 {
		return c
	}
	if c := strings.Compare(a.name, b.name); c != 0 {
		return c
	}
	return int(a.kind) - int(b.kind)
}

// batchMost bounds the claims in one TryAll.
const batchMost = 1000

// atOnce asks for the first mutexes of a sorted list together, as far as they
// are of one Locker and nobody of this process is in the way. It returns the
// locks that it got without a gap: a lock behind one that is busy must not be
// held while that one is waited for. What is wrong with a mutex is left to Lock
// to say.
func atOnce(ctx context.Context, ms []*Mutex) Locks {
	batcher, ok := ms[0].locker.backend.(driver.Batcher)
	if !ok || ownerOf(ctx) != nil {
		return nil
	}
	var as []*acquisition
	for _, m := range ms[:min(len(ms), batchMost)] {
		a := m.ready(ctx, ms[0].locker)
		if a == nil {
			break
		}
		as = append(as, a)
	}
	if len(as) < 2 {
		for _, a := range as {
			a.giveUp()
		}
		return nil
	}
	return tryAll(ctx, batcher, as)
}

// ready returns an acquisition of m at the head of its queue, or nil if m has to
// be locked by itself.
func (m *Mutex) ready(ctx context.Context, l *Locker) *acquisition {
	if m.locker != l || !m.kind.exclusive() || holdsAlready(ctx, m) {
		return nil
	}
	r, err := m.prepare(ctx, forever, nil)
	if err != nil {
		return nil
	}
	a := newAcquisition(l, m.name, m.kind, r)
	a.place = l.gates.enter(a.gateKey())
	if !a.place.atHead() {
		a.place.leave()
		return nil
	}
	return a
}

// tryAll makes one try of each claim, in one round trip, keeps what was granted
// before the first that was not, and gives the others back.
func tryAll(ctx context.Context, batcher driver.Batcher, as []*acquisition) Locks {
	claims := make([]driver.Claim, len(as))
	for i, a := range as {
		a.tries++
		claims[i] = a.claim
	}
	attempt, cancel := context.WithTimeout(ctx, attemptTimeout(claims[0].TTL, 0))
	defer cancel()
	start := time.Now()
	answers := batcher.TryAll(attempt, claims)

	var locks Locks
	for i, a := range as {
		answer := driver.Attempt{Err: errNoAnswer}
		if i < len(answers) {
			answer = answers[i]
		}
		var lock *Lock
		if len(locks) == i && answer.Err == nil && answer.Outcome.Granted {
			lock = a.granted(start, answer.Outcome)
		}
		if lock != nil {
			locks = append(locks, lock)
			a.report(ctx, lock, nil)
			continue
		}
		// Granted or not known: what it may hold goes back.
		a.claim.Unsettled = a.claim.Unsettled || answer.Err != nil && !certain(answer.Err)
		if answer.Err == nil && answer.Outcome.Granted {
			a.locker.cleanUp(a.claim)
			a.claim.Unsettled = false
		}
		a.giveUp()
	}
	return locks
}

// unlockAtOnce is how many locks Locks.Unlock gives back at the same time.
const unlockAtOnce = 64

// Unlock gives all of them back and joins the errors.
func (ks Locks) Unlock() error {
	errs := make([]error, len(ks))
	var next sync.Mutex
	left := len(ks)
	take := func() int {
		next.Lock()
		defer next.Unlock()
		left--
		return left
	}
	var wg sync.WaitGroup
	for range min(len(ks), unlockAtOnce) {
		wg.Go(func() {
			for i := take(); i >= 0; i = take() {
				errs[i] = ks[i].Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// giveUp unlocks after a failure. That one of them was lost is no news then.
func (ks Locks) giveUp() error {
	if err := ks.Unlock(); err != nil && !errors.Is(err, ErrLost) {
		return err
	}
	return nil
}

// Err returns nil while all of them are held, else the first one's error.
func (ks Locks) Err() error {
	for _, k := range ks {
		if err := k.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Context returns a context that is ctx for as long as all of them are held. It
// ends when the first one is lost.
func (ks Locks) Context(ctx context.Context) context.Context {
	for _, k := range ks {
		ctx = k.Context(ctx)
	}
	return ctx
}
