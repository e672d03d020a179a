// Package waiting has waiters for a lock: the channels on which they learn of
// releases, and whose turn it is to ask.
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
	// SubscribeLimit is how long one attempt to subscribe may take.
	SubscribeLimit = 5 * time.Second
	// subscribeAgain is how long after a failed one the next may begin.
	subscribeAgain = time.Second
)

// Topics are the channels that this process listens on: one topic per lock name,
// for as long as somebody waits for it.
type Topics struct {
	// Subscribe starts to listen on the channels that stand for one name and
	// returns when all are confirmed.
	Subscribe func(ctx context.Context, channel string, notify func(wire.Notice)) ([]Subscription, error)

	// Poll is for how long waiters sleep at most instead of listening; 0: they listen.
	Poll time.Duration

	mu   sync.Mutex
	last uint64            // the latest version given out; never given out twice
	open map[string]*topic // by channel; nil before the first

	others map[string]listeners // clients elsewhere that listened on channels on which this process does not
}

// Subscription is a running subscription.
type Subscription interface {
	// Close stops listening.
	Close()
}

// topic is what is known of one channel. The mutex of topics guards it.
type topic struct {
	channel string
	waiters int
	state   State
	subs    []Subscription
	cancel  context.CancelFunc // stops an attempt to subscribe

	// version changes with everything that may mean a release. It is 0 until
	// the subscription is confirmed: a Try sent before that proves nothing.
	version uint64
	changed chan struct{} // closed when version or state changes, and replaced
	turns

	address func(message string) (owner string) // see Personal.Address; nil if no owners share the channel
	mail    message                             // for them

	err   error     // why the last attempt failed
	again time.Time // when the next may begin
}

// State says whether this process hears what is sent on a channel.
type State int

// The states of a channel.
const (
	Idle        State = iota // it does not
	Subscribing              // it is about to
	Live                     // it does
)

// Version returns the present version of a channel, 0 if nobody listens on it.
func (ts *Topics) Version(channel string) uint64 {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[channel]; t != nil {
		return t.version
	}
	return 0
}

// State returns the present state of a channel.
func (ts *Topics) State(channel string) State {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[channel]; t != nil {
		return t.state
	}
	return Idle
}

// join adds a waiter to the topic of channel.
func (ts *Topics) join(channel string) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.open[channel]
	if t == nil {
		t = &topic{channel: channel, changed: make(chan struct{})}
		t.others = ts.remembered(channel)
		if ts.open == nil {
			ts.open = map[string]*topic{}
		}
		ts.open[channel] = t
	}
	t.waiters++
	return t
}

// leave takes a waiter away, and with the last one the subscription.
func (ts *Topics) leave(t *topic) {
	ts.mu.Lock()
	t.waiters--
	if t.waiters > 0 {
		ts.mu.Unlock()
		return
	}
	delete(ts.open, t.channel)
	ts.remember(t.channel, t.others)
	subs, cancel := t.subs, t.cancel
	t.subs = nil
	ts.mu.Unlock()

	if cancel != nil {
		cancel()
	}
	CloseAll(subs)
}

// state answers whether it is worth while to ask since a Try that saw version
// ahead: since when, or from when on. The zero time is for not yet; then changed
// is closed when it may be. It starts a subscription where there is none.
func (ts *Topics) state(t *topic, ahead uint64) (changed <-chan struct{}, from time.Time, err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	switch {
	case t.state == Live && t.version != ahead && t.version != t.taken:
		return t.changed, t.until(), nil
	case t.state == Live:
	case t.state == Idle && time.Now().Before(t.again):
		return nil, time.Time{}, t.err
	case t.state == Idle:
		ts.start(t)
	}
	return t.changed, time.Time{}, nil
}

// start begins to subscribe t. The attempt outlives the Wait that needs it,
// since others share it, and ends with the topic's last waiter: leave cancels
// it, and does not wait for the network.
func (ts *Topics) start(t *topic) {
	ctx, cancel := context.WithTimeout(context.Background(), SubscribeLimit)
	t.state, t.cancel, t.err = Subscribing, cancel, nil
	go func() {
		defer cancel()
		subs, err := ts.Subscribe(ctx, t.channel, func(n wire.Notice) { ts.notice(t, n) })
		if !ts.subscribed(t, subs, err) {
			CloseAll(subs)
		}
	}()
}

// subscribed records how an attempt ended. It returns false if nobody wants the
// subscription any more.
func (ts *Topics) subscribed(t *topic, subs []Subscription, err error) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.cancel = nil
	if err != nil {
		t.state, t.err, t.again = Idle, err, time.Now().Add(subscribeAgain)
	} else if t.waiters > 0 {
		t.state, t.subs = Live, subs
		ts.advance(t)
		return true
	}
	t.wake()
	return false
}

// notice records what a subscription heard. Until all channels are confirmed
// there is nothing to record: the version that follows is new to everybody.
//
// A message for one of the owners that share the channel is for that one alone.
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
		if time.Since(t.direct) >= directLimit { // a message of the sharded channel may be lost: ask a moment later
			ts.advance(t)
			t.since = t.since.Add(turnMost)
		}
	case owner != "":
		ts.last++
		t.mail.deliver(owner, ts.last, n.Payload)
	case n.Payload == takenMessage && strings.HasPrefix(t.channel, layout.RedissonChannel): // of semaphores it is a number of permits
		t.taken = t.version
		t.wake()
	case n.Subscribed:
		ts.advance(t)
	default:
		t.releases++
		t.direct = time.Now()
		ts.advance(t)
	}
}

func (ts *Topics) advance(t *topic) {
	ts.last++
	t.version, t.since = ts.last, time.Now()
	t.wake()
}

func (t *topic) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// CloseAll closes subs.
func CloseAll(subs []Subscription) {
	for _, s := range subs {
		s.Close()
	}
}
