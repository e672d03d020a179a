package queue

// Pass passes v on to the first waiter, if v is held and the first waiter accepts values. The
// function `next` returns the value for the waiter. That value is then held in place of v; it
// must not be the zero T. The function `next` returns false if v must not be passed on. After
// `next`, Pass calls the function `before`, without the mutex, and then lets the waiter go on.
// If v was not passed on, Pass returns false and has changed nothing.
func (q *Queue[K, T, S]) Pass(v T, next func() (T, bool), before func()) (passed bool) {
	if !q.Waits() { // usually no one waits; Next will make a waiter that comes now the head
		return false
	}
	q.all.mu.Lock()
	p, given := q.sentinel.next, v
	if q.holds(v) && p.accepts { // the sentinel accepts nothing
		given, passed = next()
	}
	if passed {
		q.remove(p)
		p.given, q.held = given, given
	}
	q.all.mu.Unlock()
	if passed {
		defer func() { p.ready <- struct{}{} }() // never blocks: its capacity is 1
		before()
	}
	return passed
}

// Next records that v is not held any more, and makes the first waiter the head. Before that it
// calls the function `prepare` with the state and with the number of waiters. If there are no
// waiters, the queue ends. Next returns false, and changes nothing, if v is not held.
func (q *Queue[K, T, S]) Next(v T, prepare func(state *S, waiters int)) bool {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	if !q.holds(v) {
		return false
	}
	var none T
	q.held = none
	prepare(&q.state, q.size())
	q.advance()
	return true
}

// Waits reports whether goroutines wait. The answer may be outdated when it is returned.
func (q *Queue[K, T, S]) Waits() bool { return q.waiters.Load() > 0 }

// holds reports whether v is held. The mutex is held.
func (q *Queue[K, T, S]) holds(v T) bool {
	var none T
	return q.held == v && v != none
}

// end ends the place of a head, and calls `after` with the state and with the number of waiters
// and heads that are left. If no head is left and no value is held, the first waiter becomes
// the head. The mutex is held.
func (q *Queue[K, T, S]) end(p *Place[K, T, S], after func(state *S, n int)) {
	var none T
	if p.stays {
		q.staying--
	}
	q.heads--
	after(&q.state, q.size())
	if q.heads == 0 && q.held == none {
		q.advance()
	}
	q.all.recycle(p)
}

// advance makes the first waiter the head, or ends the queue if no one waits. The mutex is
// held.
func (q *Queue[K, T, S]) advance() {
	if !q.Waits() {
		q.all.drop(q)
		return
	}
	q.askingSince = q.sentinel.next.seenAt
	q.promote()
}

// promote makes the first waiter a head. The mutex is held.
func (q *Queue[K, T, S]) promote() {
	p := q.sentinel.next
	q.remove(p)
	q.heads++
	p.head = true
	p.ready <- struct{}{} // never blocks: its capacity is 1
}

// insert adds a place to the waiters, in the order of arrival. The mutex is held.
func (q *Queue[K, T, S]) insert(p *Place[K, T, S]) {
	next := q.sentinel
	if next.prev.number > p.number { // the goroutine was a head before, and belongs near the front
		for next = q.sentinel.next; next.number < p.number; {
			next = next.next
		}
	}
	p.prev, p.next = next.prev, next
	p.prev.next, p.next.prev = p, p
	q.waiters.Add(1)
}

// remove removes a waiter's place from the queue. The mutex is held.
func (q *Queue[K, T, S]) remove(p *Place[K, T, S]) {
	p.prev.next, p.next.prev = p.next, p.prev
	q.waiters.Add(-1)
}
