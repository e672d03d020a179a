package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// WithOwner returns a context that marks a call tree as one holder: within it,
// locking a name that the tree already holds returns the same *Lock, held once
// more, and the last Unlock gives it back. Without it no lock is reentrant,
// because Go has no thread identity that could own one.
//
// Goroutines that share an owner are not kept apart from each other. Do not mark
// a context that unrelated requests derive theirs from. Marking a context of a
// marked tree again changes nothing.
//
// Each change of the count is one round trip, which also proves that the lock is
// still held and extends its lease, on stores that record a count. The first
// acquisition's options stay in force: Lease on a re-entry has no effect. The two
// sides of a read-write lock are counted apart; see RWMutex. Permits of a
// semaphore are not reentrant.
func WithOwner(ctx context.Context) context.Context {
	if ownerOf(ctx) != nil {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, &tree{entries: make(map[Mutex]*entry)})
}

type ownerKey struct{}

func ownerOf(ctx context.Context) *tree {
	t, _ := ctx.Value(ownerKey{}).(*tree)
	return t
}

// tree is a call tree that counts as one holder.
type tree struct {
	mu      sync.Mutex
	entries map[Mutex]*entry // by the mutex; of a read-write lock, by its write side
}

// entry is one name that a tree holds or is about to hold. Whoever has the turn
// may change it; the turn is a channel since it is kept across round trips.
type entry struct {
	turn  chan struct{}
	users int // those who have the turn or wait for it; guarded by tree.mu
	write reentrant
	read  reentrant // of a read-write lock
}

// reentrant is a lock and how often the tree holds it.
type reentrant struct {
	lock  *Lock
	count int
}

// side returns what a mutex of this kind is kept in.
func (e *entry) side(k kind) *reentrant {
	if k == reader {
		return &e.read
	}
	return &e.write
}

// key returns what a mutex is filed under.
func (m *Mutex) key() Mutex {
	key := *m
	if key.kind == reader {
		key.kind = writer
	}
	return key
}

// lock takes the lock, or holds it once more.
func (t *tree) lock(ctx context.Context, m *Mutex, r request) (*Lock, error) {
	e := t.enter(m.key())
	defer t.leave(m.key(), e)
	began := time.Now()
	if err := e.takeTurn(ctx, m, r.wait); err != nil {
		return nil, err
	}
	defer func() { <-e.turn }()
	if r.wait > 0 && r.wait != forever {
		r.wait = max(r.wait-time.Since(began), 1)
	}
	if err := e.dropLost(); err != nil {
		return nil, err
	}
	side := e.side(m.kind)
	if side.lock != nil {
		return side.again(ctx, r.wait)
	}
	if m.kind == writer && e.read.lock != nil {
		return nil, fmt.Errorf("lock %q: %w: it is held for reading; unlock that first", m.name, ErrDeadlock)
	}
	if m.kind == reader && e.write.lock != nil {
		r.beside = e.write.lock.hold.lease.owner
	} else if holdsAlready(ctx, m) {
		return nil, fmt.Errorf("lock %q: %w: the context comes from a lock that another owner took", m.name, ErrDeadlock)
	}
	lock, err := m.acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	lock.tree = t
	*side = reentrant{lock: lock, count: 1}
	return lock, nil
}

// dropLost forgets locks that the tree has lost: it may have them anew, and the
// old Lock keeps its error.
func (e *entry) dropLost() error {
	for _, side := range []*reentrant{&e.write, &e.read} {
		if side.lock == nil {
			continue
		}
		switch err := side.lock.hold.state(); {
		case err == nil:
		case errors.Is(err, errSuspended):
			return err
		default:
			*side = reentrant{}
		}
	}
	return nil
}

// takeTurn waits until no other goroutine of the tree changes the entry.
func (e *entry) takeTurn(ctx context.Context, m *Mutex, wait time.Duration) error {
	select {
	case e.turn <- struct{}{}:
		return nil
	default:
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-limit.C:
		return &BusyError{Name: m.name, Holder: "another goroutine of this owner"}
	case <-ctx.Done():
		return fmt.Errorf("lock %q: %w", m.name, contextError(ctx))
	}
}

// again raises the count. A store that does not answer is asked for as long as
// the caller would wait for the lock.
func (r *reentrant) again(ctx context.Context, wait time.Duration) (*Lock, error) {
	patience := 0
	if wait == 0 {
		patience = patienceWithErrors
	}
	if wait > 0 && wait != forever {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	if err := r.lock.hold.recount(ctx, r.count+1, patience); err != nil {
		return nil, err
	}
	r.count++
	return r.lock, nil
}

// unlock lowers the count, or gives the lock back.
func (t *tree) unlock(k *Lock) error {
	l := k.hold.lease
	m := &Mutex{locker: l.locker, name: l.name, kind: l.kind}
	if err := k.hold.state(); over(err) {
		return k.release() // over already: it says how
	}
	e := t.enter(m.key())
	defer t.leave(m.key(), e)
	if err := e.takeTurn(context.Background(), m, unlockWait); err != nil {
		return fmt.Errorf("unlock %q: another goroutine of this owner is locking it", m.name)
	}
	defer func() { <-e.turn }()
	side := e.side(m.kind)
	if side.lock != k {
		return k.release()
	}
	side.count--
	if side.count == 0 {
		*side = reentrant{}
		return k.release()
	}
	if err := k.hold.state(); over(err) {
		return fmt.Errorf("unlock: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(l.locker.ttl, unlockWait))
	defer cancel()
	err := k.hold.recount(ctx, side.count, 0)
	if err != nil && !errors.Is(err, ErrLost) {
		return nil // the count here is what counts; the next renewal records it
	}
	return err
}

func (t *tree) enter(key Mutex) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[key]
	if e == nil {
		e = &entry{turn: make(chan struct{}, 1)}
		t.entries[key] = e
	}
	e.users++
	return e
}

func (t *tree) leave(key Mutex, e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.users--
	if e.users == 0 && e.write.lock == nil && e.read.lock == nil {
		delete(t.entries, key)
	}
}

// recount records a new hold count in the store, which also proves and extends
// the hold. Where the store shows no count it does nothing. It asks until ctx is
// done, or so many times if patience is not 0. A count that was lowered counts
// even if that is not confirmed: the next renewal records it.
func (h *hold) recount(ctx context.Context, count, patience int) (err error) {
	k := h.lease
	l := k.locker
	if !l.info.Caps.Counts {
		return nil
	}
	if err := l.keeper.pause(ctx, k); err != nil {
		return fmt.Errorf("lock %q: %w", k.name, contextError(ctx))
	}
	defer l.keeper.resume(k)
	before := k.setHolds(count)
	defer func() {
		if err != nil && count > before {
			k.setHolds(before)
		}
	}()
	var last error
	for failures := 0; ; {
		err := h.record(ctx, count, failures)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrLost), final(err):
			return fmt.Errorf("lock %q: %w", k.name, err)
		}
		failures++
		last = telling(last, err)
		if state := h.state(); over(state) {
			return state
		}
		if patience > 0 && failures >= patience {
			return fmt.Errorf("lock %q: %w", k.name, err)
		}
		if !sleep(ctx, retryDelay(failures, pollCap)) {
			return fmt.Errorf("lock %q: %w; the store's last error: %w", k.name, contextError(ctx), last)
		}
	}
}

// setHolds changes the count that renewals record, and returns the one before.
func (l *lease) setHolds(count int) (before int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, l.holds = int(l.holds), int32(count)
	return before
}

// record makes one call that sets the count.
func (h *hold) record(ctx context.Context, count, failures int) error {
	l := h.lease
	start := l.locker.now()
	c := l.extension(start.mono)
	c.Holds = count
	attempt := l.locker.bound(ctx, attemptTimeout(l.locker.ttl, failures))
	defer attempt.End()
	answers, err := l.locker.backend.Renew(attempt, []driver.Claim{c})
	if err == nil && len(answers) != 1 {
		err = errNoAnswer
	}
	if err == nil {
		err = answers[0].Err
	}
	if isGone(err) {
		return l.lose(reasonOf(err), err)
	}
	if err != nil {
		return err
	}
	if _, held := l.renewed(start, answers[0].ValidFor); !held {
		return h.state() // it came too late
	}
	return nil
}

// heldKey is the key of the locks that a context comes from.
type heldKey struct{}

// held is one of them, and those before it.
type held struct {
	lock *Lock
	up   *held
}

func withHeld(ctx context.Context, k *Lock) context.Context {
	up, _ := ctx.Value(heldKey{}).(*held)
	return context.WithValue(ctx, heldKey{}, &held{lock: k, up: up})
}

// holdsAlready says that ctx comes from a lock of m's name that is still held:
// waiting for it would be waiting for oneself. So it is for a second read lock
// on stores where a waiting writer keeps readers out. A second permit is just
// one more.
func holdsAlready(ctx context.Context, m *Mutex) bool {
	h, _ := ctx.Value(heldKey{}).(*held)
	for ; h != nil; h = h.up {
		if l := h.lock.hold.lease; l.locker == m.locker && l.name == m.name && l.kind != permit && h.lock.Err() == nil {
			return true
		}
	}
	return false
}
