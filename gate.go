package holdfast

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// gates keeps the goroutines of one Locker that want the same name in a queue,
// first come, first served. Only the head of a queue talks to the store, so a
// release wakes one goroutine per process, not all.
//
// A gate is derived state: it says who of this process is next, never who holds
// the lock. When a hold ends, for whatever reason, the gate lets the next one
// ask the store. Claims that are granted beside others queue only while they
// wait, and pass the turn on as soon as they are granted.
type gates struct {
	mu sync.Mutex
	m  map[gateKey]*gate
}

// gateKey names a queue: the kinds of one name have queues of their own.
type gateKey struct {
	name string
	kind kind
}

// gate is one queue. It exists while somebody of this process asks for the name,
// or keeps others out of it.
type gate struct {
	all         *gates
	key         gateKey
	first, last *ticket
	holder      *hold // nil while the head is asking

	// What the head last heard of a holder elsewhere, for those who do not wait.
	busy driver.Outcome

	// spare is the previous head's Waiter. It stays open while others are queued,
	// so that a subscription lives on from head to head.
	spare driver.Waiter
}

// ticket is a place in the queue.
type ticket struct {
	gate       *gate
	ready      chan struct{} // closed when the place is the head's; nil if it always was
	prev, next *ticket
}

func (g *gates) init() { g.m = make(map[gateKey]*gate) }

// busy says that somebody is in the queue.
func (g *gates) busy(key gateKey) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.m[key] != nil
}

// enter takes a place in a queue.
func (g *gates) enter(key gateKey) *ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.m[key]
	if q == nil {
		q = &gate{all: g, key: key}
		g.m[key] = q
		return &ticket{gate: q}
	}
	t := &ticket{gate: q, ready: make(chan struct{}), prev: q.last}
	if q.last != nil {
		q.last.next = t
	} else {
		q.first = t
	}
	q.last = t
	return t
}

// wait returns nil when the ticket is at the head. If ctx ends first, it gives
// up the place and returns false.
func (t *ticket) wait(ctx context.Context) bool {
	if t.ready == nil {
		return true
	}
	select {
	case <-t.ready:
		return true
	default:
	}
	select {
	case <-t.ready:
		return true
	case <-ctx.Done():
		t.leave()
		return false
	}
}

// atHead says whether it is the ticket's turn.
func (t *ticket) atHead() bool {
	if t.ready == nil {
		return true
	}
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

// leave gives the place up, from the head or from within the queue.
func (t *ticket) leave() {
	q := t.gate
	q.all.mu.Lock()
	if t.atHead() {
		idle := q.advance()
		q.all.mu.Unlock()
		closeWaiter(idle)
		return
	}
	q.remove(t)
	var idle driver.Waiter
	if q.first == nil && q.holder != nil { // nobody is left to whom it could pass
		idle, q.spare = q.spare, nil
	}
	q.all.mu.Unlock()
	closeWaiter(idle)
}

// hand turns the head's place into that of a holder, and leaves its Waiter, if
// it had one, to the next head.
func (t *ticket) hand(h *hold, w driver.Waiter) {
	q := t.gate
	q.all.mu.Lock()
	q.holder = h
	q.busy = driver.Outcome{}
	if w != nil && q.first != nil && q.spare == nil {
		q.spare, w = w, nil
	}
	q.all.mu.Unlock()
	closeWaiter(w)
}

// vacate lets the next one in when h is over. It is called once for each hold.
func (q *gate) vacate() {
	q.all.mu.Lock()
	q.holder = nil
	idle := q.advance()
	q.all.mu.Unlock()
	closeWaiter(idle)
}

// takeSpare hands the previous head's Waiter to its successor, to be closed once
// the successor has one of its own.
func (q *gate) takeSpare() driver.Waiter {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	w := q.spare
	q.spare = nil
	return w
}

// heard records what the head learnt of a holder elsewhere.
func (q *gate) heard(out driver.Outcome) {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	q.busy = out
}

// occupant says who is in the way of a ticket that is not at the head.
func (q *gate) occupant() (*hold, driver.Outcome) {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	return q.holder, q.busy
}

// advance makes the next ticket the head, or drops the gate when there is none;
// it then returns the Waiter to close. The mutex is held.
func (q *gate) advance() driver.Waiter {
	t := q.first
	if t == nil {
		delete(q.all.m, q.key)
		w := q.spare
		q.spare = nil
		return w
	}
	q.remove(t)
	close(t.ready)
	return nil
}

// remove takes a ticket out of the queue. The mutex is held.
func (q *gate) remove(t *ticket) {
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		q.first = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	} else {
		q.last = t.prev
	}
	t.prev, t.next = nil, nil
}

func closeWaiter(w driver.Waiter) {
	if w != nil {
		w.Close()
	}
}
