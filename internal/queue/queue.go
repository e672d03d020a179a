package queue

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Queues are the queues of one process. The zero Queues is ready to use.
type Queues[K, T comparable, S any] struct {
	mu    sync.Mutex
	inUse map[K]*Queue[K, T, S]

	// What is not in use, to be used again: most queues last for one lock.
	queues []*Queue[K, T, S]
	places []*Place[K, T, S]
}

// unusedMost bounds what is kept to be used again.
const unusedMost = 1024

// Queue is one queue. It is in use while somebody waits, asks or holds.
type Queue[K, T comparable, S any] struct {
	all     *Queues[K, T, S]
	waiters atomic.Int32    // changed only while the mutex is held
	ends    *Place[K, T, S] // next is the first waiter and prev the last, or itself
	use[K, T, S]
}

// use is what there is of a queue while it is in use. Queues.mu guards it.
type use[K, T comparable, S any] struct {
	key    K
	heads  int             // 0 while a value is held
	stayer *Place[K, T, S] // the head that waits for the store; nil if none does
	held   T               // the zero T while heads ask
	left   S               // by heads to each other
	count  uint64          // of those who entered
	asking time.Duration   // since when the head is known to wait; see Scan
}

// Enter takes a place in the queue of a key. Where there is no queue, begin returns what
// its heads find, and the place is that of its head. Where there is one, who does not
// wait gets no place, and a caller that accepts may be passed a value.
func (a *Queues[K, T, S]) Enter(key K, waits, accepts bool, begin func() S) (p *Place[K, T, S], head bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.inUse[key]
	switch {
	case q == nil:
		p = a.newPlace(a.newQueue(key, begin()))
		p.head = true
	case waits:
		p = a.newPlace(q)
		q.count++
		p.number, p.accepts = q.count, accepts
		q.insert(p)
	}
	return p, q == nil
}

// Do calls fn with the queue of a key: with the value that is held, the zero T if none
// is, and with what its heads leave to each other. It returns false where there is none.
func (a *Queues[K, T, S]) Do(key K, fn func(held T, left *S)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.inUse[key]
	if q != nil {
		fn(q.held, &q.left)
	}
	return q != nil
}

// scanChunk is how many queues Scan looks at before others may go on.
const scanChunk = 512

// Scan calls visit for each queue in which goroutines wait or ask, with how many they
// are, and since when the first of them is known to do so. No clock is read when a wait
// begins: it counts from the first Scan that sees it. now is a reading of the caller's
// clock other than 0. Queues that come or go during a Scan may be left out.
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

// size returns how many wait or ask. The mutex is held.
func (q *Queue[K, T, S]) size() int { return int(q.waiters.Load()) + q.heads }

// since returns since when the first waiter or ask is known to, and notes
// that all of them do so now. The mutex is held.
func (q *Queue[K, T, S]) since(now time.Duration) time.Duration {
	for p := q.ends.prev; p != q.ends && p.seen == 0; p = p.prev {
		p.seen = now
	}
	if q.heads == 0 {
		return q.ends.next.seen
	}
	if q.asking == 0 {
		q.asking = now
	}
	return q.asking
}

// newQueue returns a queue with one head. The mutex is held.
func (a *Queues[K, T, S]) newQueue(key K, left S) (q *Queue[K, T, S]) {
	if a.inUse == nil {
		a.inUse = make(map[K]*Queue[K, T, S])
	}
	if n := len(a.queues); n > 0 {
		q, a.queues = a.queues[n-1], a.queues[:n-1]
	} else {
		q = &Queue[K, T, S]{all: a, ends: &Place[K, T, S]{number: math.MaxUint64}}
		q.ends.prev, q.ends.next = q.ends, q.ends
	}
	q.use = use[K, T, S]{key: key, heads: 1, left: left}
	a.inUse[key] = q
	return q
}

// drop ends a queue in which nobody is left. Who held it last may still refer to it.
// The mutex is held.
func (a *Queues[K, T, S]) drop(q *Queue[K, T, S]) {
	delete(a.inUse, q.key)
	q.use = use[K, T, S]{}
	if len(a.queues) < unusedMost {
		a.queues = append(a.queues, q)
	}
}

// newPlace returns a place that is neither a head's nor a waiter's. The mutex is held.
func (a *Queues[K, T, S]) newPlace(q *Queue[K, T, S]) (p *Place[K, T, S]) {
	if n := len(a.places); n > 0 {
		p, a.places = a.places[n-1], a.places[:n-1]
	} else {
		p = &Place[K, T, S]{ready: make(chan struct{}, 1)}
	}
	p.queue = q
	return p
}

// keep keeps a place that is over. The mutex is held.
func (a *Queues[K, T, S]) keep(p *Place[K, T, S]) {
	select {
	case <-p.ready: // its turn came, and was not waited for any more
	default:
	}
	*p = Place[K, T, S]{ready: p.ready}
	if len(a.places) < unusedMost {
		a.places = append(a.places, p)
	}
}
