package redishold

import (
	"context"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// breakHold is ForceUnlock without a word to anybody but waiters. What kind of lock
// the name is, its scripts find out.
func (b *Backend) breakHold(ctx context.Context, name string, h admin.Holder, why string) error {
	info, err := b.ask(ctx)
	if err != nil {
		return err
	}
	p, publish := b.layout.place(name), info.publishWith()
	// The owner notices at the latest when its lease ends.
	ttl := ms(max(h.Remaining, minMark))
	ended, err := b.breakWith(ctx, p, b.oneKey().breakHold(p, h, why, ttl, publish))
	if b.own == nil && isWrongType(err) {
		f := semaphore{b.layout, &b.semaphores}
		ended, err = b.breakWith(ctx, p, f.breakHold(p, h, why, ttl, publish))
	} else if b.own == nil && err == nil && !ended { // break.lua leaves a read-write lock alone
		ended, err = b.breakWith(ctx, p, b.readWrite().breakHold(p, h, why, publish))
	}
	if err != nil || ended {
		return err
	}
	return &driver.GoneError{Reason: driver.Deleted, Detail: "that hold is gone or has changed"}
}

// breakWith makes a call that ends a hold, and reports whether it did.
func (b *Backend) breakWith(ctx context.Context, p place, call Call) (bool, error) {
	value, err := b.call(ctx, call)
	if err != nil {
		return false, b.classify(p, err)
	}
	ended, _, err := b.ended(call.Script, value)
	return ended, err
}
