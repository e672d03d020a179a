package rueidisconn

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// link is an adapter.Link over a dedicated connection.
type link struct {
	ctx     context.Context // ends when the link is not needed any more
	client  rueidis.DedicatedClient
	down    <-chan error
	session *adapter.Session
}

// dial returns an adapter.Dial for links to a server. The connection comes from the pool of
// `server`, whose dial timeout limits the time to make the connection. If the connection cannot
// be made, only the first use of the link returns the error.
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

// Subscribe subscribes to channels in one pipeline. It returns when the server has replied,
// or when the link is broken or not needed any more. If the connection could not be made, the
// session gets that error for each channel.
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

// Unsubscribe first sends a PING. rueidis sends one after each UNSUBSCRIBE, and panics later if the
// server answers that one with an error such as MISCONF. In this case the link stays subscribed until
// it ends. rueidis expects that the user may have no right to PING.
func (l *link) Unsubscribe(names []string) {
	ping := l.client.B().Arbitrary("PING").Build() // unlike the built-in PING never repeated
	err := l.client.Do(l.ctx, ping).Error()
	safe := err == nil || isNoPerm(err)
	for _, name := range names {
		command := l.client.B().Unsubscribe().Channel(name).Build
		if l.session.Sharded() {
			command = l.client.B().Sunsubscribe().Channel(name).Build
		}
		if !safe || l.client.Do(l.ctx, command()).Error() != nil { // a confirmation has no value, and goes to the hook
			l.session.Unsubscribed(name)
		}
	}
}

// Check has nothing to do: rueidis pings its connections, also idle ones.
func (l *link) Check() error { return nil }

func (l *link) Down() <-chan error { return l.down }

func (l *link) Close() { l.client.Close() }
