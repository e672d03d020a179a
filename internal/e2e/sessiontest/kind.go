package sessiontest

import (
	"context"

	"github.com/holdfast-go/holdfast"
)

// Kind is what a program holds that StartHolder started.
type Kind string

// The kinds of holds.
const (
	Mutex  Kind = "mutex"  // a mutex
	Writer Kind = "writer" // the write side of a read-write lock
	Permit Kind = "permit" // one of two permits of a semaphore
)

// Take waits for a hold of the kind.
func (k Kind) Take(ctx context.Context, l *holdfast.Locker, name string) (*holdfast.Lock, error) {
	switch k {
	case Writer:
		return l.RWMutex(name).Write.Lock(ctx)
	case Permit:
		return l.Semaphore(name, 2).Acquire(ctx)
	default:
		return l.Lock(ctx, name)
	}
}
