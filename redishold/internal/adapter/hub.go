package adapter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// Link is one connection that carries subscriptions. The Hub calls its methods
// from one goroutine, which may block for as long as the link itself lives.
type Link interface {
	// Subscribe asks for more channels; the answers come through Events.
	Subscribe(names []string)

	// Unsubscribe gives channels up.
	Unsubscribe(names []string)

	// Check is called at regular intervals, if the Hub was made with one, and
	// returns an error if the link is dead.
	Check() error

	// Down receives a value or is closed when the link has broken.
	Down() <-chan error

	// Close ends the link. Events that still come are ignored.
	Close()
}

// Events is where a Link reports, from its reading goroutine, what the server
// says.
type Events struct {
	hub     *Hub
	session *session
}

// Hub fans one connection's subscriptions out to any number of listeners. The
// connection is opened for the first listener, restored while there are any,
// and closed after the last.
type Hub struct {
	dial  func(ctx context.Context, ev Events) (Link, error)
	check time.Duration

	mu      sync.Mutex
	topics  map[string]*topic
	changed map[string]struct{} // channels that the link has to be told of
	wake    chan struct{}       // something changed
	cancel  context.CancelFunc  // ends the current session; nil if there is none
	session *session            // the one whose events count; a closed link may still have some to tell
	stopped chan struct{}       // closed when the running goroutine has ended; nil if none runs
	closed  bool
}

// session is the life of one link.
type session struct {
	ctx   context.Context     // ends when nobody needs the link any more
	asked map[string]struct{} // what the link subscribes; only for the running goroutine
	heard bool                // the server confirmed something; under Hub.mu
}

// topic is a channel with listeners. Listeners is never changed in place, so it
// may be read without the lock once taken.
type topic struct{ listeners []*listener }

// confirmed returns the listeners that the server has confirmed in this session:
// mostly all of them. The Hub's lock is held.
func (t *topic) confirmed() []*listener {
	waiting := func(l *listener) bool { return !l.confirmed }
	if !slices.ContainsFunc(t.listeners, waiting) {
		return t.listeners
	}
	return slices.DeleteFunc(slices.Clone(t.listeners), waiting)
}

type listener struct {
	hub    *Hub
	name   string
	notify func(redishold.Notice)

	first     chan error // the outcome of the first subscription
	settled   bool       // first was sent; under Hub.mu
	confirmed bool       // by the current session; under Hub.mu

	mu     sync.Mutex // held while notify runs, which does not block
	closed bool
}

var errClosed = errors.New("connection was closed")

// NewHub returns a Hub whose links are made by dial and checked once per check,
// or not at all if check is 0.
func NewHub(check time.Duration, dial func(ctx context.Context, ev Events) (Link, error)) *Hub {
	return &Hub{
		dial:    dial,
		check:   check,
		topics:  make(map[string]*topic),
		changed: make(map[string]struct{}),
		wake:    make(chan struct{}, 1),
	}
}

// Subscribe adds a listener to a channel and returns when the server has
// confirmed it. It fails at once if there is no connection to be had.
func (h *Hub) Subscribe(ctx context.Context, name string, notify func(redishold.Notice)) (redishold.Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, NotSent(err)
	}
	l := &listener{hub: h, name: name, notify: notify, first: make(chan error, 1)}
	if err := h.add(l); err != nil {
		return nil, err
	}
	select {
	case err := <-l.first:
		if err != nil {
			return nil, err
		}
		return l, nil
	case <-ctx.Done():
		l.Close()
		return nil, ctx.Err()
	}
}

// Close ends all subscriptions and waits until the connection is closed.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for name, t := range h.topics {
		for _, l := range t.listeners {
			l.settle(NotSent(errClosed))
		}
		delete(h.topics, name)
	}
	h.stir()
	stopped := h.stopped
	h.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
}

// Close stops listening.
func (l *listener) Close() {
	l.hub.remove(l)
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
}

func (l *listener) tell(n redishold.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.notify(n)
	}
}

// settle answers the listener's Subscribe. The Hub's lock is held.
func (l *listener) settle(err error) {
	if !l.settled {
		l.settled = true
		l.first <- err
	}
}

func (h *Hub) add(l *listener) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return NotSent(errClosed)
	}
	t := h.topics[l.name]
	if t == nil {
		t = &topic{}
		h.topics[l.name] = t
	}
	t.listeners = append(t.listeners[:len(t.listeners):len(t.listeners)], l)
	// A channel that is subscribed already is asked for again: the server's
	// answer is what tells the newcomer that it misses nothing from now on.
	h.changed[l.name] = struct{}{}
	if h.stopped == nil {
		h.stopped = make(chan struct{})
		go h.run(h.stopped)
	}
	h.stir()
	return nil
}

func (h *Hub) remove(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[l.name]
	if t == nil {
		return
	}
	t.listeners = slices.DeleteFunc(slices.Clone(t.listeners), func(other *listener) bool { return other == l })
	if len(t.listeners) == 0 {
		delete(h.topics, l.name)
		h.changed[l.name] = struct{}{}
		h.stir()
	}
}

// stir wakes the running goroutine, and ends its session if nobody listens any
// more. The lock is held.
func (h *Hub) stir() {
	if len(h.topics) == 0 && h.cancel != nil {
		h.cancel()
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// topic returns a channel's topic, or nil if nobody listens or the session is
// over: who comes after its last listener must not get its answers. The Hub's
// lock is held.
func (e Events) topic(name string) *topic {
	if e.hub.session != e.session || e.session.ctx.Err() != nil {
		return nil
	}
	return e.hub.topics[name]
}

// Subscribed says that the server confirmed a channel.
func (e Events) Subscribed(name string) {
	h := e.hub
	h.mu.Lock()
	e.session.heard = true
	var fresh []*listener
	if t := e.topic(name); t != nil {
		for _, l := range t.listeners {
			if !l.confirmed {
				l.confirmed = true
				l.settle(nil)
				fresh = append(fresh, l)
			}
		}
	}
	h.mu.Unlock()
	for _, l := range fresh {
		l.tell(redishold.Notice{Subscribed: true})
	}
}

// Unsubscribed says that the server ended a channel's subscription. A listener
// that came meanwhile will see a second confirmation.
func (e Events) Unsubscribed(name string) {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	if t := e.topic(name); t != nil {
		for _, l := range t.listeners {
			l.confirmed = false
		}
	}
}

// Denied says that the server refused a channel. Listeners who were never
// confirmed get err; the others stay and are tried with the next link.
func (e Events) Denied(name string, err error) {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	if t := e.topic(name); t != nil {
		e.hub.drop(name, t, err)
	}
}

// Message passes a message on to the listeners who have been confirmed.
func (e Events) Message(name, payload string) {
	e.hub.mu.Lock()
	var listeners []*listener
	if t := e.topic(name); t != nil {
		listeners = t.confirmed()
	}
	e.hub.mu.Unlock()
	for _, l := range listeners {
		l.tell(redishold.Notice{Payload: payload})
	}
}

// drop fails the listeners of a topic that still wait for their first
// confirmation. The lock is held.
func (h *Hub) drop(name string, t *topic, err error) {
	var rest []*listener
	for _, l := range t.listeners {
		if l.settled {
			rest = append(rest, l)
		}
		l.settle(err)
	}
	t.listeners = rest
	if len(rest) == 0 {
		delete(h.topics, name)
		h.changed[name] = struct{}{}
		h.stir()
	}
}
