package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// RetryRefused makes Lock go on after a refusal of the store that an operator can repair while
// the program runs: an error that is driver.ErrDenied, such as a changed password or a missing
// permission, or driver.ErrUnable, such as a full memory or disk. Lock asks again after a pause
// of 250 ms, and after longer pauses up to 5 s, until ctx ends or the time of the option Wait is
// over. Then the error has the last refusal, too.
//
// Without RetryRefused, Lock returns each refusal at once. With RetryRefused, it also does so
// after a driver.ErrDenied if the store has never answered a call of this Locker, because then
// the password or the permission may be wrong since the program began. All other errors for
// which it is useless to ask again are returned at once in any case.
//
// Before each pause, Lock calls the function `report` with the refusal, if `report` is not nil.
// The Logger gets the refusal at level WARN. A fair waiter loses its place in the queue.
//
// RetryRefused is an error with LockAll. It has no effect on a TryLock without Wait, and none on
// a Lock that re-enters a hold.
func RetryRefused(report func(refusal error, pause time.Duration)) Option {
	if report == nil {
		report = func(error, time.Duration) {}
	}
	return func(r *request) { r.refused = report }
}

// outlast takes the lock as acquire does, and goes on after refusals as RetryRefused says.
func (m *Mutex) outlast(ctx context.Context, call request) (*Lock, error) {
	began := time.Now()
	a := &acquisition{}
	a.init(m.locker, m.name, m.kind, call)
	for refusals := 1; ; refusals++ {
		lock, err := a.run(ctx)
		again := false
		if err != nil && call.wait != 0 && m.locker.mayBeRepaired(err) && ctx.Err() == nil {
			again, err = a.pauseRefused(ctx, refusals, call.left(began), err)
		}
		if !again {
			if m.locker.observed(ctx) {
				a.report(ctx, lock, err)
			}
			return lock, err
		}
		before := a
		a = &acquisition{}
		a.init(m.locker, m.name, m.kind, call)
		a.began, a.tries, a.waitReported = before.began, before.tries, before.waitReported
	}
}

// mayBeRepaired reports whether RetryRefused goes on after err.
func (l *Locker) mayBeRepaired(err error) bool {
	return retry.Repairable(err) && (l.answered.Load() || errors.Is(err, driver.ErrUnable))
}

// pauseRefused reports a refusal, and waits before the next attempt. The parameter `left` is
// how long the caller still waits. If the caller's time ends before the next attempt,
// pauseRefused returns false and the error of the call.
func (a *acquisition) pauseRefused(ctx context.Context, refusals int, left time.Duration, refusal error) (again bool, err error) {
	pause := retry.RefusedDelay(refusals)
	a.reportWait(ctx)
	a.req.refused(refusal, pause)
	a.locker.log.WarnContext(ctx, "the store refuses the lock, asking again",
		"lock", a.claim.Name, "backend", a.locker.info.Name, "refusals", refusals, "pause", pause, "err", refusal)
	switch {
	case !retry.Sleep(ctx, min(pause, left)):
		return false, fmt.Errorf("%w; %w", refusal, retry.ContextError(ctx))
	case left <= pause:
		return false, fmt.Errorf("%w; refused until the time to wait was over", refusal)
	}
	return true, nil
}
