package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
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
		if err := l.settle(ctx, c); err != nil && !isGone(err) {
			l.log.Warn("clean-up not confirmed; the store drops the claim when its lease ends",
				"lock", c.Name, "backend", l.info.Name, "lease", c.TTL, "err", err)
		}
	})
}

// settle calls Release until it is certain how it ended or ctx is done. It
// returns nil if the claim was released, also by an earlier call whose answer
// was lost, and an error that is driver.ErrGone if there was nothing to release.
func (l *Locker) settle(ctx context.Context, c driver.Claim) error {
	doubt := false
	for failures := 0; ; {
		err := l.release(ctx, c, failures)
		if err == nil || doubt && isGone(err) {
			return nil
		}
		if isGone(err) {
			return err
		}
		doubt = doubt || !certain(err)
		failures++
		if !sleep(ctx, retryDelay(failures, pollCap)) {
			return err
		}
	}
}

// releaseMost bounds one call of Release: the name should be free soon after a
// store that lost the call is back.
const releaseMost = time.Second

func (l *Locker) release(ctx context.Context, c driver.Claim, failures int) error {
	attempt, cancel := context.WithTimeout(ctx, min(attemptTimeout(c.TTL, failures), releaseMost))
	defer cancel()
	return l.backend.Release(attempt, c)
}
