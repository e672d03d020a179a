// Package unleased shares Redisson's RSemaphore with Java programs. Its permits have no lease:
// the permits of a process that died are lost. If all programs can use holdfast.Semaphore, use
// that instead.
package unleased

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Semaphore is Redisson's RSemaphore, to share with Java programs. It is only a counter, and
// does not know the holders of permits. So the permits of a process that died are lost, and a
// program can release permits that it did not take. If all programs can use holdfast.Semaphore,
// use that instead: its permits have leases.
//
// If a reply is lost, the Semaphore repeats the call until it has an answer, its context ends,
// or half a minute has passed. A repeated call counts only once. After an error the outcome of
// the call is unknown, unless the error is driver.ErrNotExecuted: then nothing was done. A
// request that the network delays by more than a minute can count twice.
//
// Several goroutines may use a Semaphore at once.
type Semaphore struct {
	store  *kinds.Store
	log    *slog.Logger
	name   string
	undoes background.Group
}

// New returns the semaphore called name in the store of a redishold.Backend; see its method
// PlainSemaphore.
func New(store *kinds.Store, log *slog.Logger, name string) *Semaphore {
	return &Semaphore{store: store, log: log, name: name}
}

// TrySet sets the number of free permits to n and returns true, if that number was never set
// before. Otherwise TrySet changes nothing and returns false.
func (s *Semaphore) TrySet(ctx context.Context, n int) (bool, error) {
	answer, err := s.retry(ctx, &call{what: "set", n: n, Step: kinds.Step{Script: "permits_set", Publish: true, MayFail: true}})
	return answer.Yes, err
}

// Add changes the number of free permits by n, which may be negative. If the number was never
// set, Add begins with 0 free permits.
func (s *Semaphore) Add(ctx context.Context, n int) error {
	_, err := s.retry(ctx, &call{what: "add to", n: n, signed: true, Step: kinds.Step{Script: "permits_give", Publish: true}})
	return err
}

// Release releases n permits and notifies waiters.
func (s *Semaphore) Release(ctx context.Context, n int) error {
	_, err := s.retry(ctx, &call{what: "release", n: n, Step: kinds.Step{Script: "permits_give", Publish: true}})
	return err
}

// Drain takes all free permits and returns how many there were.
func (s *Semaphore) Drain(ctx context.Context) (int, error) {
	answer, err := s.retry(ctx, &call{what: "drain", Step: kinds.Step{Script: "permits_drain"}})
	return int(answer.Number), err
}

// Available returns the number of free permits, or 0 if the number has not been set. The number
// may be negative.
func (s *Semaphore) Available(ctx context.Context) (int, error) {
	answer, err := s.retry(ctx, &call{what: "count", reads: true, Step: kinds.Step{Script: "permits_count"}})
	return int(answer.Number), err
}

// Acquire waits until it has taken n permits together, and returns nil. If ctx ends first,
// Acquire returns ctx's error, and the caller has no permits. While it waits, Acquire tries at
// least every second, in case a message is lost. Waiters are not served in order.
//
// If ctx ends before the store answers, Acquire returns at once. The store may have granted the
// permits. So Acquire tries to release them in the background, for up to a minute. Settle waits
// for such releases. If a process ends before these releases are done, or while the process has
// permits, these permits are lost forever.
func (s *Semaphore) Acquire(ctx context.Context, n int) error {
	waiter := s.store.Topics.CounterWaiter(layout.SemaphoreChannel(s.store.Keys(s.name)))
	defer waiter.Close()
	for {
		ahead := waiter.Version() // before the try, so that Wait returns after any later message
		taken, err := s.take(ctx, n, 0)
		if taken || err != nil {
			return err
		}
		retry.Nap(ctx, waiter, driver.Outcome{Ahead: ahead}, retry.SleepLimit(0, 0))
	}
}

// TryAcquire takes n permits if n are free, and returns true. Otherwise it returns false. It
// does not wait for permits. If the store cannot be reached, it tries three times. If ctx ends
// before the store answers, TryAcquire returns at once. It does not know whether the store
// granted the permits, so it releases them in the background, as Acquire does.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (bool, error) {
	return s.take(ctx, n, retry.TryFailures)
}

// Settle waits until all releases in the background have ended and returns nil. If ctx
// ends first, it returns ctx's error.
func (s *Semaphore) Settle(ctx context.Context) error {
	return s.explain("settle", s.undoes.Wait(ctx))
}

// take makes one call to take n permits, with a new idempotency key; retry may make several
// attempts of that call. If the outcome stays unknown, take releases the permits in the
// background.
func (s *Semaphore) take(ctx context.Context, n, maxFailures int) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, s.explain("acquire", err)
	}
	answer, err := s.retry(ctx, &call{what: "acquire", n: n, maxFailures: maxFailures, Step: kinds.Step{Script: "permits_take", MayFail: true, Late: []string{"0"}}})
	return answer.Yes, err
}

// undo releases in the background the permits that c may have taken. The release must be done
// before the idempotency key of c expires.
func (s *Semaphore) undo(c *call) {
	s.undoes.Go(func() {
		ctx, cancel := context.WithDeadline(context.Background(), c.unknownSince.Add(callTTL-callTTL/10))
		defer cancel()
		step := kinds.Step{Script: "permits_undo", ID: c.ID, Publish: true, MayFail: true}
		if _, err := s.retry(ctx, &call{what: "undo", n: c.n, Step: step}); err != nil {
			s.log.Warn("redis: permits that a cancelled acquire may have taken were not released",
				"semaphore", s.name, "permits", c.n, "error", err)
		}
	})
}

func (s *Semaphore) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s semaphore %q: %w", what, s.name, err)
}

// call is one call of a Semaphore. It is repeated until its outcome is known.
type call struct {
	kinds.Step
	what        string // the action, for errors
	n           int
	signed      bool // n may be negative
	reads       bool // the script writes nothing
	maxFailures int  // after so many failures the call fails; 0 for no limit

	unknownSince time.Time // when the first attempt without an answer began; zero if there was no such attempt
}

// takes reports whether c takes permits. Only the script of such a call must know whether
// earlier attempts may still arrive.
func (c *call) takes() bool { return c.Late != nil }

// indeterminate reports whether the outcome of an attempt is unknown: the script may have run,
// or may still run.
func (c *call) indeterminate() bool { return !c.unknownSince.IsZero() }

// callTTL is the TTL of the idempotency key of a call.
const callTTL = time.Minute

// unknownLimit is how long a call is repeated after its first attempt without an answer. At the
// last repetition the idempotency key must still exist.
const unknownLimit = callTTL / 2

// retry makes attempts of the call c, all with the same idempotency key, until one of them has
// an answer, a failure is final, a limit of c is reached, or ctx ends.
func (s *Semaphore) retry(ctx context.Context, c *call) (answer kinds.Answer, err error) {
	switch {
	case c.n < 0 && !c.signed:
		return answer, s.explain(c.what, wire.Refused("%d is no number of permits", c.n))
	case c.n == 0 && (c.takes() || c.Script == "permits_give"):
		return kinds.Answer{Yes: true}, nil
	}
	if !c.reads {
		c.ID, c.CallTTL = cmp.Or(c.ID, rand.Text()), callTTL
	}
	if c.takes() || c.Publish {
		c.Number = []string{strconv.Itoa(c.n)}
	}
	var loop retry.Loop
	for loop.Next(ctx) {
		began := time.Now()
		if answer, err = s.attempt(ctx, c, retry.Timeout(callTTL, loop.Failures())); err == nil {
			return answer, nil
		}
		if !c.reads && !retry.Certain(err) && !c.indeterminate() {
			c.unknownSince = began
			if c.takes() {
				c.Late = []string{"1"}
			}
		}
		loop.Failed(err)
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) || retry.Final(err) ||
			c.maxFailures > 0 && loop.Failures() >= c.maxFailures ||
			c.indeterminate() && time.Since(c.unknownSince) > unknownLimit {
			return kinds.Answer{}, s.failed(c, err)
		}
	}
	return kinds.Answer{}, s.failed(c, loop.Err(ctx))
}

func (s *Semaphore) attempt(ctx context.Context, c *call, limit time.Duration) (kinds.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return s.store.Do(ctx, s.name, kinds.Counter{Layout: s.store.Layout, Scripts: "permits", At: layout.SemaphoreChannel}, c.Step)
}

// failed returns the error of c, whose last attempt has failed with err. If an attempt may have
// taken permits, failed releases them in the background.
func (s *Semaphore) failed(c *call, err error) error {
	if c.indeterminate() {
		err = fmt.Errorf("the store did not answer; it is not known whether it was done: %w", lastOnly{err})
		if c.takes() {
			s.undo(c)
		}
	}
	return s.explain(c.what, err)
}

// lastOnly is the error of a call after several attempts: it has the error of the last attempt.
// It must not match driver.ErrNotExecuted, because the server may have executed an earlier
// attempt.
type lastOnly struct{ error }

// Is reports the same as errors.Is for the wrapped error, but always false for
// driver.ErrNotExecuted.
func (e lastOnly) Is(target error) bool {
	return target != driver.ErrNotExecuted && errors.Is(e.error, target)
}

// As reports the same as errors.As for the wrapped error.
func (e lastOnly) As(target any) bool { return errors.As(e.error, target) }
