package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Locks are several locks that are held together.
type Locks []*Lock

// LockAll takes all of ms or none of them. It waits until ctx is done. However
// the mutexes are ordered, two calls cannot wait for each other in a circle: it
// takes them in the order of their Lockers and names. A program that also takes
// some of them one by one has to keep that order itself.
//
// A mutex that is named twice is ErrDeadlock.
func LockAll(ctx context.Context, ms ...*Mutex) (Locks, error) {
	sorted := slices.SortedFunc(slices.Values(ms), func(a, b *Mutex) int {
		return strings.Compare(a.locker.id+a.name, b.locker.id+b.name)
	})
	for i := 1; i < len(sorted); i++ {
		if *sorted[i] == *sorted[i-1] {
			return nil, fmt.Errorf("lock %q: %w: it is named twice", sorted[i].name, ErrDeadlock)
		}
	}
	locks := make(Locks, 0, len(ms))
	for _, m := range sorted {
		lock, err := m.Lock(ctx)
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

// Unlock gives all of them back, in reverse order, and joins the errors.
func (ks Locks) Unlock() error {
	var errs []error
	for _, k := range slices.Backward(ks) {
		errs = append(errs, k.Unlock())
	}
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
