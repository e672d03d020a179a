package redishold

import (
	"context"
	"strconv"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// Inspect returns who holds name, at one instant of the server: nobody, one, or
// the holders of a read-write lock or a semaphore. Who holds a permit is known if
// it is a client of Holdfast; otherwise its Owner is its id in hex, as Redisson's
// layout does not tell. Data that is no lock is driver.ErrMismatch.
func (b *Backend) Inspect(ctx context.Context, name string) ([]admin.Holder, error) {
	p := b.layout.place(name)
	if p.refusal != nil {
		return nil, p.refusal
	}
	value, err := b.call(ctx, b.inspectCall(p))
	if b.own == nil && isWrongType(err) {
		return b.inspectSemaphore(ctx, p)
	}
	if err != nil {
		return nil, b.classify(p, err)
	}
	reply, err := parseInspect(value)
	if err != nil {
		return nil, err
	}
	if reply.otherKind && b.own != nil {
		return nil, errOtherKind(p)
	}
	if reply.otherKind {
		return b.inspectReadWrite(ctx, p)
	}
	var holders []admin.Holder
	for _, h := range reply.holds {
		holders = append(holders, admin.Holder{
			Owner:     h.owner,
			Note:      b.person(ctx, h.owner),
			Holds:     h.count,
			Remaining: reply.remaining,
		})
	}
	return holders, nil
}

// breakHold is Break without a word to anybody but waiters.
func (b *Backend) breakHold(ctx context.Context, name string, h admin.Holder, why string) error {
	info, err := b.ask(ctx)
	if err != nil {
		return err
	}
	p := b.layout.place(name)
	// The owner notices at the latest when its lease ends.
	ttl := strconv.FormatInt(millis(max(h.Remaining, minMark)), 10)
	if b.own != nil {
		return b.breakOwn(ctx, p, h, why, ttl, info)
	}
	value, err := b.call(ctx, Call{
		Script: b.scripts.breakHold,
		Keys:   []string{p.lock, b.layout.mark(p, h.Owner)},
		Args:   append([]string{h.Owner, strconv.Itoa(h.Holds), why, ttl, p.channel}, info.publishWith()...),
	})
	if isWrongType(err) {
		return b.breakPermit(ctx, p, h, why, ttl, info)
	}
	if err != nil {
		return b.classify(p, err)
	}
	ended, _, err := b.ended(b.scripts.breakHold, value)
	if err == nil && !ended { // break.lua leaves a read-write lock alone
		ended, err = b.breakReadWrite(ctx, p, h, why, info)
	}
	if err != nil || ended {
		return err
	}
	return &driver.GoneError{Reason: driver.Deleted, Detail: "that hold is gone or has changed"}
}
