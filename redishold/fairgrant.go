package redishold

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// fairAhead is Outcome.Ahead of a fair claim that is queued.
type fairAhead struct {
	shared, own uint64 // versions of the two topics before the Try
	near        bool   // only Holdfast's clients can have the lock before it
	alive       int64  // until when that Try lets the claim count as alive, by the server's clock
}

// fairGrant is what fair_release tells an owner to which it gave the lock.
type fairGrant struct {
	token uint64
	alive int64 // until when it counted as alive, by its last Try before that
	lasts time.Duration
	lock  string // the key of the lock
}

// parseFairMessage reads what scripts say on the channel of a client, to one of its
// owners: token:alive:lasts:size:lock:owner, the third in milliseconds, the fourth the
// size of the lock's key, which may contain anything; or 0:0:owner if it is worth
// while to try again.
func parseFairMessage(payload string) (owner string, grant fairGrant, ok bool) {
	first, rest, found := strings.Cut(payload, ":")
	second, owner, found2 := strings.Cut(rest, ":")
	if !found || !found2 || owner == "" {
		return "", fairGrant{}, false
	}
	token, err := strconv.ParseUint(first, 10, 64)
	alive, err2 := strconv.ParseInt(second, 10, 64)
	if err != nil || err2 != nil || token >= 1<<53 || alive < 0 || (token == 0) != (alive == 0) {
		return "", fairGrant{}, false
	}
	grant = fairGrant{token: token, alive: alive}
	if token == 0 {
		return owner, grant, true
	}
	third, rest, _ := strings.Cut(owner, ":")
	fourth, rest, _ := strings.Cut(rest, ":")
	lasts, err := strconv.ParseUint(third, 10, 31)
	size, err2 := strconv.ParseUint(fourth, 10, 31)
	if err != nil || err2 != nil || int(size)+1 >= len(rest) || rest[size] != ':' {
		return "", fairGrant{}, false
	}
	grant.lasts, grant.lock = time.Duration(lasts)*time.Millisecond, rest[:size]
	return rest[size+1:], grant, true
}

// sharedChannel is where all fair claims of c's client for one name hear of
// Holdfast's releases. Redisson tells each owner on its own channel.
func sharedChannel(own string, c driver.Claim) string {
	return strings.TrimSuffix(own, c.Owner[min(len(c.Client), len(c.Owner)):])
}

// grantable is for how long a release may give the lock to c, which waits for it;
// 0 if c has to try again in any case, for the release would not do all that c
// asks for.
func (b *Backend) grantable(c driver.Claim) time.Duration {
	if b.options.Replicas != 0 || c.Tokens > 1 || c.Holds > 1 || c.Indeterminate {
		return 0
	}
	return min(fairPresence, c.TTL)
}

// queued is fairAhead after the answer to t.
func (b *Backend) queued(t *try, reply tryReply) fairAhead {
	near := reply.strangers == 0
	if near && reply.owner != "" {
		client, _ := b.directory.get(uuidOf(reply.owner))
		near = client.registered()
	}
	return fairAhead{shared: t.shared, own: t.ahead, near: near, alive: reply.alive}
}

// fairWaiter waits for the turn of one fair claim: on the channel of its client,
// and where others than Holdfast may have the lock before it, also on the one on
// which Redisson would tell it.
type fairWaiter struct {
	topics      *topics
	owner       string
	lock        string // its key
	channel     string // of the client
	ownChannel  string
	grantable   time.Duration // see Backend.grantable
	alive       int64         // of the Outcome that the last Wait was given
	shared, own *topic        // nil before they are needed and after Close
	naps        poller        // instead of messages
}

func (b *Backend) fairWaiter(f fair, c driver.Claim) driver.Waiter {
	p := b.layout.place(c.Name)
	own := f.channel(p, c)
	return &fairWaiter{
		topics: &b.topics, owner: c.Owner, lock: p.lock, grantable: b.grantable(c),
		channel: sharedChannel(own, c), ownChannel: own,
	}
}

// Wait returns when something was heard since the Try that last came from, and the
// grant if that was one.
func (w *fairWaiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	if err := w.wait(ctx, last); err != nil {
		return driver.Outcome{}, err
	}
	return w.granted(), nil
}

func (w *fairWaiter) wait(ctx context.Context, last driver.Outcome) error {
	seen, _ := last.Ahead.(fairAhead)
	w.alive = seen.alive
	if w.shared == nil {
		w.shared = w.topics.joinFor(w.channel, w.owner)
	}
	if w.own == nil && !seen.near && w.ownChannel != w.channel {
		w.own = w.topics.join(w.ownChannel)
	}
	for {
		all, mine, done, err := w.topics.lookFor(w.shared, w.owner, seen.shared)
		var own <-chan struct{}
		if w.own != nil && err == nil && !done {
			var since time.Time
			own, since, err = w.topics.look(w.own, seen.own)
			done = !since.IsZero()
		}
		if isForbidden(err) {
			w.naps.most = pollMost
			return w.naps.wait(ctx, last)
		}
		if done || err != nil {
			return err
		}
		select {
		case <-all:
		case <-mine:
		case <-own:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// granted returns the grant that a release made of the waiting claim since the
// Try that the last Wait was given; the zero Outcome if there is none.
//
// A message of an earlier grant may come late, after the lock went to others: it
// names the time until which an earlier Try let the claim count as alive. No Try
// that comes after a grant is answered "queued" while that lasts, so a message
// that names the time of the last one was sent after it. Redis keeps the lock
// until that time, unless it is given back or extended before; if the server's
// clock was set forward meanwhile, for as long as the message says.
//
// A message about another lock is none: whatever came to stand in a queue that two
// locks share, it is no grant of this one.
func (w *fairWaiter) granted() driver.Outcome {
	if w.shared == nil || w.grantable <= 0 || w.alive <= 0 {
		return driver.Outcome{}
	}
	grant := w.topics.grantOf(w.shared, w.owner)
	if grant.token == 0 || grant.alive != w.alive || grant.lock != w.lock {
		return driver.Outcome{}
	}
	return driver.Outcome{Granted: true, Token: grant.token, ValidFor: min(w.grantable, grant.lasts)}
}

// Close gives up the waiter's shares of the subscriptions.
func (w *fairWaiter) Close() {
	if w.shared != nil {
		w.topics.leaveFor(w.shared, w.owner)
	}
	if w.own != nil {
		w.topics.leave(w.own)
	}
	w.shared, w.own = nil, nil
}
