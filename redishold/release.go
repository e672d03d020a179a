package redishold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// minMark is how long the mark of an owner lasts at least.
const minMark = 10 * time.Second

// Release ends the claim c. With c.Indeterminate it also sees to it that an earlier
// Try that is still under way finds nothing to grant, for as long as the claim's
// TTL and not less than ten seconds.
func (b *Backend) Release(ctx context.Context, c driver.Claim) error {
	_, err := b.release(ctx, c)
	return err
}

// releaseCounted is Release, and returns how many other clients received the message
// of it, as StartRelease does.
func (b *Backend) releaseCounted(ctx context.Context, c driver.Claim) (others int, err error) {
	info := b.server.known.Load()
	if info == nil {
		return -1, b.Release(ctx, c)
	}
	before := b.listens(b.form(c), b.layout.place(c.Name), c)
	receivers, err := b.release(ctx, c)
	return b.others(*info, before, receivers), err
}

// release returns how many received the message of a release, -1 if that is not known.
func (b *Backend) release(ctx context.Context, c driver.Claim) (receivers int, err error) {
	info, err := b.ask(ctx)
	if err != nil {
		return -1, err
	}
	p := b.layout.place(c.Name)
	if c.Indeterminate {
		return -1, b.abandon(ctx, p, info, c)
	}
	e := b.errand()
	e.call = b.form(c).release(e.room(), p, c, b.publishWith(info))
	return b.released(ctx, p, info, c, b.run(ctx, e))
}

// released reads the server's answer to a release, and returns how many received
// the message of it, -1 if that is not known.
func (b *Backend) released(ctx context.Context, p place, info ServerInfo, c driver.Claim, result Result) (int, error) {
	released, receivers, err := b.releaseAnswer(p, result)
	if err != nil || released {
		return receivers, err
	}
	if reason := b.explain(ctx, info, []driver.Claim{c})[0]; reason != nil {
		return -1, reason
	}
	return -1, unexplained()
}

// releaseAnswer reads the server's answer to a release: whether it ended a hold, and
// how many received the message of it, -1 if that is not known.
func (b *Backend) releaseAnswer(p place, result Result) (bool, int, error) {
	if result.Err != nil {
		return false, -1, b.classifyHeld(p, result.Err)
	}
	return b.ended(b.scripts.release, result.Value)
}

// ReleaseAll releases each of cs, in one round trip per server. Those that are
// indeterminate travel by themselves.
func (b *Backend) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	errs, at := make([]error, len(cs)), make([]int, 0, len(cs))
	var indeterminate sync.WaitGroup
	for i := range cs {
		if cs[i].Indeterminate {
			indeterminate.Go(func() { errs[i] = b.Release(ctx, cs[i]) })
		} else {
			at = append(at, i)
		}
	}
	b.releaseAll(ctx, cs, at, errs)
	indeterminate.Wait()
	return errs
}

// releaseAll releases the claims of cs at the given places, and puts what came of it
// into errs.
func (b *Backend) releaseAll(ctx context.Context, cs []driver.Claim, at []int, errs []error) {
	if len(at) == 0 {
		return
	}
	info, err := b.ask(ctx)
	if err != nil {
		for _, i := range at {
			errs[i] = err
		}
		return
	}
	publish := b.publishWith(info)
	results := b.doAll(ctx, info, cs, at, order{
		alone: func(to room, i int) Call {
			return b.form(cs[i]).release(to, b.layout.place(cs[i].Name), cs[i], publish)
		},
		together: func(to room, at []int) Call {
			keys, args := to.keys, to.args
			for _, i := range at {
				p := b.layout.place(cs[i].Name)
				keys, args = append(keys, p.lock), append(args, cs[i].Owner, p.channel)
			}
			return Call{Script: b.scripts.releaseAll, Keys: keys, Args: append(args, publish...)}
		},
		unreplicated: true, // a release that a fail-over forgets is a lease that ends by itself
		room:         func(n int) (keys, args int) { return n, 2*n + len(b.publish) },
	})
	var lost []int
	for _, i := range at {
		released, _, err := b.releaseAnswer(b.layout.place(cs[i].Name), results[i])
		if err == nil && !released {
			err, lost = unexplained(), append(lost, i)
		}
		errs[i] = err
	}
	b.explainLost(ctx, info, cs, lost, func(i int) *error { return &errs[i] })
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
