package fair

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/waiting"
)

// Ahead is Outcome.Ahead of a fair claim that is queued.
type Ahead struct {
	Shared, Own uint64 // versions of the two channels before the Try
	Near        bool   // only Holdfast's clients can have the lock before it
	Alive       int64  // until when that Try lets the claim count as alive, by the server's clock
}

// grant is what fair_release sends to an owner to which it gave the lock.
type grant struct {
	token uint64
	alive int64 // until when it counted as alive, by its last Try before that
	lasts time.Duration
	lock  string // the key of the lock
}

// parseMessage reads what scripts say on the channel of a client, to one of its
// owners: token:alive:lasts:size:lock:owner, the third in milliseconds, the fourth the
// size of the lock's key, which may contain anything; or 0:0:owner if it is worth
// while to try again. The owner is "" if it is none of them.
func parseMessage(payload string) (owner string, g grant) {
	if owner, ok := strings.CutPrefix(payload, "0:0:"); ok {
		return owner, grant{}
	}
	parts := strings.SplitN(payload, ":", 5)
	if len(parts) != 5 {
		return "", grant{}
	}
	token, err := strconv.ParseUint(parts[0], 10, 53)
	alive, err2 := strconv.ParseInt(parts[1], 10, 64)
	lasts, err3 := strconv.ParseUint(parts[2], 10, 31)
	size, err4 := strconv.ParseUint(parts[3], 10, 31)
	rest := parts[4]
	if cmp.Or(err, err2, err3, err4) != nil || token == 0 || alive <= 0 || int(size)+1 >= len(rest) || rest[size] != ':' {
		return "", grant{}
	}
	return rest[size+1:], grant{token, alive, time.Duration(lasts) * time.Millisecond, rest[:size]}
}

// SharedChannel is where all fair claims of c's client for one name learn of
// Holdfast's releases. Redisson notifies each owner on its own channel.
func SharedChannel(own string, c driver.Claim) string {
	return strings.TrimSuffix(own, c.Owner[min(len(c.Client), len(c.Owner)):])
}

// waiter waits for the turn of one fair claim: on the channel of its client,
// and where others than Holdfast may have the lock before it, also on the one on
// which Redisson would tell it.
type waiter struct {
	waiting.Personal
	lock      string        // its key
	grantable time.Duration // for how long a release may give it the lock
	alive     int64         // of the Outcome that the last Wait was given
}

// Waiter returns a Waiter for c, which waits for the lock at p.
func (f Lock) Waiter(topics *waiting.Topics, k layout.Keys, c driver.Claim) driver.Waiter {
	own := f.Channel(k, c)
	addressee := func(message string) string {
		owner, _ := parseMessage(message)
		return owner
	}
	return &waiter{lock: k.Lock, grantable: f.Grantable(c), Personal: waiting.Personal{
		Topics: topics, Owner: c.Owner, Shared: SharedChannel(own, c), Address: addressee, Own: own,
	}}
}

// Grantable is for how long a release may give the lock to c, which waits for it;
// 0 if c has to try again in any case, for the release would not do all that c
// asks for.
func (f Lock) Grantable(c driver.Claim) time.Duration {
	if !f.Gives || c.Tokens > 1 || c.Count > 1 || c.Indeterminate {
		return 0
	}
	return min(Presence, c.TTL)
}

// Wait returns when something was heard since the Try that last came from, and the
// grant if that was one.
func (w *waiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	seen, _ := last.Ahead.(Ahead)
	w.alive = seen.Alive
	if err := w.Personal.Wait(ctx, seen.Shared, seen.Own, seen.Near, last); err != nil {
		return driver.Outcome{}, err
	}
	return w.Granted(), nil
}

// Granted returns the grant that a release made of the waiting claim since the
// Try that the last Wait was given; the zero Outcome if there is none.
//
// A message of an earlier grant may come late, after the lock went to others: it
// names the time until which an earlier Try let the claim count as alive. No Try
// that comes after a grant is answered "queued" while that lasts, so a message
// that names the time of the last one was sent after it. Redis keeps the lock
// until that time, unless it is released or extended before; if the server's
// clock was set forward meanwhile, for as long as the message says.
//
// A message about another lock is none: whatever came to stand in a queue that two
// locks share, it is no grant of this one.
func (w *waiter) Granted() driver.Outcome {
	if w.grantable <= 0 || w.alive <= 0 {
		return driver.Outcome{}
	}
	_, given := parseMessage(w.Last())
	if given.token == 0 || given.alive != w.alive || given.lock != w.lock {
		return driver.Outcome{}
	}
	return driver.Outcome{Granted: true, Token: given.token, ValidFor: min(w.grantable, given.lasts)}
}
