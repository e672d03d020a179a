package redishold

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Try makes one attempt to hold c.Name for c.Owner. The first one of a Backend
// also asks the server what it is and proves the user's rights.
func (b *Backend) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	p, info, err := b.ready(ctx, c.Name)
	if err != nil {
		return driver.Outcome{}, err
	}
	f := b.form(c)
	ahead := b.topics.version(f.channel(p, c)) // before the try: what comes after it is a change
	call := f.acquire(p, c, info.publishWith())
	result := b.doRegistering(ctx, info.Cluster, []Call{call}, c)[0]
	if result.Err != nil {
		return driver.Outcome{}, notBegun(b.classify(p, result.Err))
	}
	reply, err := parseTry(result.Value)
	if err != nil {
		return driver.Outcome{}, err
	}
	switch reply.state {
	case tryGranted:
		return driver.Outcome{Granted: true, Token: reply.token, ValidFor: c.TTL}, nil
	case tryOtherKind:
		return driver.Outcome{}, errOtherKind(p)
	case tryGone:
		return driver.Outcome{}, lost(reply.mark)
	default:
		return driver.Outcome{
			RetryAfter: retryAfter(reply.remaining),
			Holder:     b.person(ctx, reply.owner),
			Ahead:      ahead,
		}, nil
	}
}

// errOtherKind says that p's key belongs to another kind of lock.
func errOtherKind(p place) error {
	return fmt.Errorf("redis key %q belongs to another kind of lock: %w", p.lock, driver.ErrMismatch)
}

// retryAfter is when a lease with so much left is over. A negative rest says that
// the key has no TTL, and nothing is known; a rest of 0 is a last moment.
func retryAfter(left time.Duration) time.Duration {
	if left < 0 {
		return 0
	}
	return max(left, time.Millisecond)
}
