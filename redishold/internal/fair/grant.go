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

// Ahead is the Outcome.Ahead of a fair claim in the queue.
type Ahead struct {
	Shared, Own uint64 // versions of the two channels before the Try
	Near        bool   // only clients of Holdfast can get the lock before the claim
	Alive       int64  // until when the claim counts as alive after that Try, by the server's clock in ms
}

// grant is the message with which fair_release.lua notifies an owner that it has granted the
// lock to this owner.
type grant struct {
	token uint64
	alive int64 // until when the owner counted as alive after its last Try before the grant, by the server's clock in ms
	lease time.Duration
	lock  string // the key of the lock
}

// parseMessage parses a message for one owner on the channel of its client. A grant is
// `token:alive:lease:size:lock:owner`. In a grant, `lease` is in ms, and `lock` is the key of
// the lock. This key may have colons, so `size` is its length. The message `0:0:owner` only
// means that the owner should try. For any other message, the result `owner` is "".
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
	lease, err3 := strconv.ParseUint(parts[2], 10, 31)
	size, err4 := strconv.ParseUint(parts[3], 10, 31)
	rest := parts[4]
	if cmp.Or(err, err2, err3, err4) != nil || token == 0 || alive <= 0 || int(size)+1 >= len(rest) || rest[size] != ':' {
		return "", grant{}
	}
	return rest[size+1:], grant{token, alive, time.Duration(lease) * time.Millisecond, rest[:size]}
}

// SharedChannel returns the channel on which Holdfast notifies all fair claims of c's client
// for one name. The parameter `own` is the result of Lock.Channel.
func SharedChannel(own string, c driver.Claim) string {
	return strings.TrimSuffix(own, c.Owner[min(len(c.Client), len(c.Owner)):])
}

// waiter waits for messages for one fair claim, on the channel of the client of the claim. If a
// Redisson client may get the lock before the claim, the waiter also waits on the channel on
// which Redisson would wake the claim.
type waiter struct {
	waiting.Personal
	lock      string        // the key of the lock
	grantable time.Duration // see Lock.Grantable
	alive     int64         // Ahead.Alive of the Outcome with which Wait was last called
}

// Waiter returns a Waiter for c.
func (f Lock) Waiter(topics *waiting.Topics, k layout.Keys, c driver.Claim) driver.Waiter {
	own := f.Channel(k, c)
	addressee := func(message string) string {
		owner, _ := parseMessage(message)
		return owner
	}
	return &waiter{lock: k.Lock, grantable: f.Grantable(c), Personal: waiting.Personal{
		Topics: topics, Owner: c.Owner, Address: addressee,
		Shared: waiting.Key{Channel: SharedChannel(own, c), Client: c.Client}, Own: waiting.Key{Channel: own, Client: c.Client},
	}}
}

// Grantable returns the longest first lease with which a release may grant the lock to the
// waiting claim c. It is 0 if a release must not grant the lock to c, because a release cannot
// do all that a Try of c does.
func (f Lock) Grantable(c driver.Claim) time.Duration {
	if !f.GrantsNext || c.Tokens > 1 || c.Count > 1 || c.Indeterminate {
		return 0
	}
	return min(Presence, c.TTL)
}

// Wait returns when a message was received after a Try. The parameter `last` is the Outcome of
// that Try. If the message is a grant, Wait returns the grant.
func (w *waiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	seen, _ := last.Ahead.(Ahead)
	w.alive = seen.Alive
	if err := w.Personal.Wait(ctx, seen.Shared, seen.Own, seen.Near, last); err != nil {
		return driver.Outcome{}, err
	}
	return w.Granted(), nil
}

// Granted returns the grant that a release has made since the latest Try, the one whose Outcome
// was passed to the last Wait. If there is no such grant, Granted returns the zero Outcome.
//
// The message of an earlier grant may come late, when other clients have the lock. The time
// `alive` in such a message is that of an earlier Try. The reason is that a Try gets a new time
// `alive` only with the reply "queued", and no Try of the owner gets this reply while a grant
// lasts. So a message that has the time `alive` of the latest Try was sent after that Try. Redis
// keeps the lock until this time `alive`, unless the owner releases or extends the lock before.
// If the server's clock was set forward meanwhile, Redis keeps the lock for the lease in the
// message.
//
// A message about another lock does not count as a grant. Such a message is possible if two
// locks have the same queue.
func (w *waiter) Granted() driver.Outcome {
	if w.grantable <= 0 || w.alive <= 0 {
		return driver.Outcome{}
	}
	_, given := parseMessage(w.Last())
	if given.token == 0 || given.alive != w.alive || given.lock != w.lock {
		return driver.Outcome{}
	}
	return driver.Outcome{Granted: true, Token: given.token, ValidFor: min(w.grantable, given.lease)}
}
