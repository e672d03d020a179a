package redishold

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// semaphoreScripts are the scripts of semaphores with leased permits.
type semaphoreScripts struct {
	acquireOne, renewOne, releaseOne, abandonOne *Script
	resize, count, breakOne                      *Script
	probeAll                                     *Script
}

func loadSemaphoreScripts() semaphoreScripts {
	return semaphoreScripts{
		acquireOne: loadScript("semaphore_acquire"),
		renewOne:   loadScript("semaphore_renew"),
		releaseOne: loadScript("semaphore_release"),
		abandonOne: loadScript("semaphore_abandon"),
		resize:     loadScript("semaphore_resize"),
		count:      loadScript("semaphore_count"),
		breakOne:   loadScript("semaphore_break"),
		probeAll:   loadScript("semaphore_probe"),
	}
}

// semaphore is Redisson's permit-expirable semaphore: a counter of free permits,
// and a sorted set of the ids of those that are out, by the time they end.
//
// It needs both keys to release a permit, so a cluster slot on the move can hold
// that up: until the slot has arrived or the permit has ended.
type semaphore struct {
	*layout
	*semaphoreScripts
}

func (f semaphore) acquire(to room, p place, c driver.Claim, ask string, publish []string) Call {
	return Call{
		Script: f.acquireOne,
		Keys:   append(to.keys, p.lock, f.permits(p), f.mark(p, c.Owner), p.counter),
		Args:   append(append(to.args, permitOf(c), f.lease(c.TTL), count(c.Permits), count(c.Tokens), f.channel(p, c), ask), publish...),
	}
}

func (f semaphore) renew(to room, p place, c driver.Claim) Call {
	return Call{Script: f.renewOne, Keys: append(to.keys, f.permits(p)), Args: append(to.args, permitOf(c), f.lease(c.TTL))}
}

func (f semaphore) release(to room, p place, c driver.Claim, publish []string) Call {
	return Call{
		Script: f.releaseOne,
		Keys:   append(to.keys, p.lock, f.permits(p)),
		Args:   append(append(to.args, permitOf(c), f.channel(p, c)), publish...),
	}
}

func (f semaphore) abandon(p place, c driver.Claim, publish []string, markTTL time.Duration) Call {
	return Call{
		Script: f.abandonOne,
		Source: true, // as for rlock
		Keys:   []string{p.lock, f.permits(p), f.mark(p, c.Owner)},
		Args:   append([]string{permitOf(c), ms(markTTL), f.channel(p, c)}, publish...),
	}
}

// channel is that of all semaphores of the name, with leased permits or not.
func (f semaphore) channel(p place, _ driver.Claim) string { return semaphoreChannel(p) }

func (f semaphore) tellsAll() bool { return true }

func (f semaphore) probe() *Script { return f.probeAll }

// permits is the key of the permits that are out.
func (l *layout) permits(p place) string {
	if strings.Contains(p.lock, "{") {
		return p.lock + ":timeout"
	}
	return "{" + p.lock + "}:timeout"
}

func semaphoreChannel(p place) string { return "redisson_sc:" + tagged(p.lock) }

// Resize sets how many permits the semaphore name has in all, held ones
// included, and wakes waiters. Below what is held nothing is taken away: no new
// permit is given out until enough have come back. Repeating it changes nothing.
// A name that is no semaphore is driver.ErrMismatch.
func (b *Backend) Resize(ctx context.Context, name string, permits int) error {
	if permits < 0 {
		return refused("a semaphore cannot have %d permits", permits)
	}
	f := semaphore{b.layout, &b.semaphores}
	p, info, err := b.ready(ctx, name, f)
	if err != nil {
		return err
	}
	_, err = b.counted(ctx, p, semaphoreChannel(p), Call{
		Script: f.resize,
		Keys:   []string{p.lock, f.permits(p)},
		Args:   append([]string{strconv.Itoa(permits), semaphoreChannel(p)}, info.publishWith()...),
	})
	return err
}

// Permits returns how many permits the semaphore name has in all, and how many
// of them are free, at one instant of the server; both are 0 if it does not know
// the name. A permit whose lease has ended is free. free is negative after a
// Resize below what was held. A name that is no semaphore is driver.ErrMismatch.
func (b *Backend) Permits(ctx context.Context, name string) (total, free int, err error) {
	f := semaphore{b.layout, &b.semaphores}
	p, _, err := b.ready(ctx, name, f)
	if err != nil {
		return 0, 0, err
	}
	value, err := b.call(ctx, Call{Script: f.count, Keys: []string{p.lock, f.permits(p)}})
	if err != nil {
		return 0, 0, b.classify(p, err)
	}
	known, numbers, err := parseNumbers(f.count, value, 3)
	switch {
	case err != nil:
		return 0, 0, err
	case known == codeOtherKind:
		return 0, 0, errOtherKind(p)
	}
	return int(numbers[0]), int(numbers[1]), nil
}
