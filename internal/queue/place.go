package queue

import (
	"context"
	"time"
)

// Place is the place of a goroutine in a queue, for that goroutine alone. It is over, and
// must not be used, after Leave, Hold and Admit, and after Wait has returned a value.
type Place[K, T comparable, S any] struct {
	queue *Queue[K, T, S]
	ready chan struct{} // receives once when the place is no longer a waiter's

	// Queues.mu guards the rest, but for what the owner reads after ready.
	prev, next *Place[K, T, S]
	number     uint64        // in the order of arrival; 0 for who began the queue
	seen       time.Duration // since when it is known to wait; 0 if Scan has not seen it
	given      T             // was passed to it
	head       bool
	accepts    bool
}

// Wait returns when the place is that of a head, or when a value was passed to it: then
// with the value, and the place is over. If ctx ends first it returns ctx's error, and
// the place has to Leave.
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

// take returns what was passed to the place, which is over then. ready was received.
func (p *Place[K, T, S]) take() T {
	a := p.queue.all
	a.mu.Lock()
	defer a.mu.Unlock()
	v := p.given
	a.keep(p)
	return v
}

// Leave gives the place up. A value that was passed to it meanwhile is returned, and it
// is for the caller to pass it on. Otherwise after is called with what heads leave to each
// other, and with how many of the queue still wait or ask.
func (p *Place[K, T, S]) Leave(after func(left *S, n int)) (v T, given bool) {
	q := p.queue
	q.all.mu.Lock()
	if p.given != v {
		q.all.mu.Unlock()
		<-p.ready // not before Pass has done what comes ahead of this
		return p.take(), true
	}
	defer q.all.mu.Unlock()
	if p.head {
		q.end(p, after)
	} else {
		q.remove(p)
		after(&q.left, q.size())
		q.all.keep(p)
	}
	return v, false
}

// Hold turns the place of the only head into that of v's holder: nobody has a turn until
// Next, but v may be passed on. It calls after as Leave does.
func (p *Place[K, T, S]) Hold(v T, after func(left *S, n int)) *Queue[K, T, S] {
	q := p.queue
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	q.held = v
	q.end(p, after)
	return q
}

// Admit makes heads of the first n waiters, and gives up the place, which is a head's.
// It calls after as Leave does.
func (p *Place[K, T, S]) Admit(n int, after func(left *S, n int)) {
	q := p.queue
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	q.asking = 0
	for ; n > 0 && q.waiters.Load() > 0; n-- {
		q.letIn()
	}
	q.end(p, after)
}

// Stay says that the place stays a head's: of several heads, that is the first who calls
// it, until its place is over. The others are waiters again where they were, and Wait.
func (p *Place[K, T, S]) Stay() bool {
	q := p.queue
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	if q.stayer == nil || q.stayer == p {
		q.stayer = p
		return true
	}
	q.heads--
	p.head = false
	q.insert(p)
	return false
}
