package adapter

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/redishold"
)

// Sender is a client library as a Combiner uses it.
type Sender interface {
	// Send runs calls, of which none asks for replicas, in one pipeline on the one
	// server, each at most once, and puts what came of them into results, which is
	// as long and zero. It may block for longer than its context, which ends when
	// nobody waits for any of the calls and has neither deadline nor values. When
	// it has returned it keeps nothing of what it was given, except of a call for
	// which the result is no answer of the server.
	Send(ctx context.Context, calls []*redishold.Call, results []redishold.Result)
}

const (
	// most is how many calls travel together at most.
	most = 256

	// fewRiders is how many calls, waiting and under way, are sent as they come. If so
	// few gathered, client and server would take turns in having nothing to do.
	fewRiders = 16
)

// Combiner makes one pipeline of the calls that several goroutines make at about
// the same time. Each pipeline is sent by a goroutine of its own, its leader, so
// that no caller waits for longer than its context, and a pipeline without an
// answer holds up the next no more than the library does.
type Combiner struct {
	sender   Sender
	lead     func()    // run, made once: a leader costs no allocation
	wake     func()    // ring, likewise
	doubt    func()    // called after calls without an answer; nil for nothing
	requests sync.Pool // of *request
	batches  sync.Pool // of *batch

	mu         sync.Mutex
	queue      []*request // no leader has taken them yet
	collecting bool       // a leader is about to take from the queue
	underway   int        // calls that were taken and have no answer yet
	away       []*batch   // their batches
	started    uint64     // how many batches there were
	alarm      alarm
}

// NewCombiner returns a Combiner that sends with s.
func NewCombiner(s Sender) *Combiner {
	c := &Combiner{sender: s}
	c.lead, c.wake = c.run, c.ring
	c.requests.New = func() any {
		r := &request{combiner: c, done: make(chan struct{}, 1)}
		r.finish = r.wait
		return r
	}
	c.batches.New = func() any { return newBatch(c) }
	return c
}

// DoOne runs a call that asks for no replicas, as redishold.Single says.
func (c *Combiner) DoOne(ctx context.Context, call *redishold.Call) redishold.Result {
	return c.enqueue(ctx, call).wait()
}

// Begin queues a call that asks for no replicas, as redishold.Beginner says.
func (c *Combiner) Begin(ctx context.Context, call *redishold.Call) (finish func() redishold.Result) {
	return c.enqueue(ctx, call).finish
}

// enqueue queues a call, and starts a leader if none is about to look.
func (c *Combiner) enqueue(ctx context.Context, call *redishold.Call) *request {
	r := c.requests.Get().(*request)
	r.call, r.ctx = *call, ctx
	if d, ok := ctx.(*deadline.Context); ok {
		r.end = d.Parent().Done()
		r.at, _ = d.Deadline()
	} else {
		r.end = ctx.Done()
	}
	c.mu.Lock()
	c.queue = append(c.queue, r)
	c.alarm.set(r.at, c.wake)
	start := !c.collecting
	c.collecting = true
	c.mu.Unlock()
	if start {
		go c.lead()
	}
	return r
}

// run is a leader.
func (c *Combiner) run() {
	p := c.batches.Get().(*batch)
	defer c.dismiss(p)
	for lead := true; lead; {
		c.mu.Lock()
		crowded := len(c.queue)+c.underway > fewRiders
		c.mu.Unlock()
		if crowded {
			// A goroutine that can run now may have a call to add: those to whom the latest
			// pipeline brought their answers are ready all at once.
			runtime.Gosched()
		}
		if c.take(p) {
			go c.lead()
		}
		lead = false
		for len(p.requests) > 0 {
			c.sender.Send(p.context, p.calls, p.results)
			lead = c.arrive(p)
		}
	}
}

// take moves calls from the front of the queue into p, and reports whether some
// are left for another leader.
func (c *Combiner) take(p *batch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A half of all travels together, so that the server is busy with some while the
	// answers to the others are read and lead to new calls.
	n := min(len(c.queue), (len(c.queue)+c.underway+1)/2, most)
	for _, r := range c.queue[:n] {
		if r.over {
			r.detach()
			continue
		}
		r.batch = p
		p.requests = append(p.requests, r)
	}
	left := copy(c.queue, c.queue[n:])
	clear(c.queue[left:])
	c.queue = c.queue[:left]
	c.collecting = left > 0
	if len(p.requests) > 0 {
		c.underway += len(p.requests)
		p.prepare()
		p.enter()
	}
	return c.collecting
}

// arrive hands out what Send brought. Calls whose script the server does not know
// stay in p, to be sent as source; nothing was executed of them. If none stays,
// arrive reports whether p's leader is to gather the next ones.
func (c *Combiner) arrive(p *batch) (lead bool) {
	if c.doubt != nil && doubtful(p.results[0].Err) {
		c.doubt()
	}
	c.mu.Lock()
	c.underway -= len(p.requests)
	stay := p.requests[:0]
	for i, r := range p.requests {
		if !r.over && !r.call.Source && NoScript(p.results[i].Err) {
			r.call.Source = true
			stay = append(stay, r)
			continue
		}
		if !r.over {
			r.over, r.result = true, p.results[i]
			p.wake = append(p.wake, r)
		}
		r.detach()
	}
	clear(p.requests[len(stay):])
	p.requests = stay
	c.underway += len(stay)
	p.prepare()
	if len(stay) == 0 {
		p.exit()
		lead = !c.collecting
		c.collecting = true
	}
	c.mu.Unlock()
	wake(p.wake)
	clear(p.wake)
	p.wake = p.wake[:0]
	return lead
}

var errEnded = errors.New("the client library ended the goroutine that sent the call")

// dismiss lets go of a batch when its leader ends. Where the library has ended the
// leader, by a panic that is not for us to hide or by runtime.Goexit, those who
// wait for it learn so.
func (c *Combiner) dismiss(p *batch) {
	if len(p.requests) == 0 {
		c.batches.Put(p)
		return
	}
	for i, r := range p.requests {
		r.call.Source = true // it is not sent again
		p.results[i] = redishold.Result{Err: errEnded}
	}
	if c.arrive(p) {
		go c.lead()
	}
}
