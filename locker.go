// Package holdfast is a distributed lock: one process at a time sells the last
// item, runs the nightly job, deploys, or leads.
//
// A Locker takes locks from a store. Package redishold keeps them in Redis, in Redisson's
// layout. Packages etcdhold, zkhold, pghold and mysqlhold keep them in other stores.
// Package memhold keeps them in memory, for examples and tests.
//
//	locker := goredisconn.Locker(client, nil) // each connector has one
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
// a third of it has passed, unless the option FixedLease fixes its end. A hold that ends in any
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
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/collect"
	"github.com/holdfast-go/holdfast/internal/renew"
	"github.com/holdfast-go/holdfast/internal/retry"
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

	collector collect.Collector // decides when a dropped Lock is collected; nil outside of simulations

	id     string // a random UUID: Claim.Client
	number atomic.Uint64

	queues       queues
	releases     releases           // the releases without an answer, behind which claims may ask
	yields       map[queueKey]yield // see rememberYieldLocked; the mutex of the queues guards it
	renewals     *renew.Scheduler
	reports      reports
	notices      notices
	background   background.Group
	cleaner      background.Queue // runs cleanUp and wake
	permits      sync.Map         // by the name of a semaphore: the number of permits that the last warning named
	everAnswered atomic.Bool      // the store has answered a claim for a lock
	short        atomic.Bool      // it was logged that the store grants less than the TTL
	clock        *clock.Clock
}

// New returns a Locker that keeps its locks in b. opts may be nil. New does no I/O. If a
// value in opts is invalid, every call for a lock, a semaphore or a latch returns an error
// that describes it. New panics if b is nil.
func New(b driver.Backend, opts *Options) *Locker {
	if b == nil {
		panic("holdfast: New called with a nil backend")
	}
	l := &Locker{backend: b, info: b.Info(), id: uuid.New(), yields: make(map[queueKey]yield), clock: clock.New()}
	l.collector, _ = b.(collect.Collector)
	l.cleaner.Group = &l.background
	l.cleaner.Most = cleanersMost
	l.settings, l.invalid = opts.settings(l.info)
	l.reports.init(l)
	l.notices.init(l)
	l.renewals = l.newScheduler()
	return l
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

// cleanersMost bounds the releases and notifications of a Locker that run in the background at once.
// Thousands of callers may give up in the same moment. A goroutine for each of them would only
// send thousands of calls to the store at once.
const cleanersMost = 32

// Drain waits until the Locker has no work in the background any more, and then returns nil.
// Call it before the program ends. The work in the background is:
//
//   - the releases that Options.AsyncUnlock has queued;
//   - the release of a lock, after the store did not answer an Unlock;
//   - the removal of a claim whose call of Lock was cancelled, if the store has not removed it
//     25 ms after the end of the call's context;
//   - the notification of other clients, if nobody takes a lock that this process has released.
//
// If a program ends without Drain, such a lock stays taken until its lease ends, and a claim in a
// queue of the store blocks later claims until the store drops it: on etcd and ZooKeeper when
// the session ends. Each release takes one TTL at most. But the release for a waiter of a fair
// lock may take as long as the store keeps the waiter's place. If ctx ends first, Drain returns
// ctx's error. Drain does not wait for held locks. When Drain returns nil, every loss so far has
// been reported to Options.Observe and to the Logger.
func (l *Locker) Drain(ctx context.Context) error {
	if err := l.background.Wait(ctx); err != nil {
		return err
	}
	if store, ok := l.backend.(driver.Drainer); ok {
		return store.Drain(ctx)
	}
	return nil
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

// unsupported returns the error for a feature that the store does not have.
func (l *Locker) unsupported(what string) error {
	store := l.info.Name
	if l.info.Layout != "" {
		store += " with the layout " + l.info.Layout
	}
	return fmt.Errorf("%s has no %s: %w", store, what, errors.ErrUnsupported)
}

// nextOwner returns an owner that was never used before, and the number at its end.
func (l *Locker) nextOwner() (owner string, seq uint64) {
	var room [64]byte // a UUID and a number need less
	seq = l.number.Add(1)
	b := append(append(room[:0], l.id...), ':')
	return string(strconv.AppendUint(b, seq, 10)), seq
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

// wake notifies the clients that wait for the name of c, in the background. It waits for the
// answer to the last release of that name: a client that is notified before the release would
// find the lock held, and would not be notified again. wake repeats the notification after an
// error, until a TTL has passed.
func (l *Locker) wake(c driver.Claim) {
	store, ok := l.backend.(driver.QuietReleaser)
	if !ok {
		return
	}
	own := l.releases.underWay(c.Name)
	l.cleaner.Go(func(bool) {
		ctx, cancel := context.WithTimeout(context.Background(), l.ttl)
		defer cancel()
		l.releases.wait(ctx, own)
		err := retry.Do(ctx, l.ttl, func(ctx context.Context) error { return store.Wake(ctx, c) })
		if err != nil {
			l.log.Warn("waiting clients were not notified of a release; clients of Holdfast ask again within a second, others when the lease that they know of ends",
				"lock", c.Name, "backend", l.info.Name, "err", err)
		}
	})
}

// yieldsMost bounds the names for which rememberYieldLocked keeps a yield.
const yieldsMost = 1024

// rememberYieldLocked keeps a yield for a name that no goroutine of this process waits for. The
// next goroutine that asks for the name has to yield, too, because it may be the one that has just
// released the lock. The mutex is that of the queues.
func (l *Locker) rememberYieldLocked(key queueKey, s yield) {
	if len(l.yields) >= yieldsMost {
		clear(l.yields) // the other clients miss one yield for each of these names
	}
	l.yields[key] = s
}

// observed reports whether events are wanted: there is an observer, or the Logger writes
// lines of the level Debug.
func (l *Locker) observed(ctx context.Context) bool {
	return l.observe != nil || l.log.Enabled(ctx, slog.LevelDebug)
}

// reportCall reports a call to the store that has just ended, and remembers that the store has
// answered. Record the answer of the store before reportCall, because the observer may be slow.
func (l *Locker) reportCall(ctx context.Context, op string, c *driver.Claim, began clock.Instant, err error) {
	if err == nil && !l.everAnswered.Load() {
		l.everAnswered.Store(true)
	}
	if l.observe != nil {
		l.emitCall(ctx, op, c, l.clock.Now()-began, err)
	}
}

func (l *Locker) emit(ctx context.Context, e Event) {
	if l.observe == nil {
		return
	}
	e.Backend = l.info.Name
	e.Client = l.id
	e.Note = l.note
	l.observe(ctx, e)
}

func (l *Locker) emitCall(ctx context.Context, op string, c *driver.Claim, took time.Duration, err error) {
	if l.observe != nil {
		l.emit(ctx, Event{Type: EventCall, Name: c.Name, Kind: kindOf(c).String(), Op: op, Took: took, Err: err})
	}
}

// reportIndeterminate reports what became of a call that had no answer. The parameter
// `resolved` is true if the result of the call is certain now.
func (l *Locker) reportIndeterminate(op string, c *driver.Claim, resolved bool) {
	if l.observe == nil {
		return
	}
	l.emit(context.Background(), Event{Type: EventIndeterminate, Name: c.Name, Kind: kindOf(c).String(), Op: op, Resolved: resolved})
}
