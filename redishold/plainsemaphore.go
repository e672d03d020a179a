package redishold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// permitsScripts are the scripts of plain semaphores.
type permitsScripts struct{ set, take, undo, give, drain, count, probe *Script }

func loadPermitsScripts() permitsScripts {
	return permitsScripts{
		set:   loadScript("permits_set"),
		take:  loadScript("permits_take"),
		undo:  loadScript("permits_undo"),
		give:  loadScript("permits_give"),
		drain: loadScript("permits_drain"),
		count: loadScript("permits_count"),
		probe: loadScript("counter_probe"),
	}
}

// PlainSemaphore is Redisson's RSemaphore, to share with Java programs that use
// one. It is a bare counter: nobody knows who holds a permit, so permits of a
// process that died never come back, and anyone can release what they never
// took. Where all sides can, use holdfast's Semaphore, whose permits are leased.
//
// A call whose reply was lost is repeated without counting twice, until its
// context ends or half a minute has passed without any answer. Its error then
// says that the outcome is unknown, unless it is driver.ErrNotExecuted: nothing was
// done. A request that the network delays by more than a minute can count twice.
//
// A PlainSemaphore may be used by several goroutines at once.
type PlainSemaphore struct {
	backend *Backend
	name    string
	undoes  background.Group
}

// PlainSemaphore returns Redisson's semaphore called name. It does no I/O. It
// must not share a name with a holdfast Semaphore or any other kind of lock.
func (b *Backend) PlainSemaphore(name string) *PlainSemaphore {
	return &PlainSemaphore{backend: b, name: name}
}

// TrySet sets the number of free permits to n if nobody has set it yet, and
// reports whether it did.
func (s *PlainSemaphore) TrySet(ctx context.Context, n int) (bool, error) {
	if n < 0 {
		return false, s.negative("set", n)
	}
	answer, err := s.insist(ctx, s.operation(s.backend.permits.set, true, strconv.Itoa(n), ms(permitsMark)))
	return answer.yes, s.explain("set", err)
}

// Add changes the number of free permits by n, which may be negative. A
// semaphore that nobody has set yet begins at 0.
func (s *PlainSemaphore) Add(ctx context.Context, n int) error {
	return s.give(ctx, "add to", n)
}

// Release gives n permits back and wakes waiters.
func (s *PlainSemaphore) Release(ctx context.Context, n int) error {
	if n < 0 {
		return s.negative("release", n)
	}
	return s.give(ctx, "release", n)
}

// Drain takes all free permits and returns how many there were.
func (s *PlainSemaphore) Drain(ctx context.Context) (int, error) {
	answer, err := s.insist(ctx, s.operation(s.backend.permits.drain, false, ms(permitsMark)))
	return int(answer.number), s.explain("drain", err)
}

// Available returns the number of free permits, 0 if nobody has set it yet. It
// may be negative.
func (s *PlainSemaphore) Available(ctx context.Context) (int, error) {
	op := s.operation(s.backend.permits.count, false)
	op.reads = true
	answer, err := s.insist(ctx, op)
	return int(answer.number), s.explain("count", err)
}

// Acquire waits until it has taken n permits at once, or until ctx ends: then it
// returns ctx's error and has taken none. It asks again at least every second,
// so a message that was lost costs no more. Waiters are not served in order.
//
// If ctx ends while an answer is outstanding, Acquire returns at once, and what
// it may have taken is given back in the background, for up to a minute; Settle
// waits for that. A process that ends before then, or with permits in its hands,
// takes them with it for ever.
func (s *PlainSemaphore) Acquire(ctx context.Context, n int) error {
	waiter := &waiter{topics: &s.backend.topics, channel: semaphoreChannel(s.backend.layout.place(s.name))}
	defer waiter.Close()
	for {
		if err := ctx.Err(); err != nil {
			return s.explain("acquire", err)
		}
		ahead := s.backend.topics.version(waiter.channel) // before the try: what comes after it is a change
		taken, err := s.take(ctx, n, 0)
		if taken || err != nil {
			return s.explain("acquire", err)
		}
		retry.Nap(ctx, waiter, driver.Outcome{Ahead: ahead}, retry.SleepLimit(0, 0))
	}
}

// TryAcquire takes n permits if so many are free, and reports whether it did. It
// does not wait for permits, and asks a store that cannot be reached three times.
// When ctx ends without an answer it gives back what it may have taken, as
// Acquire does.
func (s *PlainSemaphore) TryAcquire(ctx context.Context, n int) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, s.explain("acquire", err)
	}
	taken, err := s.take(ctx, n, retry.Patience)
	return taken, s.explain("acquire", err)
}

// Settle waits until nothing is left to be given back in the background, or
// returns ctx's error.
func (s *PlainSemaphore) Settle(ctx context.Context) error {
	return s.explain("settle", s.undoes.Wait(ctx))
}

func (s *PlainSemaphore) give(ctx context.Context, what string, n int) error {
	if n == 0 {
		return nil
	}
	_, err := s.insist(ctx, s.operation(s.backend.permits.give, true, strconv.Itoa(n), ms(permitsMark)))
	return s.explain(what, err)
}

// take makes one attempt to take n permits, and sees to it that none is lost
// where the outcome stays unknown. Each attempt is a call of its own.
func (s *PlainSemaphore) take(ctx context.Context, n, patience int) (bool, error) {
	switch {
	case n < 0:
		return false, refused("%d permits cannot be taken", n)
	case n == 0:
		return true, nil
	}
	op := s.operation(s.backend.permits.take, false, strconv.Itoa(n), ms(permitsMark))
	op.settles, op.patience = true, patience
	answer, err := s.insist(ctx, op)
	if err != nil && op.indeterminate() {
		s.undo(op, n)
	}
	return answer.yes && err == nil, err
}

// undo gives back in the background what op may have taken, before the mark that
// tells about it ends.
func (s *PlainSemaphore) undo(took *operation, n int) {
	op := s.operation(s.backend.permits.undo, true, strconv.Itoa(n), ms(permitsMark))
	op.id = took.id
	s.undoes.Go(func() {
		ctx, cancel := context.WithDeadline(context.Background(), took.since.Add(permitsMark-permitsMark/10))
		defer cancel()
		if _, err := s.insist(ctx, op); err != nil {
			s.backend.log.Warn("redis: permits that a cancelled acquire may have taken were not given back",
				"semaphore", s.name, "permits", n, "error", err)
		}
	})
}

func (s *PlainSemaphore) negative(what string, n int) error {
	return s.explain(what, refused("%d is no number of permits", n))
}

func (s *PlainSemaphore) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s semaphore %q: %w", what, s.name, err)
}

// operation is one call, which is repeated until its outcome is known.
type operation struct {
	script   *Script
	args     []string
	id       string
	publish  bool // the script wakes waiters
	settles  bool // the script must know of attempts that may still arrive
	reads    bool // nothing is written
	patience int  // how many failures are enough; 0 for no bound

	since time.Time // when the first attempt began that has no answer; zero if all have one
}

func (s *PlainSemaphore) operation(script *Script, publish bool, args ...string) *operation {
	return &operation{script: script, args: args, id: callID(), publish: publish}
}

// indeterminate reports that an attempt may still arrive, or has.
func (o *operation) indeterminate() bool { return !o.since.IsZero() }

// unknownLimit is how long a call is repeated after an attempt without an answer. The
// mark must still be there for the last repetition.
const unknownLimit = permitsMark / 2

// errUnknown says that a call was sent and never answered.
var errUnknown = errors.New("the store did not answer; it is not known whether it was done")

// insist makes attempts with the same call id until one has an answer, or its
// failure is final, or ctx ends.
func (s *PlainSemaphore) insist(ctx context.Context, o *operation) (counterReply, error) {
	var loop retry.Loop
	for loop.Next(ctx) {
		began := time.Now()
		answer, err := s.attempt(ctx, o, retry.Timeout(permitsMark, loop.Failures()))
		if err == nil {
			o.since = time.Time{}
			return answer, nil
		}
		if !o.reads && !retry.Certain(err) && !o.indeterminate() {
			o.since = began
		}
		loop.Failed(err)
		switch {
		case ctx.Err() != nil && errors.Is(err, ctx.Err()), retry.Final(err),
			o.patience > 0 && loop.Failures() >= o.patience,
			o.indeterminate() && time.Since(o.since) > unknownLimit:
			return counterReply{}, o.failed(err)
		}
	}
	return counterReply{}, o.failed(loop.Err(ctx))
}

// attempt makes one attempt, bounded by limit.
func (s *PlainSemaphore) attempt(ctx context.Context, o *operation, limit time.Duration) (counterReply, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	b := s.backend
	p, info, err := b.ready(ctx, s.name, counter{b.layout, b.permits.probe, semaphoreChannel})
	if err != nil {
		return counterReply{}, err
	}
	call := Call{Script: o.script, Keys: []string{p.lock}, Args: slices.Clip(o.args)}
	if !o.reads {
		call.Keys = append(call.Keys, b.layout.call(p, o.id))
	}
	switch {
	case o.settles && o.indeterminate():
		call.Args = append(call.Args, "1")
	case o.settles:
		call.Args = append(call.Args, "0")
	case o.publish:
		call.Args = append(append(call.Args, semaphoreChannel(p)), info.publishWith()...)
	}
	return b.counted(ctx, p, semaphoreChannel(p), call)
}

// failed returns err, which says nothing of attempts before the last.
func (o *operation) failed(err error) error {
	if o.indeterminate() {
		return fmt.Errorf("%w: %w", errUnknown, lastOnly{err})
	}
	return err
}

// lastOnly is the error of the last of several attempts. That this one was not
// sent does not say it of the others.
type lastOnly struct{ error }

// Is reports what the error is, but for driver.ErrNotExecuted.
func (e lastOnly) Is(target error) bool {
	return target != driver.ErrNotExecuted && errors.Is(e.error, target)
}

// As finds the cause.
func (e lastOnly) As(target any) bool { return errors.As(e.error, target) }
