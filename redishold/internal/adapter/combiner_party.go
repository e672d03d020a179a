package adapter

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// party is what travels together. It is also the context of Send, which ends when
// nobody waits for any of the calls.
type party struct {
	combiner *Combiner

	// Only for the leader; rides for the alarm too, under the Combiner's mutex.
	rides   []*ride
	calls   []*redishold.Call
	results []redishold.Result
	wake    []*ride

	// Guarded by the Combiner's mutex.
	prev, next *party
	number     uint64        // among all departures
	waiting    int           // callers
	ended      bool          // none is left
	done       chan struct{} // nil until somebody asks for it
}

var _ context.Context = (*party)(nil)

// prepare readies what Send is given. The Combiner's mutex is held.
func (p *party) prepare() {
	clear(p.calls)
	clear(p.results)
	p.calls, p.results, p.waiting = p.calls[:0], p.results[:0], len(p.rides)
	for _, r := range p.rides {
		p.calls = append(p.calls, &r.call)
		p.results = append(p.results, redishold.Result{})
	}
}

// enter puts the party into the Combiner's list. The mutex is held.
func (p *party) enter() {
	p.combiner.departed++
	p.number = p.combiner.departed
	p.next = p.combiner.away
	if p.next != nil {
		p.next.prev = p
	}
	p.combiner.away = p
}

// exit takes the party out of the list again. The mutex is held.
func (p *party) exit() {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		p.combiner.away = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
	if p.ended {
		p.ended, p.done = false, nil
	}
}

// abandon notes that a caller has left. The mutex is held.
func (p *party) abandon() {
	if p.waiting--; p.waiting > 0 {
		return
	}
	p.ended = true
	if p.done != nil {
		close(p.done)
	}
}

// Deadline reports none: each caller has its own.
func (p *party) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value returns nil: nobody speaks for all callers.
func (p *party) Value(any) any { return nil }

// Done returns a channel that is closed when nobody waits any more.
func (p *party) Done() <-chan struct{} {
	p.combiner.mu.Lock()
	defer p.combiner.mu.Unlock()
	if p.done == nil {
		p.done = make(chan struct{})
		if p.ended {
			close(p.done)
		}
	}
	return p.done
}

// Err returns context.Canceled when nobody waits any more.
func (p *party) Err() error {
	p.combiner.mu.Lock()
	defer p.combiner.mu.Unlock()
	if p.ended {
		return context.Canceled
	}
	return nil
}
