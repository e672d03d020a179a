package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/deadline"
)

// Drain waits until the Locker has confirmed what it does in the background: it
// takes back acquires that were cancelled without an answer, and goes on with an
// Unlock whose answer was lost. A program that ends before leaves such a lock to
// the end of its lease. Each of them takes one TTL at most; Drain returns ctx's
// error if ctx ends first. Locks that are held are not its business.
func (l *Locker) Drain(ctx context.Context) error {
	if err := l.background.Wait(ctx); err != nil {
		return err
	}
	if store, ok := l.backend.(driver.Drainer); ok {
		return store.Drain(ctx)
	}
	return nil
}

// cleanUp releases a claim in the background, until that is certain, or until
// one TTL has passed and the store has dropped it by itself. It never uses a
// caller's context, which is often over when clean-up is due.
func (l *Locker) cleanUp(c driver.Claim) {
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.TTL)
		defer cancel()
		err := l.settle(ctx, c)
		if c.Unsettled {
			l.reportDoubt(OpTry, &c, err == nil || isGone(err))
		}
		if err != nil && !isGone(err) {
			l.log.Warn("clean-up not confirmed; the store drops the claim when its lease ends",
				"lock", c.Name, "backend", l.info.Name, "lease", c.TTL, "err", err)
		}
	})
}

// settle calls Release until it is certain how it ended or ctx is done. It
// returns nil if the claim was released, also by an earlier call whose answer
// was lost, and an error that is driver.ErrGone if there was nothing to release.
func (l *Locker) settle(ctx context.Context, c driver.Claim) error {
	err := l.release(ctx, c, 0)
	if err == nil || isGone(err) {
		return err
	}
	return l.settleAfter(ctx, c, err)
}

// settleAfter is settle after a first call that ended with err.
func (l *Locker) settleAfter(ctx context.Context, c driver.Claim, first error) (err error) {
	err = first
	doubt := !certain(err)
	defer func() {
		if doubt && !c.Unsettled {
			l.reportDoubt(OpRelease, &c, err == nil || isGone(err))
		}
	}()
	for failures := 1; sleep(ctx, retryDelay(failures, pollCap)); failures++ {
		err = l.release(ctx, c, failures)
		if err == nil || doubt && isGone(err) {
			return nil
		}
		if isGone(err) {
			return err
		}
		doubt = doubt || !certain(err)
	}
	return err
}

// releaseMost bounds one call of Release: the name should be free soon after a
// store that lost the call is back.
const releaseMost = time.Second

func releaseLimit(ttl time.Duration, failures int) time.Duration {
	return min(attemptTimeout(ttl, failures), releaseMost)
}

func (l *Locker) release(ctx context.Context, c driver.Claim, failures int) error {
	attempt := l.bound(ctx, releaseLimit(c.TTL, failures))
	defer attempt.End()
	began := l.watch()
	err := l.backend.Release(attempt, c)
	l.reportCall(ctx, OpRelease, &c, began, err)
	return err
}

// bound returns a context that ends with ctx or after d.
func (l *Locker) bound(ctx context.Context, d time.Duration) *deadline.Context {
	return deadline.New(ctx, time.Now().Add(d))
}
