package peer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// topics are the channels that one client listens on, over one connection. A
// message lets one of those go on that wait at its channel.
type topics struct {
	link *redis.PubSub
	done chan struct{} // closed when the goroutine is gone

	mu sync.Mutex
	m  map[string]*topic
}

type topic struct {
	ready   chan struct{} // closed when the server has confirmed
	permits chan struct{}
	users   int
}

func newTopics(client *redis.Client) *topics {
	t := &topics{link: client.Subscribe(context.Background()), done: make(chan struct{}), m: map[string]*topic{}}
	go t.listen()
	return t
}

// listen gives out what arrives until the connection is closed.
func (t *topics) listen() {
	defer close(t.done)
	for {
		got, err := t.link.Receive(context.Background())
		switch got := got.(type) {
		case *redis.Subscription:
			if got.Kind == "subscribe" {
				t.confirm(got.Channel)
			}
		case *redis.Message:
			t.permit(got.Channel)
		}
		if errors.Is(err, redis.ErrClosed) {
			return
		}
	}
}

func (t *topics) confirm(channel string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.m[channel]; e != nil {
		select {
		case <-e.ready:
		default:
			close(e.ready)
		}
	}
}

func (t *topics) permit(channel string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.m[channel]; e != nil {
		select {
		case e.permits <- struct{}{}:
		default:
		}
	}
}

// join returns when the channel is being listened on.
func (t *topics) join(ctx context.Context, channel string) (*topic, error) {
	t.mu.Lock()
	e := t.m[channel]
	if e == nil {
		e = &topic{ready: make(chan struct{}), permits: make(chan struct{}, 1024)}
		t.m[channel] = e
	}
	e.users++
	first := e.users == 1
	t.mu.Unlock()
	if first {
		if err := t.link.Subscribe(ctx, channel); err != nil {
			t.leave(channel)
			return nil, err
		}
	}
	select {
	case <-e.ready:
		return e, nil
	case <-ctx.Done():
		t.leave(channel)
		return nil, ctx.Err()
	}
}

// leave ends the subscription with its last user.
func (t *topics) leave(channel string) {
	t.mu.Lock()
	e := t.m[channel]
	e.users--
	last := e.users == 0
	if last {
		delete(t.m, channel)
	}
	t.mu.Unlock()
	if last {
		_ = t.link.Unsubscribe(context.Background(), channel)
	}
}

// sleep returns nil after a message or after d.
func (e *topic) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-e.permits:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (t *topics) close() {
	_ = t.link.Close()
	<-t.done
}
