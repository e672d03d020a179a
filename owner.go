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
// Goroutines that share an owner do not exclude each other. Do not mark a context from
// which unrelated requests derive theirs. Marking a context of a marked tree again
// changes nothing.
//
// On stores that record a count, each change of it is one round trip, which also confirms
// the lock and extends its lease. As many calls of Unlock as of Lock end the hold. The
// options of the first Lock stay in force: Lease on a re-entry has no effect, and AtLeast
// or AtMost is an error. The two sides of a read-write lock have separate counts; see RWMutex. If the
// tree holds a name as one kind and locks it as another, it gets ErrDeadlock. Permits of a
// semaphore are not reentrant.
func WithOwner(ctx context.Context) context.Context {
	if ownerOf(ctx) != nil {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, &tree{entries: make(map[treeKey]*entry)})
}

// tree is a call tree that counts as one holder.
type tree struct {
	mu      sync.Mutex
	entries map[treeKey]*entry
}

// treeKey names what a tree holds: a name is one thing at a time, whatever kinds
// it is described with.
type treeKey struct {
	locker *Locker
	name   string
}

func (m *Mutex) treeKey() treeKey { return treeKey{m.locker, m.name} }

// entry is one name that a tree holds or is about to hold. The goroutine with the turn
// may ask the store about it; the turn is a channel since it is kept across round
// trips. The rest is guarded by tree.mu.
type entry struct {
	turn  chan struct{}
	users int    // those who have the turn or wait for it
	sole  *owned // a mutex, a fair one, or the write side of a read-write lock; nil if none
	read  *owned // the read side
}

// owned is a lock of a tree, and how often the tree holds it. This count is the
// one that counts: it changes before the store is asked, whatever the store
// answers and the goroutine with the turn, so that as many Unlocks as Locks end the hold.
type owned struct {
	tree  *tree
	lock  *Lock
	count int // every Lock without its Unlock, and every re-entry under way; guarded by tree.mu
}

// lock takes the lock, or holds it once more.
func (t *tree) lock(ctx context.Context, m *Mutex, r request) (*Lock, error) {
	e := t.enter(m.treeKey())
	defer t.leave(m.treeKey(), e)
	began := time.Now()
	if err := t.takeTurn(ctx, e, m, r); err != nil {
		return nil, err
	}
	defer func() { <-e.turn }()
	if r.wait > 0 && r.wait != forever {
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
		o.takeBack()
		return nil, fmt.Errorf("lock %q: this owner holds it already; AtLeast and AtMost are for its first Lock: %w", m.name, errors.ErrUnsupported)
	}
	if o != nil {
		return o.again(ctx, r.wait)
	}
	lock, err := m.acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	lock.owned = &owned{tree: t, lock: lock, count: 1}
	*e.side(m.kind) = lock.owned
	return lock, nil
}

// find returns what the tree holds of m, counted once more, or nil if it has to be
// acquired, with r made fit for that. The error says why that would be waiting for
// oneself.
func (t *tree) find(ctx context.Context, e *entry, m *Mutex, r *request) (*owned, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := *e.side(m.kind)
	switch {
	case o != nil && o.kind() == m.kind:
		o.set(o.count + 1)
		return o, nil
	case o != nil:
		return nil, errOtherKind(o.kind(), m.kind)
	case m.kind != reader && e.read != nil:
		return nil, errors.New("it is held for reading; unlock that first")
	case m.kind == reader && e.sole != nil && e.sole.kind() != writer:
		return nil, errOtherKind(e.sole.kind(), m.kind)
	case m.kind == reader && e.sole != nil:
		r.beside = e.sole.lock.hold.lease.owner
	case holdsAlready(ctx, m):
		return nil, errors.New("the context comes from a lock that another owner took")
	}
	return nil, nil
}

// errOtherKind says that a name is locked as one kind and asked for as another.
func errOtherKind(held, wanted kind) error {
	return fmt.Errorf("this owner holds the name already, as a lock of another kind: %s, not %s", held, wanted)
}

// side returns where a mutex of this kind is kept. The mutex is held.
func (e *entry) side(k kind) **owned {
	if k == reader {
		return &e.read
	}
	return &e.sole
}

func (o *owned) kind() kind { return o.lock.hold.lease.kind }

// dropLost forgets locks that the tree has lost: it may have them again, and the
// old Lock keeps its error.
func (t *tree) dropLost(e *entry) error {
	t.mu.Lock()
	sides := [...]*owned{e.sole, e.read}
	t.mu.Unlock()
	for _, o := range sides {
		if o == nil {
			continue
		}
		switch err := o.lock.hold.state(); {
		case err == nil:
		case errors.Is(err, errSuspended):
			return err
		default:
			t.mu.Lock()
			e.forget(o)
			t.mu.Unlock()
		}
	}
	return nil
}

// forget drops o, if it is still there. The mutex is held.
func (e *entry) forget(o *owned) {
	if side := e.side(o.kind()); *side == o {
		*side = nil
	}
}

// takeTurn waits until no other goroutine of the tree asks the store about e.
func (t *tree) takeTurn(ctx context.Context, e *entry, m *Mutex, r request) error {
	select {
	case e.turn <- struct{}{}:
		return nil
	default:
	}
	var a acquisition
	a.init(m.locker, m.name, m.kind, r)
	limit := time.NewTimer(r.wait)
	defer limit.Stop()
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-limit.C:
	case <-ctx.Done():
		return fmt.Errorf("lock %q: %w", m.name, retry.ContextError(ctx))
	}
	t.mu.Lock()
	again := e.sole != nil || e.read != nil // the one with the turn waits for the store alone
	t.mu.Unlock()
	if r.wait == 0 || !again {
		a.busyHere()
	}
	return a.outOfTime(ctx)
}

// again has the store confirm a re-entry, which is counted already. A store that
// does not answer is asked for as long as the caller would wait for the lock.
func (o *owned) again(ctx context.Context, wait time.Duration) (*Lock, error) {
	failures := 0
	if wait == 0 {
		failures = retry.TryFailures
	}
	bound := ctx
	if wait > 0 && wait != forever {
		var cancel context.CancelFunc
		bound, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	confirmed := false
	defer func() { // also if the store's code panics
		if !confirmed {
			o.takeBack()
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

// takeBack undoes a re-entry that failed. If all others have unlocked meanwhile, it
// releases the lock.
func (o *owned) takeBack() {
	if o.lower(nil) == 0 {
		o.lock.hold.lease.locker.background.Go(func() { _ = o.lock.release() })
	}
}

// unlock lowers the count, or releases the lock. Where the lock goes on it has
// the store record the count, which proves the hold.
func (o *owned) unlock() error {
	h := o.lock.hold
	state := h.state()
	left := o.lower(state)
	switch {
	case left <= 0:
		return o.lock.release()
	case over(state):
		return fmt.Errorf("unlock: %w", state)
	}
	o.confirm()
	if state := h.state(); errors.Is(state, ErrLost) {
		return fmt.Errorf("unlock: %w", state)
	}
	return nil
}

// lower counts one Unlock, and returns what is left; less than 0 if it was one too
// many. The tree forgets what is unlocked, or lost by its state.
func (o *owned) lower(state error) (left int) {
	o.tree.mu.Lock()
	defer o.tree.mu.Unlock()
	left = o.count - 1
	if left >= 0 {
		o.set(left)
	}
	if left <= 0 || over(state) {
		o.tree.forget(o)
	}
	return left
}

// set changes the count, here and in what renewals record. tree.mu is held.
func (o *owned) set(count int) {
	o.count = count
	if count > 0 { // a release needs none, and may be on its way
		o.lock.hold.lease.setHolds(count)
	}
}

// confirm has a lowered count recorded. It waits for the turn and for the store,
// but not beyond the lease; what it cannot record, the next renewal does.
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
	if o.tree.takeTurn(ctx, e, m, request{wait: wait}) != nil {
		return
	}
	defer func() { <-e.turn }()
	_ = o.lock.hold.recount(ctx, 0) // the Lock says what came of it
}

func (t *tree) enter(key treeKey) *entry {
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

func (t *tree) leave(key treeKey, e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.users--
	t.tidy(key, e)
}

// forget drops o from its entry, if it is still there. The mutex is held.
func (t *tree) forget(o *owned) {
	l := o.lock.hold.lease
	key := treeKey{l.locker, l.name}
	if e := t.entries[key]; e != nil {
		e.forget(o)
		t.tidy(key, e)
	}
}

// tidy drops an entry of which nothing is left. The mutex is held.
func (t *tree) tidy(key treeKey, e *entry) {
	if e.users == 0 && e.sole == nil && e.read == nil {
		delete(t.entries, key)
	}
}

// setHolds changes the count that renewals record.
func (l *lease) setHolds(count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = int32(count)
}

// recount records the hold count in the store, which also proves and extends the
// hold. Where the store shows no count it does nothing. It asks until ctx is done,
// or so many times if failures, a number of failures, is not 0. What it could not record, the next
// renewal does.
func (h *hold) recount(ctx context.Context, failures int) error {
	l := h.lease
	if !l.locker.info.Caps.Counts {
		return nil
	}
	err := l.locker.renewals.Prove(ctx, l, failures)
	if err == nil {
		return nil
	}
	if state := h.state(); over(state) {
		return state
	}
	return fmt.Errorf("lock %q: %w", l.name, err)
}
