// Package holdfast is a distributed lock: one process at a time sells the last
// item, runs the nightly job, deploys, or leads.
//
// A Locker takes locks from a store. Package redishold keeps them in Redis, in Redisson's
// layout. Packages etcdhold, zkhold, pghold and mysqlhold keep them in other stores.
// Package memhold keeps them in memory, for examples and tests.
//
//	lock, err := locker.Lock(ctx, "stock:42") // waits until ctx is done
//	if err != nil {
//		return err
//	}
//	defer lock.Unlock()
//
//	return ship(lock.Context(ctx), lock.Token())
//
// # Words
//
// A claim is a request to hold a name. When the store grants the claim, the claim becomes a
// hold, and the caller gets a *Lock. The store keeps a hold for a limited time, the lease,
// which is usually as long as the TTL. Until Unlock, the Locker renews the lease each time that
// a third of it has passed, unless the option Lease fixes its end. A hold that ends in any
// other way is lost.
//
// # What is promised
//
// At most one client considers itself the holder, under two conditions: until a lease ends, the
// store does not lose what it has acknowledged; and the rates of clocks differ by less than one
// percent. The holder is notified of a loss before the store can grant the lock again. For
// that, the holder counts its lease on the monotonic clock, from before the request was sent,
// and subtracts a margin. So the notification needs no answer of the store. A call that returns
// an error has not acquired the lock. If an acquire failed or was cancelled, the store keeps
// nothing of it for longer than one TTL after it has executed the acquire. After the machine
// was suspended, Holdfast asks the store before it reports the lock as held again.
//
// A lock alone does not protect data outside the store. If a process is paused between its last
// check and its write, it still writes when it runs again. If that matters, send Lock.Token
// with each write, and let the resource refuse a token that is smaller than the largest it has
// seen (Kleppmann, "How to do distributed locking", 2016).
package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/renew"
	"github.com/holdfast-go/holdfast/internal/uuid"
)

// Locker takes locks from one store, as one client of it. Any number of goroutines may
// use it, and most programs need only one. It has goroutines only while it takes,
// holds or releases locks, so it needs no Close.
type Locker struct {
	settings
	backend driver.Backend
	info    driver.Info
	invalid error // what is wrong with the options; every call returns it

	id     string // a random UUID: Claim.Client
	number atomic.Uint64

	queues     queues
	releases   releases           // the releases without an answer, behind which claims may ask
	yields     map[queueKey]yield // see rememberYield; the mutex of the queues guards it
	renewals   *renew.Scheduler
	reports    reports
	notices    notices
	background background.Group
	cleaner    background.Queue // runs cleanUp and wake
	permits    sync.Map         // by the name of a semaphore: the number of permits that the last warning named
	answered   atomic.Bool      // the store has answered a claim for a lock
	short      atomic.Bool      // it was logged that the store grants less than the TTL
	clock      *clock.Clock
}

// New returns a Locker that keeps its locks in b. opts may be nil. New does no I/O. If a
// value in opts is invalid, every call for a lock, a semaphore or a latch returns an error
// that describes it. New panics if b is nil.
func New(b driver.Backend, opts *Options) *Locker {
	if b == nil {
		panic("holdfast: New called with a nil backend")
	}
	l := &Locker{backend: b, info: b.Info(), id: uuid.New(), yields: make(map[queueKey]yield), clock: clock.New()}
	l.cleaner.Group, l.cleaner.Most = &l.background, cleanersMost
	l.settings, l.invalid = opts.settings(l.info)
	l.reports.init(l)
	l.notices.init(l)
	l.renewals = l.newScheduler()
	return l
}

// Lock waits until the name is free, takes the lock, and returns it. If ctx ends first, it
// returns ctx's error. The option Wait sets an earlier limit, after which it returns ErrBusy.
// ctx limits only the wait, not the lock: use Lock.Context for the work under the lock.
//
// A call that gives up removes its claim from the store. It waits for that for at most 25 ms
// beyond the end of ctx or of Wait. If the store needs longer, the removal goes on in the
// background: call Drain before the program ends, or the claim may block the name for a TTL.
//
// If the store is unreachable, Lock tries again until ctx ends. An error that does not go
// away by waiting is returned at once: a wrong password, a missing permission, a full
// server, ErrMismatch if the name is in use for something else, ErrDeadlock if the caller
// would wait for itself. The option RetryRefused makes Lock wait until an operator has
// repaired the first three.
func (l *Locker) Lock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return l.Mutex(name).Lock(ctx, opts...)
}

// TryLock takes the lock `name` if it is free, and returns it. If it is not free, TryLock
// returns a *BusyError, which is ErrBusy: at once, or after the time of the option Wait. If the
// store does not answer, TryLock tries a few times, and then returns the error of the store.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return l.Mutex(name).TryLock(ctx, opts...)
}

// Do takes the lock `name`, runs fn and releases the lock. Prefer Do to Lock. Do waits as Lock
// does, and never calls fn without the lock. The context of fn ends when the lock is lost. Do
// returns the results of fn. If the lock was lost meanwhile, the error is fn's error joined
// with ErrLost, even if fn returned nil. If the release could not be confirmed, the error of
// the release is joined in the same way.
func Do[T any](ctx context.Context, l *Locker, name string, fn func(context.Context, *Lock) (T, error), opts ...Option) (result T, err error) {
	lock, err := l.Lock(ctx, name, opts...)
	if err != nil {
		return result, err
	}
	defer func() { err = joined(err, lock.unlock(false)) }()
	return fn(lock.Context(ctx), lock)
}

// check returns an error if the options of the Locker are invalid, or if the store cannot
// keep a lock of that name. Callers check before they send anything.
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

// nextOwner returns an owner that was never used before, and the number at its end.
func (l *Locker) nextOwner() (owner string, seq uint64) {
	var room [64]byte // a UUID and a number need less
	seq = l.number.Add(1)
	b := append(append(room[:0], l.id...), ':')
	return string(strconv.AppendUint(b, seq, 10)), seq
}

// newScheduler returns the scheduler that renews the leases of the Locker.
func (l *Locker) newScheduler() *renew.Scheduler {
	return renew.New(renew.Config{
		Clock: l.clock, TTL: l.ttl, Margin: l.margin,
		Renew:   l.renew,
		Verbose: func() bool { return l.observed(context.Background()) },
		Called:  func(ctx context.Context, c renew.Call) { l.emitCall(ctx, OpRenew, c.Claim, c.Took, c.Err) },
		Renewed: l.reportRenewal,
		Ticked:  l.reports.start,
		Idle: func() {
			if l.notices.listening.Load() {
				l.notices.end()
			}
		},
	})
}

// observed reports whether events are wanted: there is an observer, or the Logger writes
// lines of the level Debug.
func (l *Locker) observed(ctx context.Context) bool {
	return l.observe != nil || l.log.Enabled(ctx, slog.LevelDebug)
}

// renew renews claims. It logs once if the store keeps them for less than three fifths of the
// TTL. It does not log a longer time, because a store with sessions may keep claims for two
// thirds of the TTL.
func (l *Locker) renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	answers, err := l.backend.Renew(ctx, cs)
	for i := range min(len(answers), len(cs)) {
		if err != nil || answers[i].Err != nil || cs[i].TTL != l.ttl {
			continue
		}
		if validFor := answers[i].ValidFor; validFor < l.ttl*3/5 && !l.short.Swap(true) {
			l.log.Warn("the store grants a shorter lease than the TTL, so locks are lost sooner if the store cannot be reached",
				"backend", l.info.Name, "ttl", l.ttl, "lease", validFor)
		}
		break
	}
	return answers, err
}

// reportCall reports a call to the store that has just ended, and remembers that the store has
// answered. Record the answer of the store before reportCall, because the observer may be slow.
func (l *Locker) reportCall(ctx context.Context, op string, c *driver.Claim, began clock.Instant, err error) {
	if err == nil && !l.answered.Load() {
		l.answered.Store(true)
	}
	if l.observe != nil {
		l.emitCall(ctx, op, c, l.clock.Now()-began, err)
	}
}
