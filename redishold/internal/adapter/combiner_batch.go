package adapter

import (
	"context"

	"github.com/holdfast-go/holdfast/redishold"
)

// batch is what travels together. It is also the context of Send, which ends when
// nobody waits for any of the calls.
type batch struct {
	context.Context // without deadline and values: each caller has its own
	combiner        *Combiner

	// Only for the leader; requests for the alarm too, under the Combiner's mutex.
	requests []*request
	calls    []*redishold.Call
	results  []redishold.Result
	wake     []*request

	// Guarded by the Combiner's mutex.
	place   int           // among the Combiner's batches
	number  uint64        // among all departures
	waiting int           // callers
	ended   bool          // none is left
	done    chan struct{} // nil until somebody asks for it
}

// prepare readies what Send is given. The Combiner's mutex is held.
func (p *batch) prepare() {
	clear(p.calls)
	clear(p.results)
	p.calls, p.results, p.waiting = p.calls[:0], p.results[:0], len(p.requests)
	for _, r := range p.requests {
		p.calls = append(p.calls, &r.call)
		p.results = append(p.results, redishold.Result{})
	}
}

// enter puts the batch among the Combiner's. The mutex is held.
func (p *batch) enter() {
	c := p.combiner
	c.started++
	p.number, p.place = c.started, len(c.away)
	c.away = append(c.away, p)
}

// exit takes the batch away again; the last one gets its place. The mutex is held.
func (p *batch) exit() {
	c := p.combiner
	left := len(c.away) - 1
	moved := c.away[left]
	c.away[p.place], moved.place = moved, p.place
	c.away[left] = nil
	c.away = c.away[:left]
	if p.ended {
		p.ended, p.done = false, nil
	}
}

// abandon notes that a caller has left. The mutex is held.
func (p *batch) abandon() {
	if p.waiting--; p.waiting > 0 {
		return
	}
	p.ended = true
	if p.done != nil {
		close(p.done)
	}
}

// Done returns a channel that is closed when nobody waits any more.
func (p *batch) Done() <-chan struct{} {
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
func (p *batch) Err() error {
	p.combiner.mu.Lock()
	defer p.combiner.mu.Unlock()
	if p.ended {
		return context.Canceled
	}
	return nil
}
