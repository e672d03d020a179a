package redishold

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// form is how one kind of lock is kept: its keys, its scripts, its channel. What
// is the same for all kinds stands outside of it, since all scripts answer alike:
//
//	acquire          {1, first token} · {0, pttl, holder, holds} · {-1} another kind · {-2, mark}
//	renew            1 · 0
//	release, abandon {1, receivers} · {0, 0}
//
// Release takes one key where it can, so that a cluster slot on the move does not
// block it.
type form interface {
	prober

	acquire(p place, c driver.Claim, publish []string) Call
	renew(p place, c driver.Claim) Call
	release(p place, c driver.Claim, publish []string) Call

	// abandon is release for a claim of which an acquire may still be under way:
	// it leaves a mark that lasts for markTTL.
	abandon(p place, c driver.Claim, publish []string, markTTL time.Duration) Call

	// channel is where c hears that it is worth while to try again.
	channel(p place, c driver.Claim) string
}

// form returns how c is kept.
func (b *Backend) form(c driver.Claim) form {
	switch {
	case b.own != nil:
		return b.own
	case c.Mode == driver.Permit:
		return semaphore{b.layout, &b.semaphores}
	case c.ReadWrite:
		return b.readWrite()
	case c.Fair:
		return b.fairLock()
	default:
		return rlock{b.layout, &b.scripts}
	}
}

// rlock is Redisson's RLock: a hash of one field, owner → hold count.
type rlock struct {
	*layout
	*scripts
}

func (f rlock) acquire(p place, c driver.Claim, _ []string) Call {
	return Call{
		Script: f.scripts.acquire,
		Keys:   []string{p.lock, f.mark(p, c.Owner), p.counter},
		Args:   []string{c.Owner, ms(c.TTL), count(c.Holds), count(c.Tokens)},
	}
}

func (f rlock) renew(p place, c driver.Claim) Call {
	return Call{
		Script: f.scripts.renew,
		Keys:   []string{p.lock},
		Args:   []string{c.Owner, ms(c.TTL), count(c.Holds)},
	}
}

func (f rlock) release(p place, c driver.Claim, publish []string) Call {
	return Call{
		Script: f.scripts.release,
		Keys:   []string{p.lock},
		Args:   append([]string{c.Owner, p.channel}, publish...),
	}
}

func (f rlock) abandon(p place, c driver.Claim, publish []string, markTTL time.Duration) Call {
	return Call{
		Script: f.scripts.abandon,
		Source: true, // rarely run, and a link that hangs must not bring NOSCRIPT when it is back
		Keys:   []string{p.lock, f.mark(p, c.Owner)},
		Args:   append([]string{c.Owner, ms(markTTL), p.channel}, publish...),
	}
}

func (f rlock) channel(p place, _ driver.Claim) string { return p.channel }

// ms is a duration as an argument of a script.
func ms(d time.Duration) string { return strconv.FormatInt(millis(d), 10) }

// count is a number of at least 1 as an argument of a script.
func count(n int) string { return strconv.Itoa(max(1, n)) }
