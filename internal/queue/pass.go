package queue

// Pass passes v on to the first waiter, if v is held, there is one, and it accepts
// values. next returns what the waiter gets, which is held in v's place and is not the
// zero T, or false if v must not be passed on. Pass then calls before, without the
// mutex, and lets the waiter go on. It returns false, and has changed nothing, if v was
// not passed on.
func (q *Queue[K, T, S]) Pass(v T, next func() (T, bool), before func()) (passed bool) {
	if !q.Waits() { // mostly; a caller that comes now finds the queue as it was
		return false
	}
	q.all.mu.Lock()
	p, given := q.ends.next, v
	if q.holds(v) && p.accepts { // ends does not
		given, passed = next()
	}
	if passed {
		q.remove(p)
		p.given, q.held = given, given
	}
	q.all.mu.Unlock()
	if passed {
		defer func() { p.ready <- struct{}{} }() // has room
		before()
	}
	return passed
}

// Next makes the first waiter the head, if v is held, since nobody holds it any more.
// Before that it calls prepare with what heads leave to each other, and with how many
// wait; with the last of them the queue ends. It returns false if v was not held.
func (q *Queue[K, T, S]) Next(v T, prepare func(left *S, waiters int)) bool {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	if !q.holds(v) {
		return false
	}
	var none T
	q.held = none
	prepare(&q.left, q.size())
	q.advance()
	return true
}

// Waits says whether somebody waits. It is a hint: the answer may be old.
func (q *Queue[K, T, S]) Waits() bool { return q.waiters.Load() > 0 }

// holds says that v is held. The mutex is held.
func (q *Queue[K, T, S]) holds(v T) bool {
	var none T
	return q.held == v && v != none
}

// end ends the place of a head. The mutex is held.
func (q *Queue[K, T, S]) end(p *Place[K, T, S], after func(left *S, n int)) {
	var none T
	if q.stayer == p {
		q.stayer = nil
	}
	q.heads--
	after(&q.left, q.size())
	if q.heads == 0 && q.held == none {
		q.advance()
	}
	q.all.keep(p)
}

// advance makes the first waiter the head, or drops the queue if nobody waits. The mutex
// is held.
func (q *Queue[K, T, S]) advance() {
	if !q.Waits() {
		q.all.drop(q)
		return
	}
	q.asking = q.ends.next.seen
	q.letIn()
}

// letIn makes the first waiter a head. The mutex is held.
func (q *Queue[K, T, S]) letIn() {
	p := q.ends.next
	q.remove(p)
	q.heads++
	p.head = true
	p.ready <- struct{}{} // has room
}

// insert puts a place among the waiters, before those that came later. The mutex is
// held.
func (q *Queue[K, T, S]) insert(p *Place[K, T, S]) {
	next := q.ends
	if next.prev.number > p.number { // it was here before, and is one of the first
		for next = q.ends.next; next.number < p.number; {
			next = next.next
		}
	}
	p.prev, p.next = next.prev, next
	p.prev.next, p.next.prev = p, p
	q.waiters.Add(1)
}

// remove takes a waiter's place out of the queue. The mutex is held.
func (q *Queue[K, T, S]) remove(p *Place[K, T, S]) {
	p.prev.next, p.next.prev = p.next, p.prev
	q.waiters.Add(-1)
}
