// Package named has locks for programs that unlock a lock by its name, while Holdfast unlocks
// a *holdfast.Lock. Each of these programs defines an interface, and each type here has the
// methods of one such interface:
//
//	Locks    certmagic and Caddy: Locker, TryLocker, LockLeaseRenewer of a Storage
//	Keys     fiber: Locker of the middleware idempotency
//	DB       goose v3: goose.WithLocker(named.NewDB(locker.Mutex("migrations")))
//	Session  goose v3: goose.WithSessionLocker, which keeps a connection while it waits
//	One      golang-migrate v4: Lock and Unlock of a database.Driver
//
// Any number of goroutines may use a value of these types. See docs/recipes.md.
//
// Each call of Lock needs a call of Unlock, and a call of Unlock does not say which hold it
// ends. If a process has several holds of a name, Unlock ends the oldest. A process has several
// holds of a name only after a loss. None of these programs notices a loss while it works, so
// the lost hold stays the oldest until its Unlock, which returns ErrLost. If that Unlock never
// comes, the Unlock of the next hold ends the lost hold, and the next hold gets no Unlock.
// Therefore, after an Unlock of a lost hold, the newest hold is not renewed any more. It is
// released at the end of its lease, unless another Unlock ends it before.
//
// Each Lock returns an error for the read side of a RWMutex, which several processes hold at the
// same time.
//
// The options that a constructor gets apply to each Lock of its value. With holdfast.Wait a
// Lock returns ErrBusy when the wait is over. Without that option, a Lock that gets no context
// waits without limit. None of these programs is notified of a loss before Unlock.
package named

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/alone"
)

// Locks are locks that a program locks and unlocks by name.
type Locks struct {
	mutex func(name string) *holdfast.Mutex
	opts  []holdfast.Option

	mu    sync.Mutex
	holds map[string][]*hold // by name, the oldest first
}

// hold is a Lock that was not unlocked yet.
type hold struct {
	lock *holdfast.Lock
	end  *time.Timer // releases the hold; nil for a hold that is renewed until its Unlock
}

// New returns Locks. The store has each lock under the name prefix + name.
func New(l *holdfast.Locker, prefix string, opts ...holdfast.Option) *Locks {
	return newLocks(func(name string) *holdfast.Mutex { return l.Mutex(prefix + name) }, opts)
}

func newLocks(mutex func(string) *holdfast.Mutex, opts []holdfast.Option) *Locks {
	return &Locks{mutex: mutex, opts: opts, holds: map[string][]*hold{}}
}

// Lock waits for the lock of that name, and takes it. If ctx ends first, it returns ctx's
// error. If the time of the option Wait ends first, it returns ErrBusy.
func (t *Locks) Lock(ctx context.Context, name string) error {
	m := t.mutex(name)
	if err := alone.Check(m); err != nil {
		return fmt.Errorf("lock %q: %w", m.Name(), err)
	}
	lock, err := m.Lock(ctx, t.opts...)
	if err == nil {
		t.add(name, lock)
	}
	return err
}

// TryLock takes the lock of that name. It returns false if another client holds it.
func (t *Locks) TryLock(ctx context.Context, name string) (bool, error) {
	lock, err := t.mutex(name).TryLock(ctx, t.opts...)
	if errors.Is(err, holdfast.ErrBusy) {
		return false, nil
	}
	if err == nil {
		t.add(name, lock)
	}
	return err == nil, err
}

// Unlock releases the oldest hold of that name. It returns ErrLost if that hold was lost, and
// another error if there is no hold. It ignores ctx, which has often ended. Lock.Unlock has a
// time limit of its own.
func (t *Locks) Unlock(_ context.Context, name string) error {
	t.mu.Lock()
	holds := t.holds[name]
	if len(holds) == 0 {
		t.mu.Unlock()
		return t.notHeld(name)
	}
	h := holds[0]
	t.remove(name, h)
	if errors.Is(h.lock.Err(), holdfast.ErrLost) {
		t.endLast(name)
	}
	t.mu.Unlock()
	return h.lock.Unlock()
}

// RenewLockLease returns nil while the oldest hold of that name is held. It renews nothing,
// because the Locker renews until Unlock. It ignores the duration that certmagic asks for.
func (t *Locks) RenewLockLease(_ context.Context, name string, _ time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if holds := t.holds[name]; len(holds) > 0 {
		return holds[0].lock.Err()
	}
	return t.notHeld(name)
}

func (t *Locks) notHeld(name string) error {
	return fmt.Errorf("lock %q: this process does not hold it", t.mutex(name).Name())
}

func (t *Locks) add(name string, lock *holdfast.Lock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds[name] = append(t.holds[name], &hold{lock: lock})
}

// remove removes a hold. It returns false if the hold was removed before. The mutex is held.
func (t *Locks) remove(name string, h *hold) bool {
	i := slices.Index(t.holds[name], h)
	if i < 0 {
		return false
	}
	if h.end != nil {
		h.end.Stop()
	}
	if t.holds[name] = slices.Delete(t.holds[name], i, i+1); len(t.holds[name]) == 0 {
		delete(t.holds, name)
	}
	return true
}

// endLast ends the renewals of the last hold of a name. Only that hold may still be held,
// because all earlier ones are lost. It is released at the end of its lease, unless its
// Unlock comes before. The mutex is held.
func (t *Locks) endLast(name string) {
	holds := t.holds[name]
	if len(holds) == 0 || holds[len(holds)-1].end != nil {
		return
	}
	h := holds[len(holds)-1]
	h.end = time.AfterFunc(h.lock.Remaining(), func() {
		t.mu.Lock()
		removed := t.remove(name, h)
		t.mu.Unlock()
		if removed {
			_ = h.lock.Unlock()
		}
	})
}
