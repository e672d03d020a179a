package queue

import (
	"context"
	"time"
)

// Place is a goroutine's place in a queue, as a waiter or a head. Only that goroutine may
// use it. It ends with Leave, Hold or Admit, or when Wait returns a value, and must not be
// used after that.
type Place[K, T comparable, S any] struct {
	queue *Queue[K, T, S]
	ready chan struct{} // wakes the goroutine when it becomes a head, or when a value was passed to its place

	// Queues.mu guards the rest. When the goroutine has received from the channel `ready`, it
	// reads the field `head` without the mutex.
	prev, next *Place[K, T, S]
	number     uint64        // the number of this goroutine in the order of arrival; 0 for the one that began the queue
	seenAt     time.Duration // when a Scan found this waiter for the first time; 0 if no Scan has found it
	given      T             // the value that was passed to the place
	head       bool
	stays      bool // Stay has returned true
	accepts    bool
}

// Wait returns when the goroutine has become a head, or when a value was passed to the place.
// In the second case `given` is true, v is the value, and the place has ended. If ctx ends
// first, Wait returns ctx's error, and the caller has to call Leave.
func (p *Place[K, T, S]) Wait(ctx context.Context) (v T, given bool, err error) {
	select {
	case <-p.ready:
	default:
		select {
		case <-p.ready:
		case <-ctx.Done():
			return v, false, ctx.Err()
		}
	}
	if p.head {
		return v, false, nil
	}
	return p.take(), true, nil
}

// take returns the value that was passed to the place, and ends the place. The caller has
// received from the channel `ready`.
func (p *Place[K, T, S]) take() T {
	a := p.queue.all
	a.mu.Lock()
	defer a.mu.Unlock()
	v := p.given
	a.recycle(p)
	return v
}

// Leave ends the place. If a value was passed to it, Leave returns the value, and the caller
// has to pass it on. If no value was passed to it, Leave calls `after` with the state, and with
// the number of waiters and heads that are left in the queue.
func (p *Place[K, T, S]) Leave(after func(state *S, n int)) (v T, given bool) {
	q := p.queue
	q.all.mu.Lock()
	if p.given != v {
		q.all.mu.Unlock()
		<-p.ready // Pass sends to this channel after it has called the function `before`
		return p.take(), true
	}
	defer q.all.mu.Unlock()
	if p.head {
		q.end(p, after)
	} else {
		q.remove(p)
		after(&q.state, q.size())
		q.all.recycle(p)
	}
	return v, false
}

// Hold ends the place, which must be that of the only head, and records that v is held. No
// waiter becomes a head until Next, but v may be passed on. Hold calls `after` as Leave does,
// and returns the queue.
func (p *Place[K, T, S]) Hold(v T, after func(state *S, n int)) *Queue[K, T, S] {
	q := p.queue
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	q.held = v
	q.end(p, after)
	return q
}

// Admit ends the place, which must be that of a head, and makes heads of some waiters. If `all`
// is true, these are all waiters. Otherwise they are the first two, so that the number of heads
// doubles from one answer to the next. If this head or another one stays, the lock was not free
// a moment ago, and it is the first waiter only. After Admit there are at most `most` heads,
// unless there were more before. Admit calls `after` as Leave does.
func (p *Place[K, T, S]) Admit(all bool, most int, after func(state *S, n int)) {
	q := p.queue
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	q.askingSince = 0
	n := 2
	switch {
	case all:
		n = most
	case q.staying > 0:
		n = 1
	}
	for ; n > 0 && q.heads <= most && q.Waits(); n-- { // the place counts as a head until it ends
		q.promote()
	}
	q.end(p, after)
}

// Stay returns true to the first of several heads that calls it: this head stays a head, and
// Stay returns true to it again, until its place ends. To the other heads Stay returns false:
// they have become waiters again, at their old places, and have to call Wait. If `always` is
// true, Stay returns true, also if another head stays.
func (p *Place[K, T, S]) Stay(always bool) bool {
	q := p.queue
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	if p.stays {
		return true
	}
	if q.staying == 0 || always {
		p.stays = true
		q.staying++
		return true
	}
	q.heads--
	p.head = false
	q.insert(p)
	return false
}
