package redishold

import (
	"context"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
)

// latchScripts are the scripts of count-down latches.
type latchScripts struct{ set, down, count, probe *Script }

func loadLatchScripts() latchScripts {
	return latchScripts{
		set:   loadScript("latch_set"),
		down:  loadScript("latch_down"),
		count: loadScript("latch_count"),
		probe: loadScript("counter_probe"),
	}
}

// latchChannel always has braces added, whatever the name has. That is how
// Redisson does it.
func latchChannel(p place) string {
	return "redisson_countdownlatch__channel__{" + p.lock + "}"
}

// readyLatch is ready for a latch. In a cluster its channel must lie in its slot,
// which it does not if the name has braces of its own; Redisson cannot keep such
// a latch either.
func (b *Backend) readyLatch(ctx context.Context, name string) (place, ServerInfo, error) {
	p := b.layout.place(name)
	if p.refusal != nil {
		return place{}, ServerInfo{}, p.refusal
	}
	info, err := b.ask(ctx)
	if err != nil {
		return place{}, ServerInfo{}, notTried(err)
	}
	if info.Cluster && slotOf(latchChannel(p)) != slotOf(p.lock) {
		return place{}, ServerInfo{}, refused("redis cannot keep a latch under %q: in a cluster its name must not have braces", p.lock)
	}
	return b.ready(ctx, name, counter{b.layout, b.latches.probe, latchChannel})
}

// SetCount sets the count of the latch name to n and reports whether it did: a
// latch that is counting is not set again. A repeated call answers as it did the
// first time, for five minutes. A count below 1 is driver.ErrRefused, and a name
// that is no latch driver.ErrMismatch.
func (b *Backend) SetCount(ctx context.Context, name, call string, n int64) (bool, error) {
	if n < 1 {
		return false, refused("a latch cannot be set to %d", n)
	}
	p, info, err := b.readyLatch(ctx, name)
	if err != nil {
		return false, err
	}
	answer, err := b.counted(ctx, p, latchChannel(p), Call{
		Script: b.latches.set,
		Keys:   []string{p.lock, b.layout.call(p, call)},
		Args:   append([]string{strconv.FormatInt(n, 10), ms(latchMark), latchChannel(p)}, info.publishWith()...),
	})
	return answer.yes, err
}

// CountDown lowers the count of the latch name by one and opens it at 0. An open
// latch stays open. A repeated call counts once, for five minutes. A name that is
// no latch is driver.ErrMismatch.
func (b *Backend) CountDown(ctx context.Context, name, call string) error {
	p, info, err := b.readyLatch(ctx, name)
	if err != nil {
		return err
	}
	_, err = b.counted(ctx, p, latchChannel(p), Call{
		Script: b.latches.down,
		Keys:   []string{p.lock, b.layout.call(p, call)},
		Args:   append([]string{ms(latchMark), latchChannel(p)}, info.publishWith()...),
	})
	return err
}

// Count returns the count of the latch name; 0 means that it is open. A name
// that is no latch is driver.ErrMismatch.
func (b *Backend) Count(ctx context.Context, name string) (int64, error) {
	p, _, err := b.readyLatch(ctx, name)
	if err != nil {
		return 0, err
	}
	answer, err := b.counted(ctx, p, latchChannel(p), Call{Script: b.latches.count, Keys: []string{p.lock}})
	return answer.number, err
}

// LatchWaiter returns a Waiter that wakes when the latch name may have opened.
// Its first Wait returns as soon as it listens, and every later one when
// something was heard since the one before: the caller counts after each.
func (b *Backend) LatchWaiter(name string) driver.Waiter {
	return &latchWaiter{waiter: waiter{topics: &b.topics, channel: latchChannel(b.layout.place(name))}}
}

// latchWaiter is a waiter that knows itself what it has told.
type latchWaiter struct {
	waiter
	told uint64
}

// Wait returns when something was heard since the Wait before.
func (w *latchWaiter) Wait(ctx context.Context, _ driver.Outcome) (driver.Outcome, error) {
	if err := w.wait(ctx, driver.Outcome{Ahead: w.told}); err != nil {
		return driver.Outcome{}, err
	}
	w.told = w.topics.version(w.channel) // the caller counts after this: it sees at least as much
	return driver.Outcome{}, nil
}
