package holdfast

import (
	"context"
	"fmt"
)

// insist makes a call that is safe to repeat until it is answered, ctx is done,
// or the answer is final.
func (l *Locker) insist(ctx context.Context, call func(context.Context) error) error {
	var last error
	for failures := 0; ; {
		if ctx.Err() != nil {
			return contextError(ctx)
		}
		err := l.attempt(ctx, failures, call)
		if err == nil || final(err) {
			return err
		}
		failures++
		last = telling(last, err)
		if !sleep(ctx, retryDelay(failures, pollCap)) {
			return fmt.Errorf("%w; the store's last error: %w", contextError(ctx), last)
		}
	}
}

func (l *Locker) attempt(ctx context.Context, failures int, call func(context.Context) error) error {
	attempt, cancel := context.WithTimeout(ctx, attemptTimeout(l.ttl, failures))
	defer cancel()
	return call(attempt)
}
