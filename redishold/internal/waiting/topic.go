// Package waiting has waiters for a lock: their subscriptions to the messages of releases,
// and the times at which they try again.
package waiting

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

const (
	// SubscribeLimit is the maximal time of one attempt to subscribe.
	SubscribeLimit = 5 * time.Second
	// lingerFor is how long a topic of a client stays subscribed after its last waiter has left, if
	// the client came back within that time before. A process that takes a lock again and again
	// then counts all releases of the others, and needs no new subscription for each of its turns.
	// The time is short: as long as the topic lasts, the others take this client for one that
	// waits, and it receives their messages.
	lingerFor = 10 * time.Millisecond
	// resubscribeAfter is the time between a failed attempt to subscribe and the next attempt.
	resubscribeAfter = time.Second
)

// Key identifies a topic: a channel, and the client that listens on it.
type Key struct {
	Channel string

	// Client is driver.Claim.Client. Each client has a topic of its own, so that several Lockers
	// of a Backend take turns as Lockers of several processes do. It is "" for the waiters of a
	// counter, which belong to no client.
	Client string
}

// Topics has one topic for each Key, as long as there is a waiter.
type Topics struct {
	// Subscribe subscribes to a channel. In a cluster that has sharded channels, it subscribes
	// to the classic and to the sharded channel of that name. It returns when the server has
	// confirmed each subscription.
	Subscribe func(ctx context.Context, channel string, notify func(wire.Notice)) ([]Subscription, error)

	// Poll is the maximal sleep of waiters that poll. If it is 0, waiters subscribe.
	Poll time.Duration

	mu   sync.Mutex
	last uint64         // the largest version so far; each version is used once
	open map[Key]*topic // nil before the first waiter

	closed map[Key]remembered // what is remembered about keys without a topic
}

// Subscription is a running subscription.
type Subscription interface {
	// Close ends the subscription.
	Close()
}

// topic is the state of one channel for one client. The mutex of Topics guards it.
type topic struct {
	key     Key
	waiters int
	lingers bool        // the topic stays for a while after its last waiter has left
	linger  *time.Timer // ends the topic then; nil until it is needed
	state   State
	subs    []Subscription
	cancel  context.CancelFunc // stops the attempt to subscribe; nil if there is none

	// version changes with every message or event that may mean a release. It is 0 until the
	// subscription is confirmed. So a waiter whose Try was before the confirmation tries again,
	// because this process may have missed a release after that Try.
	version uint64
	changed chan struct{} // closed when version or state changes, and replaced
	stagger

	address func(message string) (owner string) // see Personal.Address; nil if all messages are for all waiters
	mail    mailboxes                           // the messages for single owners

	err         error     // the error of the last attempt to subscribe
	nextAttempt time.Time // when the next attempt to subscribe may begin
}

// State is the state of the subscription to a channel.
type State int

// The states of a subscription.
const (
	Idle        State = iota // not subscribed
	Subscribing              // not confirmed yet
	Live                     // confirmed
)

// Version returns the current version of a topic, or 0 if the topic has no waiters.
func (ts *Topics) Version(key Key) uint64 {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[key]; t != nil {
		return t.version
	}
	return 0
}

// State returns the current state of a topic.
func (ts *Topics) State(key Key) State {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[key]; t != nil {
		return t.state
	}
	return Idle
}

// join adds a waiter to a topic.
func (ts *Topics) join(key Key) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.open[key]
	if t == nil {
		t = &topic{key: key, changed: make(chan struct{})}
		ts.recall(t)
		t.lingers = t.returns()
		if ts.open == nil {
			ts.open = map[Key]*topic{}
		}
		ts.open[key] = t
	}
	t.waiters++
	return t
}

// leave removes a waiter from a topic. If that was the last waiter of the topic, the topic ends.
func (ts *Topics) leave(t *topic) {
	ts.mu.Lock()
	t.waiters--
	ts.mu.Unlock()
	ts.end(t)
}

// leaveLater removes a waiter from a topic. If that was the last waiter of a Live topic that
// lingers, the topic ends after the time lingerFor, unless another waiter comes. A topic of no
// client never lingers, because nothing is remembered about it.
func (ts *Topics) leaveLater(t *topic) {
	ts.mu.Lock()
	t.left = time.Now()
	if t.state != Live || !t.lingers {
		ts.mu.Unlock()
		ts.leave(t)
		return
	}
	defer ts.mu.Unlock()
	t.waiters--
	if t.linger == nil {
		t.linger = time.AfterFunc(lingerFor, func() { ts.end(t) })
	} else {
		t.linger.Reset(lingerFor)
	}
}

// end ends a topic and its subscription, unless the topic has waiters.
func (ts *Topics) end(t *topic) {
	ts.mu.Lock()
	if t.waiters > 0 || ts.open[t.key] != t {
		ts.mu.Unlock()
		return
	}
	delete(ts.open, t.key)
	if t.key.Client != "" {
		ts.remember(t.key, remembered{t.others, time.Now().Add(rememberFor), t.habits})
	}
	subs, cancel := t.subs, t.cancel
	t.subs = nil
	ts.mu.Unlock()

	if cancel != nil {
		cancel()
	}
	CloseAll(subs)
}

// retryTime returns in `at` when a waiter should try again. The parameter `ahead` is the
// version of the topic at the last Try of the waiter. If the topic has not changed since, `at`
// is zero. The channel `changed` is closed at the next change; then the caller must call
// retryTime again. If there is no subscription, retryTime begins to subscribe, or returns the
// error of an attempt that failed a moment ago. The result `turn` is true if no other client waits
// longer, as far as this client knows.
func (ts *Topics) retryTime(t *topic, ahead uint64) (changed <-chan struct{}, at time.Time, turn bool, err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	switch {
	case t.state == Live && t.version != ahead && t.version != t.takenVersion:
		return t.changed, t.retryAt(), t.isNext(), nil
	case t.state == Live:
	case t.state == Idle && time.Now().Before(t.nextAttempt):
		return nil, time.Time{}, false, t.err
	case t.state == Idle:
		ts.beginSubscription(t)
	}
	return t.changed, time.Time{}, false, nil
}

// beginSubscription starts an attempt to subscribe. The attempt does not end with the Wait that
// has started it, because other waiters need it, too. The attempt ends with the last waiter of
// the topic: leave cancels the attempt, and does not wait for the network.
func (ts *Topics) beginSubscription(t *topic) {
	ctx, cancel := context.WithTimeout(context.Background(), SubscribeLimit)
	t.state, t.cancel, t.err = Subscribing, cancel, nil
	go func() {
		defer cancel()
		subs, err := ts.Subscribe(ctx, t.key.Channel, func(n wire.Notice) { ts.notice(t, n) })
		if !ts.subscribed(t, subs, err) {
			CloseAll(subs)
		}
	}()
}

// subscribed records the result of an attempt to subscribe. It returns false if the attempt
// failed, or if the topic has no waiters any more; then the caller must close subs.
func (ts *Topics) subscribed(t *topic, subs []Subscription, err error) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.cancel = nil
	if err != nil {
		t.state, t.err, t.nextAttempt = Idle, err, time.Now().Add(resubscribeAfter)
	} else if t.waiters > 0 {
		t.state, t.subs = Live, subs
		ts.advance(t)
		return true
	}
	t.wake()
	return false
}

// notice records a Notice of a subscription. It ignores a Notice that comes before the topic is
// Live, because every waiter tries when the topic becomes Live. A message for one owner only
// wakes the waiter of that owner.
func (ts *Topics) notice(t *topic, n wire.Notice) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var owner string
	if t.address != nil {
		owner = t.address(n.Payload)
	}
	switch {
	case t.state != Live:
	case n.Payload == repeatedMessage && len(t.subs) > 1:
		if time.Since(t.lastRelease) >= repeatedLimit { // the message on the sharded channel may be lost: waiters try, but a little later
			ts.advance(t)
			t.lastChange = t.lastChange.Add(staggerMax)
		}
	case owner != "":
		ts.last++
		t.mail.deliver(owner, ts.last, n.Payload)
	case n.Payload == takenMessage && strings.HasPrefix(t.key.Channel, layout.RedissonChannel): // on the channel of a semaphore, the same text is a number of permits
		t.takenVersion = t.version
		t.wake()
	case n.Subscribed:
		ts.advance(t)
	default:
		t.releases++
		t.lastRelease = time.Now()
		ts.advance(t)
	}
}

// advance gives the topic a new version and wakes its waiters.
func (ts *Topics) advance(t *topic) {
	ts.last++
	t.version, t.lastChange = ts.last, time.Now()
	t.wake()
}

func (t *topic) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// CloseAll closes all subscriptions in subs.
func CloseAll(subs []Subscription) {
	for _, s := range subs {
		s.Close()
	}
}
