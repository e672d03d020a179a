package adapter

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/unsent"
	"github.com/holdfast-go/holdfast/redishold"
)

// Link is one connection for subscriptions. The Hub calls its methods from one goroutine.
// They may block until the link breaks.
type Link interface {
	// Subscribe subscribes to more channels. It reports the replies of the server to the
	// Session.
	Subscribe(names []string)

	// Unsubscribe ends the subscriptions to channels.
	Unsubscribe(names []string)

	// Check returns an error if the link is dead. The Hub calls Check at the interval that was
	// passed to NewHub.
	Check() error

	// Down returns a channel that gets a value or is closed when the link has broken.
	Down() <-chan error

	// Close ends the link. The Session ignores what the link reports later.
	Close()
}

// Hub delivers the messages of channels to any number of listeners, over one connection for
// each node. It opens the connection for the first listener on a channel of that node, restores
// it while there are listeners, and closes it soon after the last listener has left.
type Hub struct {
	router  Router
	sharded bool          // the channels are sharded ones
	check   time.Duration // interval of Link.Check; 0 for never
	idle    time.Duration // how long a link without channels stays open, see KeepLinks
	review  time.Duration // interval of Router.Review; 0 for never

	mu        sync.Mutex
	topics    map[string]*topic
	nodeConns map[string]*nodeConn // by the node's address
	closed    bool
}

// topic is a channel with listeners. The slice `listeners` is replaced and never changed in
// place. So a goroutine that has copied the field under the lock may read the slice without the
// lock.
type topic struct {
	listeners []*listener
	node      *nodeConn // the node connection to which the topic is routed
}

// confirmed returns the listeners whose subscription the server has confirmed in this session.
// Usually these are all listeners. The Hub's lock is held.
func (t *topic) confirmed() []*listener {
	waiting := func(l *listener) bool { return !l.confirmed }
	if !slices.ContainsFunc(t.listeners, waiting) {
		return t.listeners
	}
	return slices.DeleteFunc(slices.Clone(t.listeners), waiting)
}

// unconfirm records that the server must confirm all listeners again. The Hub's lock is
// held.
func (t *topic) unconfirm() {
	for _, l := range t.listeners {
		l.confirmed = false
	}
}

type listener struct {
	hub    *Hub
	name   string
	notify func(redishold.Notice)

	first     chan error // gets the outcome of Subscribe
	settled   bool       // a value was sent on the channel `first`; guarded by Hub.mu
	confirmed bool       // the server has confirmed the subscription in the current session; guarded by Hub.mu

	mu     sync.Mutex // held while the function `notify` runs; that function does not block
	closed bool
}

var errClosed = errors.New("connection was closed")

// NewHub returns a Hub with links to the nodes of router. The Hub calls Link.Check at the
// interval `check`, or never if `check` is 0.
func NewHub(check time.Duration, router Router) *Hub {
	h := &Hub{router: router, check: check, topics: make(map[string]*topic), nodeConns: make(map[string]*nodeConn)}
	if _, fixed := router.(Dial); !fixed {
		h.review = reviewEvery
	}
	return h
}

// Subscribe adds a listener to a channel and returns when the server has confirmed the
// subscription. It fails at once if no connection can be made.
func (h *Hub) Subscribe(ctx context.Context, name string, notify func(redishold.Notice)) (redishold.Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, unsent.Error(err)
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

// Listeners returns how many listeners of a channel the server has confirmed in the current
// session.
func (h *Hub) Listeners(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[name]; t != nil {
		return len(t.confirmed())
	}
	return 0
}

// Close ends all subscriptions and waits until the connections are closed.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for name, t := range h.topics {
		for _, l := range t.listeners {
			l.settle(unsent.Error(errClosed))
		}
		h.forget(name, t)
	}
	nodeConns := slices.Collect(maps.Values(h.nodeConns))
	for _, ln := range nodeConns {
		h.wakeUp(ln)
	}
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

// settle makes the listener's Subscribe return err. Only the first call of settle has an
// effect. The Hub's lock is held.
func (l *listener) settle(err error) {
	if !l.settled {
		l.settled = true
		l.first <- err
	}
}

// add adds a listener to its channel. A channel that already has listeners stays at its
// node.
func (h *Hub) add(l *listener, node Node) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return unsent.Error(errClosed)
	}
	t := h.topics[l.name]
	if t == nil {
		t = &topic{}
		h.topics[l.name] = t
		h.attach(l.name, t, node)
	}
	t.listeners = append(t.listeners[:len(t.listeners):len(t.listeners)], l)
	// Even if the channel is already subscribed, the Hub subscribes again. The reply of the
	// server proves that the new listener misses no message from then on.
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

// forget removes a topic. The lock is held.
func (h *Hub) forget(name string, t *topic) {
	delete(h.topics, name)
	h.detach(name, t)
}

// drop removes those listeners of a topic that still wait for their first confirmation, and
// their calls of Subscribe return err. drop reports whether other listeners are left. The lock
// is held.
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
