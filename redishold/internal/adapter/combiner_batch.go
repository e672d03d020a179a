package adapter

import (
	"context"

	"github.com/holdfast-go/holdfast/redishold"
)

// batch is what travels together.
type batch struct {
	combiner *Combiner
	context  *departure

	// Only for the leader; requests for the alarm too, under the Combiner's mutex.
	requests []*request
	calls    []*redishold.Call
	results  []redishold.Result
	wake     []*request

	// Guarded by the Combiner's mutex.
	place   int    // among the Combiner's batches
	number  uint64 // among all departures
	waiting int    // callers
}

// departure is the context of Send. It ends when nobody waits for any of the calls. One
// that has ended stays so, since contexts which were derived from it may ask it later.
type departure struct {
	context.Context // without deadline and values: each caller has its own
	combiner        *Combiner

	// Guarded by the Combiner's mutex.
	ended bool
	done  chan struct{} // nil until somebody asks for it
}

func newBatch(c *Combiner) *batch { return &batch{combiner: c, context: newDeparture(c)} }

func newDeparture(c *Combiner) *departure {
	return &departure{Context: context.Background(), combiner: c}
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
	if p.context.ended {
		p.context = newDeparture(c)
	}
}

// abandon notes that a caller has left. The mutex is held.
func (p *batch) abandon() {
	if p.waiting--; p.waiting > 0 {
		return
	}
	p.context.ended = true
	if p.context.done != nil {
		close(p.context.done)
	}
}

// Done returns a channel that is closed when nobody waits any more.
func (d *departure) Done() <-chan struct{} {
	d.combiner.mu.Lock()
	defer d.combiner.mu.Unlock()
	if d.done == nil {
		d.done = make(chan struct{})
		if d.ended {
			close(d.done)
		}
	}
	return d.done
}

// Err returns context.Canceled when nobody waits any more.
func (d *departure) Err() error {
	d.combiner.mu.Lock()
	defer d.combiner.mu.Unlock()
	if d.ended {
		return context.Canceled
	}
	return nil
}
