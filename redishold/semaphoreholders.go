package redishold

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/holdfast-go/holdfast/driver"
)

// isWrongType says that a script met a key of another type, in place of a lock's
// hash. It may be a semaphore, a latch, or nothing of ours.
func isWrongType(err error) bool {
	var reply *ReplyError
	return errors.As(err, &reply) && meaningOf(reply.Text) == meansWrongType
}

// inspectSemaphore is Inspect for a semaphore. Its layout says nothing of who
// holds a permit, so the owner is the permit's id in hex, as Java shows it.
func (b *Backend) inspectSemaphore(ctx context.Context, p place) ([]driver.Holder, error) {
	f := semaphore{b.layout, &b.semaphores}
	value, err := b.call(ctx, Call{Script: f.inspect, Keys: []string{p.lock, f.permits(p)}})
	if err != nil {
		return nil, b.classify(p, err)
	}
	list, _ := value.([]any)
	if len(list) == 1 && list[0] == any(int64(codeOtherKind)) {
		return nil, errOtherKind(p)
	}
	if len(list) != 2 || list[0] != any(int64(codeYes)) {
		return nil, badReply(f.inspect.Name(), value)
	}
	permits, ok := list[1].([]any)
	if !ok || len(permits)%2 != 0 {
		return nil, badReply(f.inspect.Name(), value)
	}
	var holders []driver.Holder
	for i := 0; i < len(permits); i += 2 {
		id, okID := permits[i].(string)
		left, okLeft := permits[i+1].(int64)
		if !okID || !okLeft {
			return nil, badReply(f.inspect.Name(), value)
		}
		holders = append(holders, driver.Holder{
			Owner: hex.EncodeToString([]byte(id)), Note: "a permit", Holds: 1, Remaining: remaining(left),
		})
	}
	return holders, nil
}

// breakPermit is Break for a permit. The layout has no place for the reason: its
// owner only learns that it is gone.
func (b *Backend) breakPermit(ctx context.Context, p place, h driver.Holder, info ServerInfo) error {
	gone := &driver.GoneError{Reason: driver.Deleted, Detail: "that permit is gone"}
	id, err := hex.DecodeString(h.Owner)
	if err != nil {
		return gone
	}
	f := semaphore{b.layout, &b.semaphores}
	value, err := b.call(ctx, Call{
		Script: f.releaseOne,
		Keys:   []string{p.lock, f.permits(p)},
		Args:   append([]string{string(id), semaphoreChannel(p)}, info.publishWith()...),
	})
	if err != nil {
		return b.classify(p, err)
	}
	ended, _, err := b.ended(f.releaseOne, value)
	if err != nil || ended {
		return err
	}
	return gone
}
