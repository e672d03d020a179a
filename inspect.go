package holdfast

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/admin"
)

// Inspect asks the store who holds name now; the answer is empty if nobody does.
// It is errors.ErrUnsupported on a store that does not tell.
func (l *Locker) Inspect(ctx context.Context, name string) ([]admin.Holder, error) {
	if err := l.check(name); err != nil {
		return nil, fmt.Errorf("inspect %q: %w", name, err)
	}
	inspector, ok := l.backend.(interface {
		Inspect(context.Context, string) ([]admin.Holder, error)
	})
	if !ok {
		return nil, fmt.Errorf("inspect %q: %s does not tell holders: %w", name, l.info.Name, errors.ErrUnsupported)
	}
	holders, err := inspector.Inspect(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("inspect %q: %w", name, err)
	}
	return holders, nil
}

// Break ends the hold h of name, which Inspect returned, although its holder has
// not given it back, and wakes those who wait. It returns an error that is
// driver.ErrGone, and changes nothing, if h is over or has changed. why is told
// to the holder.
//
// A Redisson client that released the lock and took it again in the same thread
// cannot be told from one that never released it.
//
// The holder is not stopped: it learns of it at its next renewal at the latest.
// Only fencing tokens protect the data until then.
func (l *Locker) Break(ctx context.Context, name string, h admin.Holder, why string) error {
	if err := l.check(name); err != nil {
		return fmt.Errorf("break %q: %w", name, err)
	}
	breaker, ok := l.backend.(admin.Source)
	if !ok {
		return fmt.Errorf("break %q: not possible on %s: %w", name, l.info.Name, errors.ErrUnsupported)
	}
	if err := breaker.ForceUnlock(ctx, name, h, why); err != nil {
		return fmt.Errorf("break %q: %w", name, err)
	}
	l.diary.forced(name, h, why)
	return nil
}
