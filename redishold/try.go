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
	e := b.errand()
	t, err := b.prepare(ctx, c, e.room())
	if err != nil {
		b.errands.Put(e)
		return driver.Outcome{}, err
	}
	return b.outcome(ctx, &t, b.tryOnce(ctx, &t, e))
}

// tryOnce sends t, whose call lies in e.
func (b *Backend) tryOnce(ctx context.Context, t *try, e *errand) Result {
	if b.options.Replicas == 0 && b.clients.isWritten(t.claim) {
		e.call = t.call
		return b.run(ctx, e)
	}
	result := b.doReplicated(ctx, t.info, []Call{t.call}, t.claim)[0]
	b.settle(e, result)
	return result
}

// TryAll makes one attempt for each of cs, in one round trip per server.
func (b *Backend) TryAll(ctx context.Context, cs []driver.Claim) []driver.Attempt {
	attempts := make([]driver.Attempt, len(cs))
	tries, calls, at := make([]try, 0, len(cs)), make([]Call, 0, len(cs)), make([]int, 0, len(cs))
	rooms := newRooms(len(cs), 3, 4) // enough for mutexes
	for i, c := range cs {
		t, err := b.prepare(ctx, c, rooms.at(i))
		if err != nil {
			attempts[i].Err = err
			continue
		}
		tries, calls, at = append(tries, t), append(calls, t.call), append(at, i)
	}
	if len(calls) == 0 {
		return attempts
	}
	for j, result := range b.doReplicated(ctx, tries[0].info, calls, cs[at[0]]) {
		i := at[j]
		attempts[i].Outcome, attempts[i].Err = b.outcome(ctx, &tries[j], result)
	}
	return attempts
}

// try is a claim on its way to the server.
type try struct {
	claim driver.Claim
	place place
	info  ServerInfo
	ahead uint64
	call  Call
	tells bool // others are told that the name is taken

	shared uint64 // of a fair claim, see fairAhead
}

// prepare does what comes before the call, which it puts into to. Its errors say that nothing was sent.
func (b *Backend) prepare(ctx context.Context, c driver.Claim, to room) (try, error) {
	f := b.form(c)
	p, info, err := b.ready(ctx, c.Name, f)
	if err != nil {
		return try{}, err
	}
	channel := f.channel(p, c)
	t := try{
		claim: c, place: p, info: info,
		ahead: b.topics.version(channel), // before the try: what comes after it is a change
		call:  f.acquire(to, p, c, b.publishWith(info)),
	}
	if f == b.forms.exclusive && t.ahead != 0 && !info.Cluster { // in a cluster messages of two channels may overtake each other
		t.call.Args = append(append(t.call.Args, p.channel), b.publishWith(info)...)
		t.tells = true
	}
	if _, ok := f.(fair); ok {
		t.shared = b.topics.stamp(sharedChannel(channel, c.Owner)) // before the try, too
	}
	return t, nil
}

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
		if t.tells {
			b.topics.holds(t.place.channel)
		}
		return driver.Outcome{Granted: true, Token: reply.token, ValidFor: t.claim.TTL}, nil
	case reply.state == tryOtherKind:
		return driver.Outcome{}, errOtherKind(t.place)
	case reply.state == tryGone:
		return driver.Outcome{}, lost(reply.mark)
	default:
		out := driver.Outcome{RetryAfter: retryAfter(reply.remaining), Holder: b.person(ctx, reply.owner)}
		if reply.alive > 0 {
			out.Ahead = b.queued(t, reply)
		} else {
			out.Ahead = t.ahead
		}
		return out, nil
	}
}

// errOtherKind says that p's key belongs to another kind of lock.
func errOtherKind(p place) error {
	return fmt.Errorf("redis key %q belongs to another kind of lock: %w", p.lock, driver.ErrMismatch)
}

// retryAfter is when a lease with so much left is over. A negative rest says that
// the key has no TTL, and nothing is known; a rest of 0 is a last moment.
func retryAfter(left time.Duration) time.Duration {
	if left < 0 {
		return 0
	}
	return max(left, time.Millisecond)
}
