// Package once lets one caller make a missing value, while callers in any number of processes
// ask for that value. A cache needs this if many callers ask at the same time for a key that
// has expired.
//
// The package has no cache of its own. The caller decides where values are kept, and when a
// value is stale:
//
//	price, err := once.Do(ctx, locker.Mutex("price/"+sku), get, fill)
//	// get:  func(context.Context) (int, once.State, error)
//	// fill: func(context.Context, *holdfast.Lock) (int, error)
package once

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast"
)

// State is the state of a value in a cache.
type State int

// The states of a value.
const (
	Missing State = iota // there is no value, so callers wait for one
	Stale                // there is a value to return now, and one caller should make a new one
	Fresh                // there is a value, and nothing has to be done
)

// Do returns the value that the function `get` finds. If the value is missing, one caller among
// all processes holds m and calls the function `fill`, while the others wait. Each of the
// others then calls `get` again, and returns what it finds. If the value is stale, one caller
// calls `fill`, and the others return the stale value at once.
//
// The function `fill` makes the value, stores it where `get` finds it, and returns it. The
// context of `fill` ends when ctx ends, and when the lock is lost. If a process is paused in
// `fill`, it may write after another process has stored a newer value. To refuse such a write,
// store lock.Token beside the value, and let a write with a smaller token change nothing.
//
// If `fill` fails, its caller gets the error, and the next waiter calls `fill` again. If each
// call of `fill` fails, a hundred waiters make a hundred calls, one after the other. To avoid
// that, let `fill` store the failure for a moment, as a value of its own, or give the option
// Wait.
//
// If the first call of `get` fails, Do returns its error. If the last call of `get` that
// succeeded found a stale value, Do returns that value in place of a later error: of `fill`, of
// the lock, of ctx or of another `get`. So let `fill` log its errors; Options.Observe of the
// Locker reports the errors of the store. If there is no stale value, and the lock was lost
// while `fill` ran, the error is holdfast.ErrLost.
//
// The options are those of the lock. With Wait, Do returns ErrBusy if the value is missing
// and the wait is over.
func Do[T any](ctx context.Context, m *holdfast.Mutex,
	get func(context.Context) (T, State, error),
	fill func(context.Context, *holdfast.Lock) (T, error),
	opts ...holdfast.Option,
) (T, error) {
	value, state, err := get(ctx)
	if err != nil || state == Fresh {
		return value, err
	}
	if state == Stale {
		opts = slices.Concat(opts, []holdfast.Option{holdfast.Wait(0)})
	}
	made := value
	err = m.Do(ctx, func(ctx context.Context, lock *holdfast.Lock) error {
		now, found, err := get(ctx) // another caller may have made the value meanwhile
		if err != nil {
			return err
		}
		if value, state = now, found; state == Fresh {
			made = value
			return nil
		}
		made, err = fill(ctx, lock)
		return err
	}, opts...)
	if err != nil && state == Stale {
		return value, nil
	}
	return made, err
}
