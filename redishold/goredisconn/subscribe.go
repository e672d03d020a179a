package goredisconn

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// link is one *redis.PubSub, used for one connection. go-redis would restore it
// by itself, but subscribes everything again in one command, which one forbidden
// channel spoils for all; so the first error ends the link, and the Hub makes
// the next.
type link struct {
	ctx     context.Context // ends when nobody needs the link any more
	pubsub  *redis.PubSub
	session *adapter.Session
	down    chan error // closed by the reader when it ends
	cancel  func()     // stops go-redis' own attempt to restore the connection
	pinged  bool       // only for the goroutine that calls Check

	mu       sync.Mutex
	sent     []request // commands without an answer yet, in order
	received bool      // data arrived since the last Check
}

// request is a command that the server has yet to answer. Its error replies do
// not say what they answer, so the order has to.
type request struct{ kind, channel string }

const ping = "ping"

// dialLimit bounds how long making a link may take. go-redis waits for up to
// ReadTimeout for a server that accepts connections and then stands still.
const dialLimit = 2 * time.Second

// dial returns how a link is made with subscribe, which is that of a client.
func dial(subscribe func(context.Context, ...string) *redis.PubSub) adapter.Dial {
	return func(ctx context.Context, s *adapter.Session) (adapter.Link, error) {
		ctx, cancel := context.WithCancel(ctx)
		l := &link{ctx: ctx, cancel: cancel, session: s, down: make(chan error)}
		l.pubsub = subscribe(ctx) // no channel yet, so no connection
		if err := l.connect(); err != nil {
			return nil, err
		}
		go l.read()
		return l, nil
	}
}

func (l *link) connect() error {
	ctx, cancel := context.WithTimeout(l.ctx, dialLimit)
	defer cancel()
	err, late := adapter.Guard(ctx, l.ping)
	switch {
	case late != nil:
		err = cmp.Or(l.ctx.Err(), errSilent)
		l.cancel()
		go func() { _ = l.pubsub.Close() }() // waits until go-redis has made the connection or not
	case err != nil:
		err = failure(l.ctx, err) // before ctx is over
		l.cancel()
		_ = l.pubsub.Close()
	}
	return err
}

// Subscribe sends one SUBSCRIBE per channel, so that each has its own answer.
func (l *link) Subscribe(names []string) {
	l.sendAll("subscribe", names, l.pubsub.Subscribe, l.pubsub.SSubscribe)
}

func (l *link) Unsubscribe(names []string) {
	l.sendAll("unsubscribe", names, l.pubsub.Unsubscribe, l.pubsub.SUnsubscribe)
}

func (l *link) sendAll(kind string, names []string, classic, sharded func(context.Context, ...string) error) {
	if l.session.Sharded() {
		kind, classic = "s"+kind, sharded
	}
	for _, name := range names {
		l.send(request{kind, name}, classic)
	}
}

// send writes a command. One that cannot be written ends the link: go-redis may
// have made another connection by then, and would not say what it missed.
func (l *link) send(r request, write func(context.Context, ...string) error) {
	l.expect(r)
	if write(l.ctx, r.channel) != nil {
		_ = l.pubsub.Close() // the reader sees it
	}
}

func (l *link) ping() error {
	l.expect(request{kind: ping})
	return l.pubsub.Ping(l.ctx)
}

func (l *link) expect(r request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, r)
}

var errSilent = errors.New("server does not answer a PING")

// Check pings a link on which nothing was heard since the last Check, and finds
// it dead if that was a ping already.
func (l *link) Check() error {
	l.mu.Lock()
	received := l.received
	l.received = false
	l.mu.Unlock()
	switch {
	case received:
		l.pinged = false
		return nil
	case l.pinged:
		return errSilent
	default:
		l.pinged = true
		return l.ping()
	}
}

func (l *link) Down() <-chan error { return l.down }

// Close closes the connection and waits for the reader.
func (l *link) Close() {
	l.cancel()
	_ = l.pubsub.Close()
	<-l.down
}

// read passes on what the server says until the connection breaks.
func (l *link) read() {
	defer close(l.down)
	for {
		msg, err := l.pubsub.Receive(l.ctx)
		if reply, ok := replyError(err); ok {
			l.refusal(reply)
			continue
		}
		if err != nil {
			return
		}
		switch msg := msg.(type) {
		case *redis.Message:
			l.answered(request{})
			l.session.Message(msg.Channel, msg.Payload)
		case *redis.Pong:
			l.answered(request{kind: ping})
		case *redis.Subscription:
			l.answered(request{msg.Kind, msg.Channel})
			l.session.Confirmed(msg.Kind, msg.Channel)
		}
	}
}

// answered notes that the server is alive and has answered r.
func (l *link) answered(r request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received = true
	if i := slices.Index(l.sent, r); i >= 0 {
		l.sent = slices.Delete(l.sent, i, i+1)
	}
}

// refusal matches an error reply to the oldest command without an answer.
func (l *link) refusal(reply *redishold.ReplyError) {
	l.mu.Lock()
	l.received = true
	var r request
	if len(l.sent) > 0 {
		r = l.sent[0]
		l.sent = l.sent[1:]
	}
	l.mu.Unlock()
	if r.kind == "subscribe" || r.kind == "ssubscribe" {
		l.session.Denied(r.channel, reply)
	}
}
