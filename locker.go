package holdfast

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/renew"
)

// Locker takes locks from one store, as one client. It may be used by any
// number of goroutines; most programs need one. It starts no goroutine before
// the first lock is held and keeps none after the last is released, so
// there is nothing to close.
type Locker struct {
	settings
	backend driver.Backend
	info    driver.Info
	invalid error // what is wrong with the options; every call returns it

	id     string // a random UUID: Claim.Client
	number atomic.Uint64

	queues     queues
	starts     map[queueKey]start // see remember; the mutex of the queues guards it
	renewals   *renew.Scheduler
	reports    reports
	notices    notices
	background background.Group
	permits    sync.Map // by name: how many permits a semaphore has, of which it was warned
	clock      *clock.Clock
}

// New returns a Locker that keeps its locks in b. It does no I/O. Options that
// make no sense are reported by the first call that would use them. New panics
// if b is nil.
func New(b driver.Backend, opts *Options) *Locker {
	if b == nil {
		panic("holdfast: New called with a nil backend")
	}
	l := &Locker{backend: b, info: b.Info(), id: newUUID(), starts: make(map[queueKey]start), clock: clock.New()}
	l.settings, l.invalid = opts.settings(l.info)
	l.reports.init(l)
	l.notices.init(l)
	l.renewals = l.newScheduler()
	return l
}

// Lock waits until name is free, takes it, and returns it. It waits until ctx is
// done, then returns ctx's error; Wait sets an earlier limit, after which it
// returns ErrBusy. ctx bounds the waiting only, not the lock: use Lock.Context
// for what is done while it is held.
//
// A store that is out of reach is asked again until ctx is done. What waiting
// cannot mend is returned at once: a refused password, a missing right, a full
// server, ErrMismatch where the name is in use for something else, ErrDeadlock
// where the caller would wait for itself.
func (l *Locker) Lock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return l.Mutex(name).Lock(ctx, opts...)
}

// TryLock takes name if it is free. If it is not, TryLock returns a *BusyError,
// which is ErrBusy, at once or after Wait. A store that does not answer is
// asked a few times, then its error is returned.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return l.Mutex(name).TryLock(ctx, opts...)
}

// Do runs fn while holding name, and is the form to prefer. It waits for the
// lock as Lock does; fn gets a context that ends when the lock is lost. Do
// returns what fn returned. If the lock was lost meanwhile, the error is fn's
// error joined with ErrLost, even where fn returned nil; so it is with the error
// of an Unlock that could not be confirmed. fn is never called without the lock.
func Do[T any](ctx context.Context, l *Locker, name string, fn func(context.Context, *Lock) (T, error), opts ...Option) (result T, err error) {
	lock, err := l.Lock(ctx, name, opts...)
	if err != nil {
		return result, err
	}
	defer func() { err = joined(err, lock.Unlock()) }()
	return fn(lock.Context(ctx), lock)
}

// check answers what is wrong with a name, before anything is sent.
func (l *Locker) check(name string) error {
	switch {
	case l.invalid != nil:
		return fmt.Errorf("holdfast options: %w", l.invalid)
	case name == "":
		return errors.New("the name of the lock is empty")
	case l.info.MaxName > 0 && len(name) > l.info.MaxName:
		return fmt.Errorf("the name of the lock has %d bytes: %s takes at most %d", len(name), l.info.Name, l.info.MaxName)
	}
	return nil
}

// nextOwner returns an owner that was never used before, and its number.
func (l *Locker) nextOwner() (owner string, seq uint64) {
	var room [64]byte // more than a UUID and a number need
	seq = l.number.Add(1)
	b := append(append(room[:0], l.id...), ':')
	return string(strconv.AppendUint(b, seq, 10)), seq
}

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, as of Go 1.24
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
