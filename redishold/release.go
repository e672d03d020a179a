package redishold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// minMark is how long the mark of an owner lasts at least.
const minMark = 10 * time.Second

// Release ends the claim c. With c.Unsettled it also sees to it that an earlier
// Try that is still under way finds nothing to grant, for as long as the claim's
// TTL and not less than ten seconds.
func (b *Backend) Release(ctx context.Context, c driver.Claim) error {
	info, err := b.ask(ctx)
	if err != nil {
		return err
	}
	p := b.layout.place(c.Name)
	if c.Unsettled {
		return b.abandon(ctx, p, info, c)
	}
	e := b.errand()
	e.call = b.form(c).release(e.room(), p, c, b.publishWith(info))
	_, err = b.released(ctx, p, info, c, b.run(ctx, e))
	return err
}

// released reads the server's answer to a release, and returns how many received
// the message of it, -1 if that is not known.
func (b *Backend) released(ctx context.Context, p place, info ServerInfo, c driver.Claim, result Result) (int, error) {
	if result.Err != nil {
		return -1, b.classifyHeld(p, result.Err)
	}
	released, receivers, err := b.ended(b.scripts.release, result.Value)
	if err != nil || released {
		return receivers, err
	}
	if reason := b.explain(ctx, info, []driver.Claim{c})[0]; reason != nil {
		return -1, reason
	}
	return -1, unexplained()
}

// abandon ends a claim and marks its owner. Until the mark is written nothing is
// certain, and its errors say no more than that.
func (b *Backend) abandon(ctx context.Context, p place, info ServerInfo, c driver.Claim) error {
	f := b.form(c)
	value, err := b.call(ctx, f.abandon(p, c, info.publishWith(), max(c.TTL, minMark)))
	if err != nil {
		return b.notMarked(ctx, p, info, c, err)
	}
	released, _, err := b.ended(b.scripts.abandon, value)
	if err != nil || released {
		return err
	}
	return &driver.GoneError{Reason: driver.Deleted, Detail: "nothing was held"}
}

// notMarked makes the best of an abandon that failed. A slot that is on the move
// refuses two keys but not one: the lock is freed at once, the mark comes later.
func (b *Backend) notMarked(ctx context.Context, p place, info ServerInfo, c driver.Claim, err error) error {
	var reply *ReplyError
	if !errors.As(err, &reply) {
		return err
	}
	switch codeOf(reply.Text) {
	case "TRYAGAIN", "CROSSSLOT", "ASK":
		b.do(ctx, b.form(c).release(room{}, p, c, info.publishWith())) // what it does is seen when the mark is written
	case "OOM", "MISCONF", "WRONGTYPE":
	default:
		return b.classify(p, err)
	}
	return fmt.Errorf("redis: %q is not yet certain to stay free: %w", p.name, err)
}

// ended reads the answer of a script that ends a hold, as parseEnded does.
func (b *Backend) ended(script *Script, value any) (bool, int, error) {
	ended, receivers, err := parseEnded(script.Name(), value)
	if err == nil && ended && receivers < 0 {
		b.warnMute("refused by " + script.Name())
	}
	return ended, receivers, err
}
