package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Mutex describes an exclusive lock, or one side of a read-write lock. It has no
// state of its own and is never held: each acquisition returns a new *Lock.
type Mutex struct {
	locker *Locker
	name   string
	kind   kind
}

// RWMutex describes a read-write lock: any number of readers or one writer. Each reader
// has its own lease, so a reader that dies does not affect the others.
//
// Under WithOwner a writer may also take the read side, and keep it after it unlocks the
// write side (downgrade). A reader that asks for the write side gets ErrDeadlock, because
// two such readers would wait for each other.
//
// The store decides whether a waiting writer blocks new readers. Redisson's layout never
// refuses a reader while others read, so a writer may wait forever if there are always
// readers.
type RWMutex struct {
	Read, Write *Mutex
}

// Mutex returns the exclusive lock `name`. It does no I/O. A Mutex has no state: two of them
// with one name are the same lock.
func (l *Locker) Mutex(name string) *Mutex { return &Mutex{locker: l, name: name} }

// FairMutex returns the fair exclusive lock `name`. Its waiters get the lock in the order in
// which they first asked the store, across all processes. All clients of that name must use
// FairMutex. A waiter that dies is skipped after a few seconds. A TryLock takes no place in the
// queue, and does not overtake waiters. FairMutex does no I/O.
//
// Fairness has a cost: each waiter asks the store itself, at least once a second.
func (l *Locker) FairMutex(name string) *Mutex { return &Mutex{locker: l, name: name, kind: fair} }

// RWMutex returns the read-write lock `name`. It does no I/O.
func (l *Locker) RWMutex(name string) RWMutex {
	return RWMutex{
		Read:  &Mutex{locker: l, name: name, kind: reader},
		Write: &Mutex{locker: l, name: name, kind: writer},
	}
}

// Name returns the name of the lock.
func (m *Mutex) Name() string { return m.name }

// Mode returns driver.Shared for the read side of a RWMutex, which any number of callers hold at
// the same time. For each other Mutex, it returns driver.Exclusive.
func (m *Mutex) Mode() driver.Mode { return m.kind.mode() }

// Lock is Locker.Lock for this mutex.
func (m *Mutex) Lock(ctx context.Context, opts ...Option) (*Lock, error) {
	return m.lock(ctx, forever, opts)
}

// TryLock is Locker.TryLock for this mutex.
func (m *Mutex) TryLock(ctx context.Context, opts ...Option) (*Lock, error) {
	return m.lock(ctx, 0, opts)
}

// Do does for this mutex what the function Do does for a name. The function fn returns only an
// error.
func (m *Mutex) Do(ctx context.Context, fn func(context.Context, *Lock) error, opts ...Option) error {
	lock, err := m.Lock(ctx, opts...)
	return doWith(ctx, lock, err, fn)
}

// joined returns err, the error of a function that ran under a lock, joined with `unlock`, the
// error of the Unlock after that function. It returns err alone if `unlock` is nil, or if err
// contains the *LostError of `unlock` already. For example, err contains it if the function has
// returned the cause of its context.
func joined(err, unlock error) error {
	var lost *LostError
	if unlock == nil || errors.As(unlock, &lost) && errors.Is(err, lost) {
		return err
	}
	return errors.Join(err, unlock)
}

// doWith runs fn and then unlocks. The parameter `lock` is a *Lock or Locks that the caller has
// taken. If the error `failed` is not nil, the caller has taken no lock. In that case doWith
// returns `failed`, and does not run fn.
func doWith[L interface {
	Context(context.Context) context.Context
	unlock(async bool) error
}](ctx context.Context, lock L, failed error, fn func(context.Context, L) error) (err error) {
	if failed != nil {
		return failed
	}
	defer func() { err = joined(err, lock.unlock(false)) }()
	return fn(lock.Context(ctx), lock)
}

func (m *Mutex) lock(ctx context.Context, wait time.Duration, opts []Option) (*Lock, error) {
	r, err := m.prepare(ctx, wait, opts)
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", m.name, err)
	}
	if tree := ownerOf(ctx); tree != nil {
		return tree.lock(ctx, m, r)
	}
	if holdsAlready(ctx, m) {
		return nil, fmt.Errorf("lock %q: %w: the context comes from a lock of that name; use WithOwner to re-enter", m.name, ErrDeadlock)
	}
	return m.acquire(ctx, r)
}

// prepare checks all that can be checked before a call is sent, and returns the request.
func (m *Mutex) prepare(ctx context.Context, wait time.Duration, opts []Option) (request, error) {
	if err := m.locker.check(m.name); err != nil {
		return request{}, err
	}
	if !m.kind.supported(m.locker.info.Caps) {
		return request{}, m.locker.unsupported(m.kind.String() + " locks")
	}
	r, err := m.locker.request(wait, opts)
	if err == nil {
		err = m.checkAtLeast(r.atLeast)
	}
	if err == nil && ctx.Err() != nil {
		err = retry.ContextError(ctx)
	}
	return r, err
}

// acquire takes the lock, and reports the result to the observer and the log.
func (m *Mutex) acquire(ctx context.Context, r request) (*Lock, error) {
	if r.refused != nil {
		return m.outlast(ctx, r)
	}
	var a acquisition
	a.init(m.locker, m.name, m.kind, r)
	lock, err := a.run(ctx)
	if m.locker.observed(ctx) {
		a.report(ctx, lock, err)
	}
	return lock, err
}

// unsupported returns the error for a feature that the store does not have.
func (l *Locker) unsupported(what string) error {
	store := l.info.Name
	if l.info.Layout != "" {
		store += " with the layout " + l.info.Layout
	}
	return fmt.Errorf("%s has no %s: %w", store, what, errors.ErrUnsupported)
}

// forever is the wait limit of Lock.
const forever = time.Duration(1<<63 - 1)

// request has the settings of one call.
type request struct {
	wait   time.Duration
	lease  time.Duration
	leased bool // Lease or AtMost has set the field `lease`
	atMost bool // AtMost has set the field `lease`: the lock is renewed until that time has passed

	atLeast time.Duration // how long the name stays taken after the grant; 0 if a release frees it

	note string

	refused func(refusal error, pause time.Duration) // RetryRefused was given: called for each refusal; otherwise nil

	permits int    // the number for a semaphore that the store does not know yet
	beside  string // for the read side: the owner of the write side, if the same caller holds it
}

func (l *Locker) request(wait time.Duration, opts []Option) (request, error) {
	r := request{wait: wait, lease: l.ttl, note: l.note}
	if len(opts) > 0 { // the usual call has none, and needs no allocation
		r = r.with(opts)
	}
	if r.wait < 0 {
		return r, fmt.Errorf("wait of %s is negative", r.wait)
	}
	if r.wait > clock.Longest {
		r.wait = forever
	}
	return r, l.checkEnd(&r)
}

// checkEnd returns an error if a request sets an invalid end of the lock. It sets r.leased if
// AtMost has set the end.
func (l *Locker) checkEnd(r *request) error {
	info, what := l.info, "lease"
	if r.atMost {
		what = "AtMost"
	}
	if r.atMost || info.SessionTTL > 0 {
		info.MaxTTL = 0 // see leaseTTL
	}
	switch {
	case r.atMost && r.leased:
		return errors.New("Lease and AtMost both set the end of the lock: give only one of them")
	case !r.leased && !r.atMost:
		return nil
	case r.atMost && r.lease > 0 && r.atLeast > r.lease:
		return fmt.Errorf("AtLeast of %s is longer than AtMost of %s", r.atLeast, r.lease)
	}
	r.leased = true
	return checkTTL(what, r.lease, info)
}

// checkAtLeast returns an error if AtLeast cannot keep the name of m for the time d.
func (m *Mutex) checkAtLeast(d time.Duration) error {
	switch info := m.locker.info; {
	case d == 0:
		return nil
	case d < 0:
		return fmt.Errorf("AtLeast of %s is negative", d)
	case m.kind != plain:
		return fmt.Errorf("AtLeast is for a Mutex, not for %s locks: %w", m.kind, errors.ErrUnsupported)
	case !info.Caps.AtLeast:
		return m.locker.unsupported("AtLeast")
	case d > mostKept(info):
		return fmt.Errorf("AtLeast of %s is too long: %s keeps a name for at most %s", d, info.Name, mostKept(info))
	}
	return nil
}

// mostKept is the longest time that a store keeps a name taken after its release. A store with
// sessions keeps it apart from any session.
func mostKept(info driver.Info) time.Duration {
	if info.SessionTTL > 0 {
		return clock.Longest
	}
	return mostTTL(info)
}

// leaseTTL returns the TTL for the claim of a request. A store with Info.SessionTTL keeps every
// claim for the time SessionTTL. If the request has a longer lease, the Locker renews the claim
// until that lease ends.
func (l *Locker) leaseTTL(r *request) time.Duration {
	switch session := l.info.SessionTTL; {
	case session > 0:
		return session
	case r.atMost:
		return min(r.lease, l.ttl)
	}
	return r.lease
}

func (r request) with(opts []Option) request {
	for _, opt := range opts {
		opt(&r)
	}
	return r
}

type ownerKey struct{}

func ownerOf(ctx context.Context) *tree {
	t, _ := ctx.Value(ownerKey{}).(*tree)
	return t
}
