package holdfast

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// recount records the hold count in the store, which also proves and extends the
// hold. Where the store shows no count it does nothing. It asks until ctx is done,
// or so many times if patience is not 0. What it could not record, the next
// renewal does.
func (h *hold) recount(ctx context.Context, patience int) error {
	k := h.lease
	l := k.locker
	if !l.info.Caps.Counts {
		return nil
	}
	if err := l.keeper.pause(ctx, k); err != nil {
		return fmt.Errorf("lock %q: %w", k.name, retry.ContextError(ctx))
	}
	defer l.keeper.resume(k)
	var loop retry.Loop
	for loop.Next(ctx) {
		err := h.record(ctx, loop.Failures())
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrLost), retry.Final(err):
			return fmt.Errorf("lock %q: %w", k.name, err)
		}
		loop.Failed(err)
		if state := h.state(); over(state) {
			return state
		}
		if patience > 0 && loop.Failures() >= patience {
			return fmt.Errorf("lock %q: %w", k.name, err)
		}
	}
	return fmt.Errorf("lock %q: %w", k.name, loop.Err(ctx))
}

// setHolds changes the count that renewals record.
func (l *lease) setHolds(count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = int32(count)
}

// record makes one call that records the count of this moment.
func (h *hold) record(ctx context.Context, failures int) error {
	l := h.lease
	start := l.locker.clock.Read()
	c := l.extension(start.Mono)
	attempt := l.locker.bound(ctx, retry.Timeout(l.locker.ttl, failures))
	defer attempt.End()
	answers, err := l.locker.backend.Renew(attempt, []driver.Claim{c})
	if err == nil && len(answers) != 1 {
		err = retry.ErrNoAnswer
	}
	called := err
	if err == nil {
		err = answers[0].Err
	}
	defer l.locker.reportCall(ctx, OpRenew, &c, start.Mono, called)
	if retry.Gone(err) {
		return l.lose(retry.ReasonOf(err), err)
	}
	if err != nil {
		return err
	}
	if _, held := l.renewed(start, answers[0].ValidFor); !held {
		return h.state() // it came too late
	}
	return nil
}
