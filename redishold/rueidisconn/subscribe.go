package rueidisconn

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// Subscribe listens on ch over a connection that carries nothing but
// subscriptions: one for all classic channels but those that are to be at home, and
// one for all of those and one for all sharded channels of each node. It fails at once if that connection cannot be made. notify must
// not close the Subscription.
func (c *Conn) Subscribe(ctx context.Context, ch redishold.Channel, notify func(redishold.Notice)) (redishold.Subscription, error) {
	switch {
	case ch.Sharded:
		return c.sharded.Subscribe(ctx, ch.Name, notify)
	case ch.Home:
		return c.home.Subscribe(ctx, ch.Name, notify)
	default:
		return c.classic.Subscribe(ctx, ch.Name, notify)
	}
}

// link is a dedicated connection with subscriptions.
type link struct {
	ctx     context.Context // ends when nobody needs the link any more
	client  rueidis.DedicatedClient
	down    <-chan error
	events  adapter.Events
	sharded bool
}

// link returns how links are made.
func (c *Conn) link(ch redishold.Channel) adapter.Router {
	switch nodes := c.library.nodes; {
	case nodes == nil:
		return adapter.Fixed(dial(c.client, ch.Sharded))
	case ch.Sharded || ch.Home:
		return masters{nodes, ch.Sharded}
	default:
		return &anywhere{nodes: nodes}
	}
}

// dial returns how a link to a server is made. The connection comes from its
// pool; making it is bounded by the client's dial timeout. That it could not be
// made shows only when it is used.
func dial(server rueidis.Client, sharded bool) func(context.Context, adapter.Events) (adapter.Link, error) {
	return func(ctx context.Context, ev adapter.Events) (adapter.Link, error) {
		client, _ := server.Dedicate() // given back by Close
		l := &link{ctx: ctx, client: client, events: ev, sharded: sharded}
		l.down = client.SetPubSubHooks(rueidis.PubSubHooks{
			OnMessage:      func(m rueidis.PubSubMessage) { ev.Message(m.Channel, m.Message) },
			OnSubscription: l.confirmed,
		})
		return l, nil
	}
}

// Subscribe subscribes channels in one pipeline. It returns when the server has
// answered, or the link is broken or no longer needed. If there was no
// connection to begin with, the answer is what kept it from being made.
func (l *link) Subscribe(names []string) {
	commands := make(rueidis.Commands, 0, len(names))
	for _, name := range names {
		if l.sharded {
			commands = append(commands, l.client.B().Ssubscribe().Channel(name).Build())
		} else {
			commands = append(commands, l.client.B().Subscribe().Channel(name).Build())
		}
	}
	for i, answer := range l.client.DoMulti(l.ctx, commands...) {
		if answer.Error() != nil { // a confirmation has no value
			l.events.Denied(names[i], result(l.ctx, answer).Err)
		}
	}
}

// Unsubscribe gives channels up.
func (l *link) Unsubscribe(names []string) {
	for _, name := range names {
		if l.sharded {
			l.client.Do(l.ctx, l.client.B().Sunsubscribe().Channel(name).Build())
		} else {
			l.client.Do(l.ctx, l.client.B().Unsubscribe().Channel(name).Build())
		}
	}
}

// Check has nothing to do: rueidis pings its connections, also idle ones.
func (l *link) Check() error { return nil }

// Down tells of a broken connection.
func (l *link) Down() <-chan error { return l.down }

// Close closes the connection.
func (l *link) Close() { l.client.Close() }

func (l *link) confirmed(s rueidis.PubSubSubscription) {
	switch s.Kind {
	case "subscribe", "ssubscribe":
		l.events.Subscribed(s.Channel)
	case "unsubscribe", "sunsubscribe":
		l.events.Unsubscribed(s.Channel)
	}
}
