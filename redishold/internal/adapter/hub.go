package adapter

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// Link is one connection that carries subscriptions. The Hub calls its methods
// from one goroutine, which may block for as long as the link itself lives.
type Link interface {
	// Subscribe asks for more channels; the answers come through the Session.
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

// Hub fans subscriptions out to any number of listeners, over one connection per
// node. A connection is opened for the first listener on a channel of its node,
// restored while there are any, and closed after the last.
type Hub struct {
	router  Router
	sharded bool // the channels are
	check   time.Duration
	review  time.Duration // 0 for never

	mu        sync.Mutex
	topics    map[string]*topic
	nodeConns map[string]*nodeConn // by the node's address
	closed    bool
}

// topic is a channel with listeners. Listeners is never changed in place, so it
// may be read without the lock once taken.
type topic struct {
	listeners []*listener
	node      *nodeConn // where it is routed
}

// confirmed returns the listeners that the server has confirmed in this session:
// mostly all of them. The Hub's lock is held.
func (t *topic) confirmed() []*listener {
	waiting := func(l *listener) bool { return !l.confirmed }
	if !slices.ContainsFunc(t.listeners, waiting) {
		return t.listeners
	}
	return slices.DeleteFunc(slices.Clone(t.listeners), waiting)
}

// unconfirm has the server confirm the listeners again. The Hub's lock is held.
func (t *topic) unconfirm() {
	for _, l := range t.listeners {
		l.confirmed = false
	}
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

// NewHub returns a Hub whose links are made for the nodes of router and checked
// once per check, or not at all if check is 0.
func NewHub(check time.Duration, router Router) *Hub {
	h := &Hub{router: router, check: check, topics: make(map[string]*topic), nodeConns: make(map[string]*nodeConn)}
	if _, fixed := router.(Dial); !fixed {
		h.review = reviewEvery
	}
	return h
}

// Subscribe adds a listener to a channel and returns when the server has
// confirmed it. It fails at once if there is no connection to be had.
func (h *Hub) Subscribe(ctx context.Context, name string, notify func(redishold.Notice)) (redishold.Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, NotSent(err)
	}
	l := &listener{hub: h, name: name, notify: notify, first: make(chan error, 1)}
	node, err := h.router.Route(ctx, name)
	if err == nil {
		err = h.add(l, node)
	}
	if err != nil {
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

// Close ends all subscriptions and waits until the connections are closed.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for name, t := range h.topics {
		for _, l := range t.listeners {
			l.settle(NotSent(errClosed))
		}
		h.forget(name, t)
	}
	nodeConns := slices.Collect(maps.Values(h.nodeConns))
	h.mu.Unlock()
	for _, ln := range nodeConns {
		<-ln.stopped
	}
}

func (l *listener) Close() {
	l.hub.remove(l)
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
}

func (l *listener) deliver(n redishold.Notice) {
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

// add gives a channel a listener. One that has listeners stays where it is
// routed.
func (h *Hub) add(l *listener, node Node) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return NotSent(errClosed)
	}
	t := h.topics[l.name]
	if t == nil {
		t = &topic{}
		h.topics[l.name] = t
		h.place(l.name, t, node)
	}
	t.listeners = append(t.listeners[:len(t.listeners):len(t.listeners)], l)
	// A channel that is subscribed already is asked for again: the server's
	// answer is what shows the newcomer that it misses nothing from now on.
	h.ask(l.name, t)
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
		h.forget(l.name, t)
	}
}

// forget ends a topic. The lock is held.
func (h *Hub) forget(name string, t *topic) {
	delete(h.topics, name)
	h.displace(name, t)
}

// drop fails the listeners of a topic that still wait for their first
// confirmation, and reports whether others are left. The lock is held.
func (h *Hub) drop(name string, t *topic, err error) bool {
	var rest []*listener
	for _, l := range t.listeners {
		if l.settled {
			rest = append(rest, l)
		}
		l.settle(err)
	}
	t.listeners = rest
	if len(rest) == 0 {
		h.forget(name, t)
	}
	return len(rest) > 0
}
