package redishold

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Try makes one attempt to hold c.Name for c.Owner. The first one of a Backend
// also asks the server what it is and proves the user's rights.
func (b *Backend) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	t, err := b.prepare(ctx, c)
	if err != nil {
		return driver.Outcome{}, err
	}
	return b.outcome(ctx, &t, b.tryOnce(ctx, &t))
}

// tryOnce sends t.
func (b *Backend) tryOnce(ctx context.Context, t *try) Result {
	e := b.errand()
	e.call = b.acquire(t, e.room())
	if b.options.Replicas == 0 && b.isRegistered(t.claim) {
		return b.run(ctx, e)
	}
	result := b.doReplicated(ctx, t.info, []Call{e.call}, t.claim)[0]
	b.settle(e, result)
	return result
}

// TryAll makes one attempt for each of cs, in one round trip per server.
func (b *Backend) TryAll(ctx context.Context, cs []driver.Claim) []driver.Attempt {
	attempts := make([]driver.Attempt, len(cs))
	// What there is of each stands in place of a try, which is large.
	places, heard, info := make([]place, len(cs)), make([]seen, len(cs)), ServerInfo{}
	of := func(i int) try { return try{claim: cs[i], place: places[i], info: info, seen: heard[i]} }
	at := make([]int, 0, len(cs))
	for i := range cs {
		t, err := b.prepare(ctx, cs[i])
		if err != nil {
			attempts[i].Err = err
			continue
		}
		info, places[i], heard[i] = t.info, t.place, t.seen
		at = append(at, i)
	}
	if len(at) == 0 {
		return attempts
	}
	results := b.doAll(ctx, info, cs, at, order{
		alone: func(to room, i int) Call {
			t := of(i)
			return b.acquire(&t, to)
		},
		together: func(to room, at []int) Call {
			first := &cs[at[0]]
			keys, args := to.keys, append(to.args, b.layout.lease(first.TTL), count(first.Holds), count(first.Tokens))
			ask := ""
			for _, i := range at {
				keys = append(keys, places[i].lock, places[i].marks+cs[i].Owner, places[i].counter)
				args = append(args, cs[i].Owner)
				if ask == "" {
					t := of(i)
					ask = b.asksFor(&t)
				}
			}
			return Call{Script: b.scripts.acquireAll, Keys: keys, Args: append(args, ask)}
		},
		apart: func(i int) bool { return heard[i].ahead != 0 }, // it has more to say than that it asks
		room:  func(n int) (keys, args int) { return 3 * n, 4 + n },
	}, cs[at[0]])
	for _, i := range at {
		t := of(i)
		attempts[i].Outcome, attempts[i].Err = b.outcome(ctx, &t, results[i])
	}
	return attempts
}

// try is a claim on its way to the server.
type try struct {
	claim driver.Claim
	place place
	info  ServerInfo
	seen
}

// seen is what was heard of a claim before the try: what comes after it is a change.
type seen struct {
	ahead  uint64
	shared uint64 // of a fair claim, see fairAhead
}

// prepare does what comes before the call. Its errors say that nothing was sent.
func (b *Backend) prepare(ctx context.Context, c driver.Claim) (try, error) {
	f := b.form(c)
	p, info, err := b.ready(ctx, c.Name, f)
	if err != nil {
		return try{}, err
	}
	channel := f.channel(p, c)
	t := try{claim: c, place: p, info: info, seen: seen{ahead: b.topics.version(channel)}}
	if _, ok := f.(fair); ok {
		t.shared = b.topics.stamp(sharedChannel(channel, c))
	}
	return t, nil
}

// acquire returns t's call, which lies in to.
func (b *Backend) acquire(t *try, to room) Call {
	publish := b.publishWith(t.info)
	call := b.form(t.claim).acquire(to, t.place, t.claim, b.asksFor(t), publish)
	if b.tells(t) {
		call.Args = append(append(call.Args, t.place.channel), publish[len(publish)-1])
	}
	return call
}

// tells reports that others are told when t is granted. They are told on one channel
// only, that on which they count releases: messages of two may overtake each other.
func (b *Backend) tells(t *try) bool {
	return t.ahead != 0 && b.form(t.claim) == b.forms.exclusive
}

// turns reports that processes that wait for a lock of the form take turns. Those of
// the other protocols do so as well, but do not hear that a lock is taken.
func (b *Backend) turns(f form) bool { return b.own != nil || f == b.forms.exclusive }

// outcome reads the server's answer.
func (b *Backend) outcome(ctx context.Context, t *try, result Result) (driver.Outcome, error) {
	short := shortOf(result)
	if result.Err != nil && short == nil {
		return driver.Outcome{}, notBegun(b.classify(t.place, result.Err))
	}
	reply, err := parseTry(result.Value)
	if err != nil {
		return driver.Outcome{}, err
	}
	switch {
	case reply.state == tryGranted && short != nil:
		return driver.Outcome{}, b.giveBack(ctx, t, short)
	case reply.state == tryGranted:
		if t.ahead != 0 && b.turns(b.form(t.claim)) {
			b.topics.holds(t.place.channel)
		}
		return driver.Outcome{Granted: true, Token: reply.token, ValidFor: t.claim.TTL, Permits: reply.permits}, nil
	case reply.state == tryOtherKind:
		return driver.Outcome{}, errOtherKind(t.place)
	case reply.state == tryGone:
		return driver.Outcome{}, lost(reply.mark)
	default:
		out := driver.Outcome{RetryAfter: retryAfter(reply.remaining)}
		out.Holder, out.Held = b.holder(t, &reply)
		if reply.alive > 0 {
			out.Ahead, out.Queued = b.queued(t, reply), true
		} else {
			out.Ahead = t.ahead
		}
		return out, nil
	}
}

// errOtherKind says that p's key belongs to another kind of lock, or is none.
func errOtherKind(p place) error {
	return fmt.Errorf("redis key %q belongs to another kind of lock, or to none: %w", p.lock, driver.ErrMismatch)
}

// retryAfter is when a lease with so much left is over. A negative rest says that
// the key has no TTL, and nothing is known; a rest of 0 is a last moment.
func retryAfter(left time.Duration) time.Duration {
	if left < 0 {
		return 0
	}
	return max(left, time.Millisecond)
}
