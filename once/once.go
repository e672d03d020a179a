// Package once lets one caller make a missing value, while callers in any number of processes
// ask for it. A cache needs that if many ask at the same time for a key that has expired.
//
// The package has no cache of its own. Where values are kept, and when one is stale, is up
// to the caller:
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
	Missing State = iota // there is none, so callers wait for it
	Stale                // there is one to return now, and one caller should make a new one
	Fresh                // there is one, and nothing to do
)

// Do returns the value that get finds. If it is missing, one caller among all processes
// holds m and runs fill, while the others wait. Each of them runs get again, and returns
// what it finds. If the value is stale, one caller runs fill, and the others return the
// stale value at once.
//
// Fill makes the value, stores it where get finds it, and returns it. Its context ends with
// ctx, and when the lock is lost. A process that was paused may write after others have
// filled. To refuse that, store lock.Token beside the value, and let a write with a smaller
// token change nothing.
//
// If fill fails, its caller gets the error, and the next waiter runs fill again. If each
// fill fails, a hundred waiters run it one after the other: let fill store the failure for
// a moment, as a value of its own, or give the option Wait.
//
// If there is a stale value, Do returns it in place of an error of fill, of the lock or of
// ctx. Let fill log its errors; Options.Observe of the Locker reports those of the store.
// If the lock was lost while fill ran, the error is holdfast.ErrLost. An error of get is
// returned.
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
		now, found, err := get(ctx) // another caller may have made it
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
