package queue

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Queues has the queues of one process. The zero Queues is ready to use.
type Queues[K, T comparable, S any] struct {
	mu    sync.Mutex
	inUse map[K]*Queue[K, T, S]

	// Queues and places that are not in use any more are kept for later use, because most
	// queues are needed only for one Lock and Unlock.
	queues []*Queue[K, T, S]
	places []*Place[K, T, S]
}

// unusedMost bounds how many unused queues are kept, and how many unused places.
const unusedMost = 1024

// Queue is one queue. It is in use while it has a waiter, a head or a holder.
type Queue[K, T comparable, S any] struct {
	all      *Queues[K, T, S]
	waiters  atomic.Int32    // changed only while the mutex is held
	sentinel *Place[K, T, S] // the sentinel of the ring of waiters: its field `next` is the first waiter, its field `prev` the last
	use[K, T, S]
}

// use has the fields of a Queue that are reset before the Queue is used for another key.
// Queues.mu guards it.
type use[K, T comparable, S any] struct {
	key         K
	heads       int           // how many heads there are; 0 while a value is held
	staying     int           // for how many heads Stay has returned true
	held        T             // the value that is held; the zero T while there is a head
	state       S             // what one head leaves to the next
	count       uint64        // how many waiters have entered
	askingSince time.Duration // when a Scan found the oldest head for the first time; 0 if no Scan has found it
}

// Enter takes a place in the queue of a key. If the key has no queue, Enter begins one with the
// state that `begin` returns. Then the place is that of the head, and `head` is true. If the
// key has a queue, Enter returns the place of a waiter if `waits` is true, and nil if `waits`
// is false. The parameter `accepts` means that a value may be passed to that waiter.
func (a *Queues[K, T, S]) Enter(key K, waits, accepts bool, begin func() S) (p *Place[K, T, S], head bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.inUse[key]
	switch {
	case q == nil:
		return a.newHead(a.newQueue(key, begin())), true
	case waits:
		p = a.newWaiter(q, accepts)
	}
	return p, false
}

// Join is Enter for a goroutine that waits for a lock that several goroutines can hold at once.
// The place is also that of a head if no goroutine waits, no head stays, and there are fewer
// than `most` heads.
func (a *Queues[K, T, S]) Join(key K, most int, begin func() S) (p *Place[K, T, S], head bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.inUse[key]
	switch {
	case q == nil:
		return a.newHead(a.newQueue(key, begin())), true
	case q.staying == 0 && q.heads < most && !q.Waits():
		q.heads++
		q.count++
		p = a.newHead(q)
		p.number = q.count
		return p, true
	default:
		return a.newWaiter(q, false), false
	}
}

// Stays reports whether a head of the queue of a key stays.
func (a *Queues[K, T, S]) Stays(key K) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.inUse[key]
	return q != nil && q.staying > 0
}

// Do calls fn with the value that is held in the queue of a key, and with the state of that
// queue. If no value is held, fn gets the zero T. Do returns false if there is no queue.
func (a *Queues[K, T, S]) Do(key K, fn func(held T, state *S)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.inUse[key]
	if q != nil {
		fn(q.held, &q.state)
	}
	return q != nil
}

// scanChunk is how many queues Scan visits before other goroutines may lock the mutex.
const scanChunk = 512

// Scan calls the function `visit` for each queue that has waiters or heads. It passes the key
// of the queue, a time, and the number of waiters and heads together. The time is that of the
// first Scan that found the oldest of these goroutines, because no clock is read when a
// goroutine enters a queue. The parameter `now` is a reading of the caller's clock, and not 0.
// Scan may leave out queues that begin or end meanwhile.
func (a *Queues[K, T, S]) Scan(now time.Duration, visit func(key K, since time.Duration, n int)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	scanned := 0
	for _, q := range a.inUse {
		if n := q.size(); n > 0 {
			visit(q.key, q.since(now), n)
		}
		if scanned++; scanned%scanChunk == 0 {
			a.mu.Unlock()
			a.mu.Lock()
		}
	}
}

// size returns the number of waiters and heads together. The mutex is held.
func (q *Queue[K, T, S]) size() int { return int(q.waiters.Load()) + q.heads }

// since returns the time of the first Scan that found the oldest goroutine among the waiters
// and heads. It records the time `now` for the goroutines that no Scan has found before. The
// mutex is held.
func (q *Queue[K, T, S]) since(now time.Duration) time.Duration {
	for p := q.sentinel.prev; p != q.sentinel && p.seenAt == 0; p = p.prev {
		p.seenAt = now
	}
	if q.heads == 0 {
		return q.sentinel.next.seenAt
	}
	if q.askingSince == 0 {
		q.askingSince = now
	}
	return q.askingSince
}

// newQueue returns a queue with one head. The mutex is held.
func (a *Queues[K, T, S]) newQueue(key K, state S) (q *Queue[K, T, S]) {
	if a.inUse == nil {
		a.inUse = make(map[K]*Queue[K, T, S])
	}
	if n := len(a.queues); n > 0 {
		q, a.queues = a.queues[n-1], a.queues[:n-1]
	} else {
		q = &Queue[K, T, S]{all: a, sentinel: &Place[K, T, S]{number: math.MaxUint64}}
		q.sentinel.prev, q.sentinel.next = q.sentinel, q.sentinel
	}
	q.use = use[K, T, S]{key: key, heads: 1, state: state}
	a.inUse[key] = q
	return q
}

// drop ends a queue that no goroutine uses. The last holder may still have a pointer to the
// queue. The mutex is held.
func (a *Queues[K, T, S]) drop(q *Queue[K, T, S]) {
	delete(a.inUse, q.key)
	q.use = use[K, T, S]{}
	if len(a.queues) < unusedMost {
		a.queues = append(a.queues, q)
	}
}

// newHead returns the place of a head. The mutex is held.
func (a *Queues[K, T, S]) newHead(q *Queue[K, T, S]) *Place[K, T, S] {
	p := a.newPlace(q)
	p.head = true
	return p
}

// newWaiter returns the place of a waiter at the end of the queue. The mutex is held.
func (a *Queues[K, T, S]) newWaiter(q *Queue[K, T, S], accepts bool) *Place[K, T, S] {
	p := a.newPlace(q)
	q.count++
	p.number, p.accepts = q.count, accepts
	q.insert(p)
	return p
}

// newPlace returns a place that is neither a head's nor a waiter's yet. The mutex is held.
func (a *Queues[K, T, S]) newPlace(q *Queue[K, T, S]) (p *Place[K, T, S]) {
	if n := len(a.places); n > 0 {
		p, a.places = a.places[n-1], a.places[:n-1]
	} else {
		p = &Place[K, T, S]{ready: make(chan struct{}, 1)}
	}
	p.queue = q
	return p
}

// recycle keeps a place that has ended, for later use. The mutex is held.
func (a *Queues[K, T, S]) recycle(p *Place[K, T, S]) {
	select {
	case <-p.ready: // the goroutine became a head after it had given up the wait
	default:
	}
	*p = Place[K, T, S]{ready: p.ready}
	if len(a.places) < unusedMost {
		a.places = append(a.places, p)
	}
}
