package adapter

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/stack"
	"github.com/holdfast-go/holdfast/redishold"
)

// Sender is the part of a client library that a Combiner uses.
type Sender interface {
	// Send runs calls in one pipeline, each at most once, at the server or at a node of the
	// cluster. It writes the Result of each call into `results`, which already has one zero
	// Result for each call. If a call asks for replicas, one WAIT follows after all calls, over
	// the same connection: it counts the replicas that have all earlier writes of the
	// connection. Send may follow redirections of calls that ask for no replicas.
	//
	// A Combiner sends calls that ask for no replicas to the one server, with a ctx that has no
	// deadline and no values, and ends when no caller waits for any of the calls any more. Send
	// may block even after that end. After Send has returned, the library may still read the
	// calls that got no reply of the server, but no other calls.
	Send(ctx context.Context, node Destination, calls []*redishold.Call, results []redishold.Result)
}

const (
	// maxBatch is the maximal number of calls in one pipeline. With longer pipelines, the server
	// and the callers take turns: each waits until the other has finished a whole pipeline.
	maxBatch = 64

	// fewCalls is the result of Combiner.few for a Sender that is no Inliner.
	fewCalls = 16
)

// Combiner combines the calls that several goroutines make at about the same time into one
// pipeline. Usually a goroutine that is called the leader sends the pipeline, so that each
// caller can stop waiting when its own context ends. A pipeline without a reply delays the next
// pipeline only if the client library delays it.
type Combiner struct {
	sender        Sender
	inliner       Inliner       // the field `sender`, or nil if that Sender is no Inliner
	interruptible Interruptible // the field `sender`, or nil if that Sender is not Interruptible
	lead          func()        // the method `run`, stored so that starting a leader does not allocate
	wake          func()        // the method `ring`, stored so that setting the alarm does not allocate
	requests      sync.Pool     // of *request
	batches       sync.Pool     // of *batch

	// failed gets the Results of calls before their callers get them, if one of them has an
	// error, in the goroutine that waits for the Result. It may add text to the errors, and may
	// be nil.
	failed func(ctx context.Context, results []redishold.Result)

	mu         sync.Mutex
	queue      []*request // calls that no leader has taken yet
	collecting bool       // a leader is about to take calls from the queue
	inFlight   int        // number of calls that a leader has taken or RunInline runs, and that have no reply yet
	sent       []*batch   // the batches of the calls in flight
	batchCount uint64     // number of all batches until now
	alarm      alarm
}

// NewCombiner returns a Combiner that sends with s.
func NewCombiner(s Sender) *Combiner {
	c := &Combiner{sender: s}
	c.inliner, _ = s.(Inliner)
	c.interruptible, _ = s.(Interruptible)
	c.lead, c.wake = c.run, c.ring
	c.requests.New = func() any {
		r := &request{combiner: c, done: make(chan struct{}, 1)}
		r.finish = r.wait
		return r
	}
	c.batches.New = func() any { return newBatch(c) }
	return c
}

// DoOne implements redishold.Single, for a call that asks for no replicas.
func (c *Combiner) DoOne(ctx context.Context, call *redishold.Call) redishold.Result {
	if result, done := c.inline(ctx, call); done {
		return result
	}
	return c.enqueue(ctx, call).wait()
}

// Begin implements redishold.Beginner, for a call that asks for no replicas.
func (c *Combiner) Begin(ctx context.Context, call *redishold.Call) (finish func() redishold.Result) {
	return c.enqueue(ctx, call).finish
}

// enqueue queues a call. It starts a leader if no leader is about to take calls from the queue.
func (c *Combiner) enqueue(ctx context.Context, call *redishold.Call) *request {
	r := c.requests.Get().(*request)
	r.call, r.ctx = *call, ctx
	if d, ok := ctx.(*deadline.Context); ok {
		r.ctxDone = d.Parent().Done()
		r.deadline, _ = d.Deadline()
	} else {
		r.ctxDone = ctx.Done()
	}
	c.mu.Lock()
	c.queue = append(c.queue, r)
	c.alarm.set(r.deadline, c.wake)
	startLeader := !c.collecting
	c.collecting = true
	c.mu.Unlock()
	if startLeader {
		go c.lead()
	}
	return r
}

// few returns the maximal number of calls, queued or in flight, with which a leader sends at
// once.
func (c *Combiner) few() int {
	if c.inliner == nil {
		return fewCalls
	}
	return c.inliner.FewCalls()
}

// run is the goroutine of a leader. The leader takes calls from the queue and sends them. It
// ends when another leader takes calls from the queue.
func (c *Combiner) run() {
	stack.Grow()
	p := c.batches.Get().(*batch)
	defer c.dismiss(p)
	for lead := true; lead; {
		c.mu.Lock()
		crowded := len(c.queue)+c.inFlight > c.few()
		c.mu.Unlock()
		if crowded {
			// Let other goroutines add calls first: many may be about to do so, because the
			// callers of the latest pipeline all got their replies at the same time.
			runtime.Gosched()
		}
		if c.take(p) {
			go c.lead()
		}
		if lead = false; len(p.requests) > 0 {
			c.sender.Send(p.context, Destination{}, p.calls, p.results)
			lead = c.deliver(p)
		}
	}
}

// take moves calls from the front of the queue into p, and reports whether calls are left
// in the queue for another leader.
func (c *Combiner) take(p *batch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A pipeline gets at most half of the calls that are queued or in flight. So the server
	// runs one half, while the callers of the other half read their replies and make new calls.
	n := min(len(c.queue), (len(c.queue)+c.inFlight+1)/2, maxBatch)
	for _, r := range c.queue[:n] {
		if r.decided {
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
		p.enter()
	}
	return c.collecting
}

// deliver gives the results of Send to the callers, and empties p. A call whose script the server
// does not know is queued again, with the source of the script. That is safe, because the server
// has executed nothing of the call. The result `lead` is true if a leader must take the next
// calls from the queue, which is the leader of p if p has one.
func (c *Combiner) deliver(p *batch) (lead bool) {
	c.mu.Lock()
	c.inFlight -= len(p.requests)
	for i, r := range p.requests {
		if !r.decided && !r.call.Source && NoScript(p.results[i].Err) {
			r.call.Source, r.batch = true, nil
			c.queue = append(c.queue, r)
			continue
		}
		if !r.decided {
			r.decided, r.result = true, p.results[i]
			p.wake = append(p.wake, r)
		}
		r.detach()
	}
	p.exit()
	lead = !c.collecting && (!p.inline || len(c.queue) > 0)
	c.collecting = c.collecting || lead
	p.inline = false
	c.mu.Unlock()
	wake(p.wake)
	clear(p.wake)
	p.wake = p.wake[:0]
	return lead
}

var errEnded = errors.New("the client library ended the goroutine that sent the call")

// dismiss frees the batch p when its leader ends. If the library has ended the goroutine of
// the leader, by a panic or by runtime.Goexit, the callers that wait for p get errEnded.
// dismiss does not recover a panic, because the program must learn of it.
func (c *Combiner) dismiss(p *batch) {
	if len(p.requests) == 0 {
		c.batches.Put(p)
		return
	}
	for i := range p.results {
		p.results[i] = redishold.Result{Err: errEnded}
	}
	if c.deliver(p) {
		go c.lead()
	}
}
