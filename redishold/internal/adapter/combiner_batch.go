package adapter

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// batch has the calls of one pipeline.
type batch struct {
	combiner *Combiner
	context  *batchContext

	// Only the goroutine that sends the batch uses these fields. There is one exception: the
	// alarm and Combiner.giveUp read the field `requests`, under the Combiner's mutex.
	requests []*request
	calls    []*redishold.Call
	results  []redishold.Result
	wake     []*request
	inline   bool // the batch has one request, and the caller of that request sends the batch

	// Guarded by the Combiner's mutex.
	index   int    // the index of the batch in Combiner.sent
	number  uint64 // the value of Combiner.batchCount when the batch was taken
	callers int    // number of callers that still wait for one of the calls
}

// batchContext is the context of Send. It ends when no caller waits for any of the calls. An
// ended batchContext is not reused: contexts derived from it may still call its methods.
type batchContext struct {
	context.Context // without deadline and values, because each caller has its own context
	combiner        *Combiner

	// Guarded by the Combiner's mutex.
	ended bool
	done  chan struct{} // nil before the first call of Done
	at    time.Time     // the deadline of a call in the goroutine of its caller
}

func newBatch(c *Combiner) *batch { return &batch{combiner: c, context: newBatchContext(c)} }

func newBatchContext(c *Combiner) *batchContext {
	return &batchContext{Context: context.Background(), combiner: c}
}

// enter fills the arguments of Send, and adds the batch to Combiner.sent. The Combiner's mutex is
// held.
func (p *batch) enter() {
	for _, r := range p.requests {
		p.calls = append(p.calls, &r.call)
		p.results = append(p.results, redishold.Result{})
	}
	c := p.combiner
	c.inFlight += len(p.requests)
	p.callers = len(p.requests)
	c.batchCount++
	p.number, p.index = c.batchCount, len(c.sent)
	c.sent = append(c.sent, p)
}

// exit empties the batch, and removes it from Combiner.sent. The last batch in Combiner.sent
// moves to the index that becomes free. The mutex is held.
func (p *batch) exit() {
	c := p.combiner
	left := len(c.sent) - 1
	moved := c.sent[left]
	c.sent[p.index], moved.index = moved, p.index
	c.sent[left] = nil
	c.sent = c.sent[:left]
	clear(p.requests)
	clear(p.calls)
	clear(p.results)
	p.requests, p.calls, p.results = p.requests[:0], p.calls[:0], p.results[:0]
	if p.context.ended {
		p.context = newBatchContext(c)
	}
}

// abandon records that one caller does not wait any more. If that was the last caller, the
// context of the batch ends. The mutex is held.
func (p *batch) abandon() {
	if p.callers--; p.callers > 0 {
		return
	}
	p.context.ended = true
	if p.context.done != nil {
		close(p.context.done)
	}
}

// Done returns a channel that is closed when no caller waits any more.
func (d *batchContext) Done() <-chan struct{} {
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

// Err returns context.Canceled when no caller waits any more.
func (d *batchContext) Err() error {
	d.combiner.mu.Lock()
	defer d.combiner.mu.Unlock()
	if d.ended {
		return context.Canceled
	}
	return nil
}
