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

// link is an adapter.Link: one *redis.PubSub, used for one connection. go-redis could restore a
// connection. But it would then subscribe to all channels with one command, which fails as a
// whole if one channel is forbidden. So the first error ends the link, and the Hub makes a new
// link.
type link struct {
	ctx     context.Context // ends when the link is not needed any more
	pubsub  *redis.PubSub
	session *adapter.Session
	down    chan error // closed when the goroutine of read ends
	cancel  func()     // stops the attempts of go-redis to restore the connection
	pinged  bool       // the last Check has sent a PING; used only by the goroutine that calls Check

	mu       sync.Mutex
	sent     []request // commands without a reply, in order
	received bool      // something was received since the last Check
}

// request is a command without a reply. An error reply does not name its command, so the order
// of the commands decides to which command the reply belongs.
type request struct{ kind, channel string }

const ping = "ping"

// dialLimit is the maximal time to make a link. go-redis waits up to ReadTimeout for a server
// that accepts connections and then hangs.
const dialLimit = 2 * time.Second

// dial returns an adapter.Dial that makes links with the parameter `subscribe`, which is a
// method of a client.
func dial(subscribe func(context.Context, ...string) *redis.PubSub) adapter.Dial {
	return func(ctx context.Context, s *adapter.Session) (adapter.Link, error) {
		ctx, cancel := context.WithCancel(ctx)
		l := &link{ctx: ctx, cancel: cancel, session: s, down: make(chan error)}
		l.pubsub = subscribe(ctx) // without a channel go-redis makes no connection yet
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
		go func() { _ = l.pubsub.Close() }() // waits until go-redis has made the connection, or has failed to make it
	case err != nil:
		err = failure(l.ctx, err) // must come before l.cancel, because after l.cancel this would be the error of a context
		l.cancel()
		_ = l.pubsub.Close()
	}
	return err
}

// Subscribe sends one SUBSCRIBE for each channel, so that each channel has its own reply.
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

// send writes a command. If that fails, the link ends: go-redis may have made another
// connection meanwhile, and would not report the missed messages.
func (l *link) send(r request, write func(context.Context, ...string) error) {
	l.expect(r)
	if write(l.ctx, r.channel) != nil {
		_ = l.pubsub.Close() // Close ends the goroutine of read
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

// Check sends a PING if nothing was received since the last Check. If the last Check has
// already sent a PING, it returns errSilent.
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

// Close closes the connection and waits for the goroutine that reads.
func (l *link) Close() {
	l.cancel()
	_ = l.pubsub.Close()
	<-l.down
}

// read passes the replies and messages of the server to the session, until the connection
// breaks.
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

// answered records that something was received, and removes r from the commands without a
// reply.
func (l *link) answered(r request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received = true
	if i := slices.Index(l.sent, r); i >= 0 {
		l.sent = slices.Delete(l.sent, i, i+1)
	}
}

// refusal passes an error reply to the session. The reply belongs to the oldest command without
// a reply.
func (l *link) refusal(reply *redishold.ReplyError) {
	l.mu.Lock()
	l.received = true
	var r request
	if len(l.sent) > 0 {
		r = l.sent[0]
		l.sent = l.sent[1:]
	}
	l.mu.Unlock()
	switch r.kind {
	case "subscribe", "ssubscribe":
		l.session.Denied(r.channel, reply)
	case "unsubscribe", "sunsubscribe":
		l.session.Confirmed(r.kind, r.channel)
	}
}
