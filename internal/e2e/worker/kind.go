package worker

import (
	"context"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
)

// Kind is a kind of lock whose holders have a *holdfast.Lock. Any other value is a Mutex.
type Kind string

// Kinds.
const (
	Mutex  Kind = "mutex"     // a Mutex
	Fair   Kind = "fair"      // a FairMutex
	Reader Kind = "read"      // the read side of an RWMutex
	Writer Kind = "write"     // its write side
	Permit Kind = "semaphore" // one permit of a Semaphore
)

// Call is a method that takes a lock.
type Call func(context.Context, ...holdfast.Option) (*holdfast.Lock, error)

// Of returns the lock of the kind with that name. The kind is not Permit.
func (k Kind) Of(l *holdfast.Locker, name string) *holdfast.Mutex {
	switch k {
	case Fair:
		return l.FairMutex(name)
	case Reader:
		return l.RWMutex(name).Read
	case Writer:
		return l.RWMutex(name).Write
	default:
		return l.Mutex(name)
	}
}

// Calls returns the methods that take a lock of the kind: lock waits, try does not. A semaphore
// has so many permits.
func (k Kind) Calls(l *holdfast.Locker, name string, permits int) (lock, try Call) {
	if k == Permit {
		s := l.Semaphore(name, permits)
		return s.Acquire, s.TryAcquire
	}
	m := k.Of(l, name)
	return m.Lock, m.TryLock
}

// Request returns what a history shows of a call that waits for a lock of the kind. The caller
// adds the lease.
func (k Kind) Request(l *holdfast.Locker, name string, permits int) judge.Request {
	lock, _ := k.Calls(l, name, permits)
	return judge.Request{Name: name, Side: k.Side(), Lock: func(ctx context.Context) (*holdfast.Lock, error) { return lock(ctx) }}
}

// Side returns what a hold of the kind keeps out.
func (k Kind) Side() judge.Side {
	switch k {
	case Reader:
		return judge.Reader
	case Writer:
		return judge.Writer
	case Permit:
		return judge.Permit
	default:
		return judge.Exclusive
	}
}

// Rival returns a kind that k keeps out.
func (k Kind) Rival() Kind {
	switch k {
	case Reader:
		return Writer
	case Writer:
		return Reader
	default:
		return k
	}
}

// Scripts are the scripts of redishold that keep a kind of lock.
type Scripts struct{ Acquire, Renew, Release, Abandon string }

// Scripts returns the scripts of the kind.
func (k Kind) Scripts() Scripts {
	switch k {
	case Fair:
		return Scripts{"fair_acquire", "renew", "fair_release", "fair_release"}
	case Reader:
		return Scripts{"rw_read_acquire", "rw_read_renew", "rw_release", "rw_release"}
	case Writer:
		return Scripts{"rw_write_acquire", "renew", "rw_release", "rw_release"}
	case Permit:
		return Scripts{"semaphore_acquire", "semaphore_renew", "semaphore_release", "semaphore_abandon"}
	default:
		return Scripts{"acquire", "renew", "release", "abandon"}
	}
}
