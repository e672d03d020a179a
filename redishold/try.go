package redishold

import (
	"context"
	"fmt"
	"strconv"
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
	ahead := b.topics.version(p.channel) // before the try: what comes after it is a change
	call := Call{
		Script: b.scripts.acquire,
		Keys:   []string{p.lock, b.layout.mark(p, c.Owner), p.counter},
		Args: []string{
			c.Owner,
			strconv.FormatInt(millis(c.TTL), 10),
			strconv.Itoa(max(1, c.Holds)),
			strconv.Itoa(max(1, c.Tokens)),
		},
	}
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
