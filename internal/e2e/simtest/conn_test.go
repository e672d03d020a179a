package simtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/sim"
	"github.com/holdfast-go/holdfast/redishold"
)

// conn is a client's way to a server: calls and messages go through the network of the
// simulation, and not through connections. Without a link nothing goes wrong.
type conn struct {
	server *server
	link   *sim.Link
}

// send executes something at the server.
func send[T any](ctx context.Context, c *conn, execute func() T) (T, error) {
	at := func() (T, error) {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		return execute(), nil
	}
	if c.link == nil {
		return at()
	}
	return sim.Call(ctx, c.link, at)
}

func (c *conn) Do(ctx context.Context, calls ...redishold.Call) []redishold.Result {
	calls = slices.Clone(calls)
	for i := range calls { // the caller may use them again before the request arrives
		calls[i].Keys, calls[i].Args = slices.Clone(calls[i].Keys), slices.Clone(calls[i].Args)
	}
	results := c.pipeline(ctx, calls)
	var forgotten []int
	var again []redishold.Call
	for i, r := range results {
		if r.Err == errNoScript {
			calls[i].Source = true
			forgotten, again = append(forgotten, i), append(again, calls[i])
		}
	}
	if again != nil {
		for i, r := range c.pipeline(ctx, again) {
			results[forgotten[i]] = r
		}
	}
	return results
}

func (c *conn) pipeline(ctx context.Context, calls []redishold.Call) []redishold.Result {
	results, err := send(ctx, c, func() []redishold.Result {
		results := make([]redishold.Result, len(calls))
		for i, one := range calls {
			results[i] = c.server.eval(one)
		}
		return results
	})
	if err != nil {
		results = slices.Repeat([]redishold.Result{{Err: err}}, len(calls))
	}
	return results
}

// Begin sends a call at once.
func (c *conn) Begin(ctx context.Context, call *redishold.Call) (finish func() redishold.Result) {
	got, one := make(chan redishold.Result, 1), *call
	one.Keys, one.Args = slices.Clone(call.Keys), slices.Clone(call.Args)
	go func() { got <- c.Do(ctx, one)[0] }()
	return func() redishold.Result { return <-got }
}

func (c *conn) Server(ctx context.Context) (redishold.ServerInfo, error) {
	return send(ctx, c, func() redishold.ServerInfo {
		return redishold.ServerInfo{Version: "7.0.15", RunID: fmt.Sprint(c.server.starts), Role: "master", EvictionPolicy: "noeviction"}
	})
}

// subscription is one channel of one client. The mutex of the server guards it, but for
// what notifies.
type subscription struct {
	conn    *conn
	channel string
	ctx     context.Context
	cancel  context.CancelFunc
	pending []*message // in the order in which the server sent them

	mu     sync.Mutex // one notice after the other
	notify func(redishold.Notice)
}

type message struct {
	payload string
	arrived bool
}

func (c *conn) Subscribe(ctx context.Context, ch redishold.Channel, notify func(redishold.Notice)) (redishold.Subscription, error) {
	s := &subscription{conn: c, channel: ch.Name, notify: notify}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.subscribe(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// subscribe waits for the server's confirmation.
func (s *subscription) subscribe(ctx context.Context) error {
	_, err := send(ctx, s.conn, func() struct{} {
		if s.ctx.Err() == nil {
			s.conn.server.subscribe(s)
		}
		return struct{}{}
	})
	if err == nil {
		s.pass(redishold.Notice{Subscribed: true})
	}
	return err
}

// pass passes a notice on.
func (s *subscription) pass(n redishold.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() == nil {
		s.notify(n)
	}
}

// send sends a message. The mutex of the server is held.
func (s *subscription) send(payload string) {
	m := &message{payload: payload}
	s.pending = append(s.pending, m)
	s.conn.link.Deliver(func(err error) { s.arrive(m, err) })
}

// arrive passes messages on in their order. Where one was lost the connection is broken,
// with all that was sent on it and has not arrived.
func (s *subscription) arrive(m *message, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn.server.mu.Lock()
	m.arrived = true
	var ready []*message
	broken := err != nil && slices.Contains(s.pending, m)
	if broken {
		s.conn.server.drop(s)
	}
	for len(s.pending) > 0 && s.pending[0].arrived {
		ready, s.pending = append(ready, s.pending[0]), s.pending[1:]
	}
	s.conn.server.mu.Unlock()
	if broken {
		go s.restore()
	}
	for _, m := range ready {
		if s.ctx.Err() == nil {
			s.notify(redishold.Notice{Payload: m.payload})
		}
	}
}

// restore subscribes again until the server confirms it.
func (s *subscription) restore() {
	for s.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		err := s.subscribe(ctx)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-s.ctx.Done():
		}
	}
}

func (s *subscription) Close() {
	s.cancel()
	s.mu.Lock() // no notice after it
	defer s.mu.Unlock()
	s.conn.server.mu.Lock()
	defer s.conn.server.mu.Unlock()
	s.conn.server.drop(s)
}
