package redishold

import (
	"context"
	"strconv"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

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
