package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
)

// What follows is for claims that can be granted beside others: readers and permits.
// Their gate may let in several at once. One of those inside waits for the store, for
// all; who is granted lets others in, and who finds the name busy while somebody waits
// already goes back to its place in the queue.
//
// A reader lets in all who wait, since whatever admits one reader admits every other.
// How many permits are free nobody knows. So a permit that had to be waited for lets in
// one: permits that come back one by one cost two tries each, however many wait for
// them. One that was there at the first try lets in two, so that a queue that moves
// doubles with every trip.

// admit lets others in, since the claim of t, which is inside, was granted. w is the
// Waiter that it had, nil if none; it is left to the next one who waits.
func (t *ticket) admit(w driver.Waiter) {
	q := t.gate
	q.all.mu.Lock()
	q.busy, q.asking = nil, 0
	n := 1
	switch {
	case q.key.kind == reader:
		n = q.waiters
	case !t.slept:
		n = 2
	}
	for ; n > 0 && q.first != nil; n-- {
		q.letIn(q.first)
	}
	if w != nil && q.inside > 1 && q.spare == nil {
		q.spare, w = w, nil
	}
	idle := q.depart(t)
	q.all.keep(t)
	q.all.mu.Unlock()
	closeWaiter(w)
	closeWaiter(idle)
}

// depart takes a ticket from inside. If nobody is left there the next of the queue
// comes in, or the gate is dropped; it then returns the Waiter to close. The mutex is
// held.
func (q *gate) depart(t *ticket) driver.Waiter {
	if q.sleeper == t {
		q.sleeper = nil
	}
	if q.inside--; q.inside > 0 {
		return nil
	}
	return q.advance(0)
}

// stays says that the ticket, whose claim was not granted, is the one to wait for the
// store. If another is, it goes back to its place in the queue.
func (t *ticket) stays() bool {
	q := t.gate
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	if q.sleeper == nil || q.sleeper == t {
		q.sleeper, t.slept = t, true
		return true
	}
	q.inside--
	t.turn = false
	q.insert(t)
	return false
}

// insert puts a ticket before those that came later. The mutex is held.
func (q *gate) insert(t *ticket) {
	next := q.first
	for next != nil && next.number < t.number {
		next = next.next
	}
	t.next = next
	if next != nil {
		t.prev, next.prev = next.prev, t
	} else {
		t.prev, q.last = q.last, t
	}
	if t.prev != nil {
		t.prev.next = t
	} else {
		q.first = t
	}
	q.waiters++
}

// goBack waits in the queue once more, if somebody else waits for the store.
func (a *acquisition) goBack(ctx, waitCtx context.Context) (back bool, err error) {
	if a.place == nil || a.kind.exclusive() || a.place.stays() {
		return false, nil
	}
	place := a.place
	a.place = nil
	if !place.wait(waitCtx) {
		if a.failures == 0 { // else what the store's trouble was says more
			a.busyHere(place.gate.occupant())
		}
		place.leave()
		return true, a.outOfTime(ctx)
	}
	a.place = place
	return true, nil
}
