package redishold

import (
	"context"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
)

// Inspect returns who holds name, at one instant of the server: nobody, or one.
// Data that is no exclusive lock is driver.ErrMismatch.
func (b *Backend) Inspect(ctx context.Context, name string) ([]driver.Holder, error) {
	p := b.layout.place(name)
	value, err := b.call(ctx, Call{Script: b.scripts.inspect, Keys: []string{p.lock}})
	if err != nil {
		return nil, b.classify(p, err)
	}
	reply, err := parseInspect(value)
	if err != nil {
		return nil, err
	}
	if reply.otherKind {
		return nil, errOtherKind(p)
	}
	var holders []driver.Holder
	for _, h := range reply.holds {
		holders = append(holders, driver.Holder{
			Owner:     h.owner,
			Note:      b.person(ctx, h.owner),
			Holds:     h.count,
			Remaining: reply.remaining,
		})
	}
	return holders, nil
}

// Break ends exactly the hold h of name and wakes waiters. Its owner learns why
// when it next renews or unlocks; a Redisson client only that it is gone.
func (b *Backend) Break(ctx context.Context, name string, h driver.Holder, why string) error {
	info, err := b.ask(ctx)
	if err != nil {
		return err
	}
	p := b.layout.place(name)
	// The owner notices at the latest when its lease ends.
	ttl := strconv.FormatInt(millis(max(h.Remaining, minMark)), 10)
	value, err := b.call(ctx, Call{
		Script: b.scripts.breakHold,
		Keys:   []string{p.lock, b.layout.mark(p, h.Owner)},
		Args:   append([]string{h.Owner, strconv.Itoa(h.Holds), why, ttl, p.channel}, info.publishWith()...),
	})
	if err != nil {
		return b.classify(p, err)
	}
	ended, err := b.ended(b.scripts.breakHold, value)
	if err != nil || ended {
		return err
	}
	return &driver.GoneError{Reason: driver.Deleted, Detail: "that hold is gone or has changed"}
}
