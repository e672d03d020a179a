package redishold

import (
	"context"
	"strings"
	"sync"
	"time"
)

const (
	subscribeLimit = 5 * time.Second // how long one attempt to subscribe may take
	subscribeAgain = time.Second     // how long after a failed one the next may begin
)

// topics are the channels that this process listens on: one topic per lock name,
// for as long as somebody waits for it.
type topics struct {
	// subscribe starts to listen on the channels that stand for one name and
	// returns when all are confirmed.
	subscribe func(ctx context.Context, channel string, notify func(Notice)) ([]Subscription, error)

	poll time.Duration // waiters sleep for up to so long instead of listening; 0: they listen

	mu   sync.Mutex
	last uint64 // the latest version given out; never given out twice
	open map[string]*topic

	others map[string]crowd // clients elsewhere that listened on channels on which this process does not
}

// topic is what is known of one channel. The mutex of topics guards it.
type topic struct {
	channel string
	waiters int
	state   topicState
	subs    []Subscription
	cancel  context.CancelFunc // stops an attempt to subscribe

	// version changes with everything that may mean a release. It is 0 until
	// the subscription is confirmed: a Try sent before that proves nothing.
	version uint64
	changed chan struct{} // closed when version or state changes, and replaced
	turns

	shared bool // by owners who are told one by one
	mail   mail // for them

	err   error     // why the last attempt failed
	again time.Time // when the next may begin
}

type topicState int

const (
	topicIdle topicState = iota
	topicSubscribing
	topicLive
)

// version returns the present version of a channel, 0 if nobody listens on it.
func (ts *topics) version(channel string) uint64 {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[channel]; t != nil {
		return t.version
	}
	return 0
}

// ears says whether this process receives what is sent on a channel.
type ears int

const (
	earsOpen    ears = iota // it does, once
	earsShut                // it does not
	earsUnknown             // it is about to
)

// ears returns whether this process listens on a channel.
func (ts *topics) ears(channel string) ears {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	switch t := ts.open[channel]; {
	case t == nil || t.state == topicIdle:
		return earsShut
	case t.state == topicLive:
		return earsOpen
	default:
		return earsUnknown
	}
}

// join adds a waiter to the topic of channel.
func (ts *topics) join(channel string) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.open[channel]
	if t == nil {
		t = &topic{channel: channel, changed: make(chan struct{})}
		t.others = ts.remembered(channel)
		ts.open[channel] = t
	}
	t.waiters++
	return t
}

// leave takes a waiter away, and with the last one the subscription.
func (ts *topics) leave(t *topic) {
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
	closeAll(subs)
}

// look answers whether it is worth while to ask since a Try that saw version
// ahead: since when, or from when on. The zero time is for not yet; then changed
// is closed when it may be. It starts a subscription where there is none.
func (ts *topics) look(t *topic, ahead uint64) (changed <-chan struct{}, from time.Time, err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	switch {
	case t.state == topicLive && t.version != ahead && t.version != t.taken:
		return t.changed, t.until(), nil
	case t.state == topicLive:
	case t.state == topicIdle && time.Now().Before(t.again):
		return nil, time.Time{}, t.err
	case t.state == topicIdle:
		ts.start(t)
	}
	return t.changed, time.Time{}, nil
}

// start begins to subscribe t. The attempt outlives the Wait that needs it,
// since others share it, and ends with the topic's last waiter: leave cancels
// it, and does not wait for the network.
func (ts *topics) start(t *topic) {
	ctx, cancel := context.WithTimeout(context.Background(), subscribeLimit)
	t.state, t.cancel, t.err = topicSubscribing, cancel, nil
	go func() {
		defer cancel()
		subs, err := ts.subscribe(ctx, t.channel, func(n Notice) { ts.notice(t, n) })
		if !ts.subscribed(t, subs, err) {
			closeAll(subs)
		}
	}()
}

// subscribed records how an attempt ended. It returns false if nobody wants the
// subscription any more.
func (ts *topics) subscribed(t *topic, subs []Subscription, err error) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.cancel = nil
	if err != nil {
		t.state, t.err, t.again = topicIdle, err, time.Now().Add(subscribeAgain)
	} else if t.waiters > 0 {
		t.state, t.subs = topicLive, subs
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
func (ts *topics) notice(t *topic, n Notice) {
	owner, grant, personal := parseFairMessage(n.Payload)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	switch {
	case t.state != topicLive:
	case n.Payload == repeatedMessage && len(t.subs) > 1:
		ts.repeated(t)
	case personal && t.shared:
		ts.last++
		t.mail.deliver(owner, ts.last, grant)
	case n.Payload == takenMessage && strings.HasPrefix(t.channel, redissonChannel): // of semaphores it is a number of permits
		t.taken = t.version
		t.wake()
	case n.Subscribed:
		ts.advance(t)
	default:
		t.heard++
		t.direct = time.Now()
		ts.advance(t)
	}
}

func (ts *topics) advance(t *topic) {
	ts.last++
	t.version, t.since = ts.last, time.Now()
	t.wake()
}

func (t *topic) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func closeAll(subs []Subscription) {
	for _, s := range subs {
		s.Close()
	}
}
