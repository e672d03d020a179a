package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/retry"
)

// WithOwner returns a context that marks a call tree as one holder. With this context,
// locking a name that the tree already holds returns the same *Lock again, and the last
// Unlock releases it. Without WithOwner no lock is reentrant, because Go has no thread
// identity.
//
// Goroutines that share an owner do not exclude each other. Do not mark a context from which
// unrelated requests derive their contexts. If ctx is marked already, WithOwner returns ctx.
//
// Some stores record how often the tree holds the lock. There each further Lock and each Unlock
// is one round trip, which also confirms the lock and extends its lease. The hold ends when
// Unlock was called as often as Lock. The options of the first Lock stay in force: FixedLease on a
// re-entry has no effect, and AtLeast or AtMost is an error. The two sides of a read-write lock
// have separate counts; see RWMutex. If the tree holds a name as one kind and locks it as
// another, it gets ErrDeadlock. Permits of a semaphore are not reentrant.
func WithOwner(ctx context.Context) context.Context {
	if ownerOf(ctx) != nil {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, &tree{locks: make(map[treeKey]*treeLock)})
}

type ownerKey struct{}

func ownerOf(ctx context.Context) *tree {
	t, _ := ctx.Value(ownerKey{}).(*tree)
	return t
}

// tree is a call tree that counts as one holder.
type tree struct {
	mu    sync.Mutex
	locks map[treeKey]*treeLock
}

// treeKey identifies a name that a tree holds. It has no kind, because a tree cannot hold one
// name as two kinds, except as both sides of a read-write lock.
type treeKey struct {
	locker *Locker
	name   string
}

func (m *Mutex) treeKey() treeKey { return treeKey{m.locker, m.name} }

// treeLock is a name that a tree holds or is about to hold. The goroutine that has sem may ask
// the store about the name. sem is a channel and no mutex, because a goroutine keeps it during
// round trips, and because a wait for it has to end when a context ends. tree.mu guards the
// rest.
type treeLock struct {
	sem       chan struct{}
	users     int    // goroutines that have sem or wait for it
	exclusive *owned // a mutex, a fair mutex, or the write side of a read-write lock; nil if the tree holds none of these
	read      *owned // the read side; nil if the tree does not hold it
}

// owned is a lock of a tree, with the number of times that the tree holds it. The number
// changes before the store is asked, and does not depend on the answer of the store. So the
// hold always ends after as many Unlocks as Locks.
type owned struct {
	tree  *tree
	lock  *Lock
	count int // calls of Lock without their Unlock, and re-entries under way; tree.mu guards it
}

// lock takes the lock, or counts a re-entry.
func (t *tree) lock(ctx context.Context, m *Mutex, r request) (*Lock, error) {
	e := t.enter(m.treeKey())
	defer t.leave(m.treeKey(), e)
	began := time.Now()
	if err := t.acquireSem(ctx, e, m, r); err != nil {
		return nil, err
	}
	defer func() { <-e.sem }()
	if limited(r.wait) {
		r.wait = max(r.wait-time.Since(began), 1)
	}
	if err := t.dropLost(e); err != nil {
		return nil, err
	}
	o, err := t.find(ctx, e, m, &r)
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w: %w", m.name, ErrDeadlock, err)
	}
	if o != nil && (r.atLeast > 0 || r.atMost) {
		o.undo()
		return nil, fmt.Errorf("lock %q: this owner holds it already; AtLeast and AtMost are for its first Lock: %w", m.name, errors.ErrUnsupported)
	}
	if o != nil {
		return o.reenter(ctx, r.wait)
	}
	lock, err := m.locker.acquire(ctx, m.name, m.kind, r)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	lock.owned = &owned{tree: t, lock: lock, count: 1}
	*e.sideLocked(m.kind) = lock.owned
	return lock, nil
}

// find returns the lock of m that the tree holds, after it has counted a re-entry. It
// returns nil if the tree has to acquire the lock, and completes r for that. The error is
// the reason why the tree would wait for itself.
func (t *tree) find(ctx context.Context, e *treeLock, m *Mutex, r *request) (*owned, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := *e.sideLocked(m.kind)
	switch {
	case o != nil && o.kind() == m.kind:
		o.setCountLocked(o.count + 1)
		return o, nil
	case o != nil:
		return nil, errOtherKind(o.kind(), m.kind)
	case m.kind != reader && e.read != nil:
		return nil, errors.New("this owner holds the lock for reading; unlock the read lock first")
	case m.kind == reader && e.exclusive != nil && e.exclusive.kind() != writer:
		return nil, errOtherKind(e.exclusive.kind(), m.kind)
	case m.kind == reader && e.exclusive != nil:
		r.beside = e.exclusive.lock.hold.lease.owner
	case holdsAlready(ctx, m.locker, m.name):
		return nil, errors.New("the context comes from a lock that another owner took")
	}
	return nil, nil
}

// errOtherKind returns the error for a name that is held as one kind and locked as another.
func errOtherKind(held, wanted kind) error {
	return fmt.Errorf("this owner holds the name already, as a lock of another kind: %s, not %s", held, wanted)
}

// sideLocked returns the address of the field that has the lock of this kind. The mutex is
// tree.mu.
func (e *treeLock) sideLocked(k kind) **owned {
	if k == reader {
		return &e.read
	}
	return &e.exclusive
}

func (o *owned) kind() kind { return o.lock.hold.lease.kind }

// dropLost drops locks that the tree has lost, so that it can acquire them again. The lost
// Lock keeps its error. dropLost returns an error if it is uncertain whether a lock is lost.
func (t *tree) dropLost(e *treeLock) error {
	t.mu.Lock()
	sides := [...]*owned{e.exclusive, e.read}
	t.mu.Unlock()
	for _, o := range sides {
		if o == nil {
			continue
		}
		err := o.lock.hold.state()
		switch {
		case err == nil:
		case errors.Is(err, errSuspended):
			return err
		default:
			t.mu.Lock()
			e.forgetLocked(o)
			t.mu.Unlock()
		}
	}
	return nil
}

// forgetLocked drops o, if the treeLock still has it. The mutex is tree.mu.
func (e *treeLock) forgetLocked(o *owned) {
	side := e.sideLocked(o.kind())
	if *side == o {
		*side = nil
	}
}

// acquireSem takes e.sem: it waits until no other goroutine of the tree asks the store about
// the same name. It returns an error if ctx or the wait limit of r ends first.
func (t *tree) acquireSem(ctx context.Context, e *treeLock, m *Mutex, r request) error {
	select {
	case e.sem <- struct{}{}:
		return nil
	default:
	}
	began := m.locker.clock.Now()
	limit := time.NewTimer(r.wait)
	defer limit.Stop()
	select {
	case e.sem <- struct{}{}:
		return nil
	case <-limit.C:
	case <-ctx.Done():
		return fmt.Errorf("lock %q: %w", m.name, retry.ContextError(ctx))
	}
	t.mu.Lock()
	again := e.exclusive != nil || e.read != nil // the goroutine that has sem waits for the store, not for a holder
	t.mu.Unlock()
	var why denial
	if r.wait == 0 || !again {
		why.behind(m.locker, queueKey{m.name, m.kind}, began, r.wait > 0)
	}
	return why.outOfTime(ctx, m.name, r.wait, m.locker)
}

// reenter confirms a re-entry in the store, after it was counted. If the store does not answer,
// reenter tries again, for as long as the caller would wait for the lock.
func (o *owned) reenter(ctx context.Context, wait time.Duration) (*Lock, error) {
	failures := 0
	if wait == 0 {
		failures = retry.TryFailures
	}
	bound := ctx
	if limited(wait) {
		var cancel context.CancelFunc
		bound, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	confirmed := false
	defer func() { // also if the store's code panics
		if !confirmed {
			o.undo()
		}
	}()
	if err := o.lock.hold.recount(bound, failures); err != nil {
		if ctx.Err() == nil {
			err = retry.Unanswered(err)
		}
		return nil, err
	}
	confirmed = true
	return o.lock, nil
}

// undo takes back a re-entry that failed. If all other calls of Lock have had their Unlock
// meanwhile, undo releases the lock.
func (o *owned) undo() {
	if o.decrement(nil) == 0 {
		o.lock.hold.lease.locker.background.Go(func() { _ = o.lock.release(false) })
	}
}

// unlock lowers the count, and releases the lock at 0. Above 0 it records the count in the
// store, which also confirms the hold.
func (o *owned) unlock() error {
	h := o.lock.hold
	state := h.state()
	left := o.decrement(state)
	switch {
	case left <= 0:
		return o.lock.release(false)
	case over(state):
		return fmt.Errorf("unlock: %w", state)
	}
	o.confirm()
	if state := h.state(); errors.Is(state, ErrLost) {
		return fmt.Errorf("unlock: %w", state)
	}
	return nil
}

// decrement counts one Unlock, and returns how many more Unlocks are due. Less than 0 means
// that this Unlock was one too many. If no Unlock is due any more, or if `state` is final, the
// tree drops the lock.
func (o *owned) decrement(state error) (left int) {
	o.tree.mu.Lock()
	defer o.tree.mu.Unlock()
	left = o.count - 1
	if left >= 0 {
		o.setCountLocked(left)
	}
	if left <= 0 || over(state) {
		o.tree.forgetLocked(o)
	}
	return left
}

// setCountLocked changes the count of o, and the count in the lease, which renewals record. The
// mutex is tree.mu.
func (o *owned) setCountLocked(count int) {
	o.count = count
	if count > 0 { // at 0 a release may be on its way, which needs no count
		o.lock.hold.lease.setHolds(count)
	}
}

// confirm records a lowered count in the store. It waits for sem and for the store, but not
// beyond the lease. If it fails, the next renewal records the count.
func (o *owned) confirm() {
	l := o.lock.hold.lease
	if !l.locker.info.Caps.Counts {
		return
	}
	now := l.locker.clock.Now()
	wait := min(unlockWait, max(l.Until()-now, 0))
	ctx, cancel := context.WithDeadline(context.Background(), l.locker.clock.Time(now+wait))
	defer cancel()
	m := &Mutex{locker: l.locker, name: l.name, kind: l.kind}
	e := o.tree.enter(m.treeKey())
	defer o.tree.leave(m.treeKey(), e)
	if o.tree.acquireSem(ctx, e, m, request{wait: wait}) != nil {
		return
	}
	defer func() { <-e.sem }()
	_ = o.lock.hold.recount(ctx, 0) // if that finds a loss, unlock returns it
}

func (t *tree) enter(key treeKey) *treeLock {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.locks[key]
	if e == nil {
		e = &treeLock{sem: make(chan struct{}, 1)}
		t.locks[key] = e
	}
	e.users++
	return e
}

func (t *tree) leave(key treeKey, e *treeLock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.users--
	t.tidyLocked(key, e)
}

// forgetLocked drops o from its treeLock, if the treeLock still has it.
func (t *tree) forgetLocked(o *owned) {
	l := o.lock.hold.lease
	key := treeKey{l.locker, l.name}
	if e := t.locks[key]; e != nil {
		e.forgetLocked(o)
		t.tidyLocked(key, e)
	}
}

// tidyLocked drops a treeLock that is not in use any more.
func (t *tree) tidyLocked(key treeKey, e *treeLock) {
	if e.users == 0 && e.exclusive == nil && e.read == nil {
		delete(t.locks, key)
	}
}
