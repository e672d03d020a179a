package rueidisconn

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

type link struct {
	ctx     context.Context // ends when nobody needs the link any more
	client  rueidis.DedicatedClient
	down    <-chan error
	session *adapter.Session
}

// dial returns how a link to a server is made. The connection comes from its
// pool; making it is bounded by the client's dial timeout. That it could not be
// made shows only when it is used.
func dial(server rueidis.Client) adapter.Dial {
	return func(ctx context.Context, s *adapter.Session) (adapter.Link, error) {
		client, _ := server.Dedicate() // released by Close
		l := &link{ctx: ctx, client: client, session: s}
		l.down = client.SetPubSubHooks(rueidis.PubSubHooks{
			OnMessage:      func(m rueidis.PubSubMessage) { s.Message(m.Channel, m.Message) },
			OnSubscription: func(a rueidis.PubSubSubscription) { s.Confirmed(a.Kind, a.Channel) },
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
		if l.session.Sharded() {
			commands = append(commands, l.client.B().Ssubscribe().Channel(name).Build())
		} else {
			commands = append(commands, l.client.B().Subscribe().Channel(name).Build())
		}
	}
	for i, answer := range l.client.DoMulti(l.ctx, commands...) {
		if answer.Error() != nil { // a confirmation has no value
			l.session.Denied(names[i], result(l.ctx, answer).Err)
		}
	}
}

func (l *link) Unsubscribe(names []string) {
	for _, name := range names {
		if l.session.Sharded() {
			l.client.Do(l.ctx, l.client.B().Sunsubscribe().Channel(name).Build())
		} else {
			l.client.Do(l.ctx, l.client.B().Unsubscribe().Channel(name).Build())
		}
	}
}

// Check has nothing to do: rueidis pings its connections, also idle ones.
func (l *link) Check() error { return nil }

func (l *link) Down() <-chan error { return l.down }

func (l *link) Close() { l.client.Close() }
