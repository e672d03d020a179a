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
// the lock. When a lease ends, for whatever reason, the gate lets the next one
// ask the store. Claims that are granted beside others queue only while they
// wait; see admit.go.
//
// Lock order: gates.mu before lease.mu.
type gates struct {
	mu sync.Mutex
	m  map[gateKey]*gate

	// released has the names that nobody of this process was waiting for when they were
	// released, and for which clients elsewhere go first.
	released map[gateKey]start

	// What is not in use, to be used again: most queues last for one lock.
	gates   []*gate
	tickets []*ticket
}

// unusedMost bounds what is kept for use again.
const unusedMost = 1024

// gateKey names a queue: the kinds of one name have queues of their own.
type gateKey struct {
	name string
	kind kind
}

// gate is one queue. It is in use while somebody of this process asks for the
// name, or keeps others out of it.
type gate struct {
	all *gates
	queue
}

// queue is what there is of a gate while it is in use. gates.mu guards it.
type queue struct {
	key         gateKey
	first, last *ticket
	waiters     int     // how many stand from first to last
	holder      *lease  // nil while the head is asking
	inside      int     // how many have their turn: one head, or more where claims are granted beside others
	sleeper     *ticket // which of those waits for the store, for all; nil if none does
	count       uint64  // of those who entered
	turns       int     // how often the next lease may be handed on

	// others is how many clients elsewhere heard of the last release of the name
	// from here, and may be waiting for it; unknown if that is not known.
	others int

	// chance is when clients elsewhere get one, if it is not known whether they wait.
	// It comes ever later as long as they make no use of it.
	chance instant
	vain   int // how many were of no use, one after the other

	// asking is since when the head is known to wait, 0 if nobody has looked. It is
	// for reports, as ticket.seen is.
	asking instant

	// What the head last heard of a holder elsewhere, for those who do not wait;
	// nil if nothing.
	busy *driver.Outcome

	// spare is the previous head's Waiter. It stays open while others are queued,
	// so that a subscription lives on from head to head.
	spare driver.Waiter
}

// ticket is a place in the queue. gates.mu guards it, but for what is read by its
// owner after its turn has come.
type ticket struct {
	gate       *gate
	ready      chan struct{} // receives once when it is the ticket's turn
	prev, next *ticket
	number     uint64  // its place in the order of arrival
	turn       bool    // it is the head's, or was given a hold
	slept      bool    // it has waited for the store since its turn came
	takes      bool    // may be given a hold instead of the turn to ask
	seen       instant // since when it is known to wait; 0 if nobody has looked

	hold  *hold // what it was given
	turns int   // how often its lease may be handed on: only if it had to wait, as others may then
	start start // of clients elsewhere
}

func (g *gates) init() {
	g.m, g.released = make(map[gateKey]*gate), make(map[gateKey]start)
}

// busy says that somebody is in the queue.
func (g *gates) busy(key gateKey) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.m[key] != nil
}

// enter takes a place in a queue, and says whether it is the head's.
func (g *gates) enter(key gateKey, takes bool) (t *ticket, head bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t = g.newTicket()
	t.takes = takes
	q := g.m[key]
	if q == nil {
		q = g.newGate(key)
		t.gate, t.turn, t.start = q, true, g.released[key]
		delete(g.released, key)
		return t, true
	}
	q.count++
	t.number = q.count
	t.gate, t.prev = q, q.last
	if q.last != nil {
		q.last.next = t
	} else {
		q.first = t
	}
	q.last = t
	q.waiters++
	return t, false
}

// enterFree is enter for one who does not wait. Where others are it gets no place,
// so that nothing is given to it meanwhile, but learns who is in the way.
func (g *gates) enterFree(key gateKey, takes bool) (t *ticket, holder *lease, busy driver.Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q := g.m[key]; q != nil {
		return nil, q.holder, q.said()
	}
	t = g.newTicket()
	t.gate, t.turn, t.takes = g.newGate(key), true, takes
	return t, nil, driver.Outcome{}
}

// wait returns true when it is the ticket's turn, and false if ctx ends first;
// then the ticket has to leave.
func (t *ticket) wait(ctx context.Context) bool {
	select {
	case <-t.ready:
		return true
	default:
	}
	select {
	case <-t.ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// leave gives the place up, from the head or from within the queue. What it was
// given meanwhile goes on to the next one.
func (t *ticket) leave() {
	q := t.gate
	q.all.mu.Lock()
	var idle driver.Waiter
	switch {
	case t.hold != nil:
		given := t.hold
		q.all.mu.Unlock()
		<-t.ready // not before the former holder's contexts are over
		t.discard()
		given.decline()
		return
	case t.turn:
		idle = q.depart(t)
	default:
		q.remove(t)
		if q.first == nil && q.holder != nil { // nobody is left to whom it could pass
			idle, q.spare = q.spare, nil
		}
	}
	q.all.keep(t)
	q.all.mu.Unlock()
	closeWaiter(idle)
}

// settle turns the head's place into that of a holder, and leaves its Waiter, if
// it had one, to the next head. waited says that clients elsewhere came first.
func (t *ticket) settle(l *lease, w driver.Waiter, waited bool) {
	q := t.gate
	q.all.mu.Lock()
	q.holder = l
	q.plan(l, waited, t.start.until != 0)
	q.busy = nil
	if w != nil && q.first != nil && q.spare == nil {
		q.spare, w = w, nil
	}
	q.all.keep(t)
	q.all.mu.Unlock()
	closeWaiter(w)
}

// pass gives l, which h holds, to the first in the queue, if it takes it. It
// returns false, and has changed nothing, if not.
func (q *gate) pass(l *lease, h *hold) bool {
	q.all.mu.Lock()
	t := q.first
	if q.holder != l || t == nil || !t.takes {
		q.all.mu.Unlock()
		return false
	}
	next, contexts := l.replace(h)
	if next == nil {
		q.all.mu.Unlock()
		return false
	}
	q.remove(t)
	t.hold, t.turn = next, true
	q.all.mu.Unlock()
	cancelAll(contexts, ErrUnlocked) // before the next one begins; not under a lock
	t.ready <- struct{}{}
	return true
}

// waiting says whether somebody of this process waits behind the holder, and how
// many clients elsewhere do.
func (q *gate) waiting() (here bool, others int) {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	return q.first != nil, q.others
}

// vacate lets the next one in when l is over, which is called once for each
// lease, and which may be handed on so often. Clients elsewhere go first until then.
func (q *gate) vacate(then instant, turns int) {
	q.all.mu.Lock()
	q.holder, q.turns = nil, turns
	if q.first == nil && then != 0 {
		q.all.remember(q.key, start{then, q.others > 0})
	}
	idle := q.advance(then)
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
	q.busy = &out
}

// occupant says who is in the way of a ticket that is not at the head.
func (q *gate) occupant() (*lease, driver.Outcome) {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	return q.holder, q.said()
}

// said is what busy says. The mutex is held.
func (q *gate) said() driver.Outcome {
	if q.busy == nil {
		return driver.Outcome{}
	}
	return *q.busy
}

// advance makes the next ticket the head, or drops the gate when there is none;
// it then returns the Waiter to close. The mutex is held.
func (q *gate) advance(then instant) driver.Waiter {
	t := q.first
	if t == nil {
		delete(q.all.m, q.key)
		w := q.spare
		q.all.drop(q)
		return w
	}
	q.asking = t.seen
	t.turns, t.start = q.turns, start{then, q.others > 0}
	q.inside = 0
	q.letIn(t)
	return nil
}

// letIn gives a ticket of the queue its turn. The mutex is held.
func (q *gate) letIn(t *ticket) {
	q.remove(t)
	q.inside++
	t.turn, t.slept = true, false
	t.ready <- struct{}{} // has room
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
	q.waiters--
}

// newGate returns a gate under its key. The mutex is held.
func (g *gates) newGate(key gateKey) *gate {
	var q *gate
	if n := len(g.gates); n > 0 {
		q, g.gates = g.gates[n-1], g.gates[:n-1]
	} else {
		q = &gate{all: g}
	}
	q.queue = queue{key: key, inside: 1, turns: handoffFirst, others: unknown}
	g.m[key] = q
	return q
}

// drop keeps a gate that nobody stands at. A lease that was lost may still refer
// to it. The mutex is held.
func (g *gates) drop(q *gate) {
	q.queue = queue{}
	if len(g.gates) < unusedMost {
		g.gates = append(g.gates, q)
	}
}

// newTicket returns a ticket that stands nowhere. The mutex is held.
func (g *gates) newTicket() *ticket {
	n := len(g.tickets)
	if n == 0 {
		return &ticket{ready: make(chan struct{}, 1)}
	}
	t := g.tickets[n-1]
	g.tickets = g.tickets[:n-1]
	return t
}

// discard is keep for a ticket whose owner has received what it waited for.
func (t *ticket) discard() {
	all := t.gate.all
	all.mu.Lock()
	defer all.mu.Unlock()
	all.keep(t)
}

// keep keeps a ticket to which nobody refers any more. The mutex is held.
func (g *gates) keep(t *ticket) {
	select {
	case <-t.ready: // its turn came, and was not waited for any more
	default:
	}
	*t = ticket{ready: t.ready}
	if len(g.tickets) < unusedMost {
		g.tickets = append(g.tickets, t)
	}
}

func closeWaiter(w driver.Waiter) {
	if w != nil {
		w.Close()
	}
}
