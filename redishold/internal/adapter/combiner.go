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
	sender  Sender
	lead    func()    // run, made once: a leader costs no allocation
	wake    func()    // ring, likewise
	doubt   func()    // called after calls without an answer; nil for nothing
	rides   sync.Pool // of *ride
	parties sync.Pool // of *party

	mu         sync.Mutex
	queue      []*ride  // no leader has taken them yet
	collecting bool     // a leader is about to take from the queue
	riding     int      // calls that were taken and have no answer yet
	away       []*party // their parties
	departed   uint64   // how many parties there were
	alarm      alarm
}

// NewCombiner returns a Combiner that sends with s.
func NewCombiner(s Sender) *Combiner {
	c := &Combiner{sender: s}
	c.lead, c.wake = c.run, c.ring
	c.rides.New = func() any {
		r := &ride{combiner: c, done: make(chan struct{}, 1)}
		r.finish = r.wait
		return r
	}
	c.parties.New = func() any { return &party{Context: context.Background(), combiner: c} }
	return c
}

// DoOne runs a call that asks for no replicas, as redishold.Single says.
func (c *Combiner) DoOne(ctx context.Context, call *redishold.Call) redishold.Result {
	return c.board(ctx, call).wait()
}

// Begin queues a call that asks for no replicas, as redishold.Beginner says.
func (c *Combiner) Begin(ctx context.Context, call *redishold.Call) (finish func() redishold.Result) {
	return c.board(ctx, call).finish
}

// board queues a call, and starts a leader if none is about to look.
func (c *Combiner) board(ctx context.Context, call *redishold.Call) *ride {
	r := c.rides.Get().(*ride)
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
	p := c.parties.Get().(*party)
	defer c.dismiss(p)
	for lead := true; lead; {
		c.mu.Lock()
		crowded := len(c.queue)+c.riding > fewRiders
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
		for len(p.rides) > 0 {
			c.sender.Send(p, p.calls, p.results)
			lead = c.arrive(p)
		}
	}
}

// take moves calls from the front of the queue into p, and reports whether some
// are left for another leader.
func (c *Combiner) take(p *party) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A half of all travels together, so that the server is busy with some while the
	// answers to the others are read and lead to new calls.
	n := min(len(c.queue), (len(c.queue)+c.riding+1)/2, most)
	for _, r := range c.queue[:n] {
		if r.over {
			r.alight()
			continue
		}
		r.party = p
		p.rides = append(p.rides, r)
	}
	left := copy(c.queue, c.queue[n:])
	clear(c.queue[left:])
	c.queue = c.queue[:left]
	c.collecting = left > 0
	if len(p.rides) > 0 {
		c.riding += len(p.rides)
		p.prepare()
		p.enter()
	}
	return c.collecting
}

// arrive hands out what Send brought. Calls whose script the server does not know
// stay in p, to be sent as source; nothing was executed of them. If none stays,
// arrive reports whether p's leader is to gather the next ones.
func (c *Combiner) arrive(p *party) (lead bool) {
	if c.doubt != nil && doubtful(p.results[0].Err) {
		c.doubt()
	}
	c.mu.Lock()
	c.riding -= len(p.rides)
	stay := p.rides[:0]
	for i, r := range p.rides {
		if !r.over && !r.call.Source && NoScript(p.results[i].Err) {
			r.call.Source = true
			stay = append(stay, r)
			continue
		}
		if !r.over {
			r.over, r.result = true, p.results[i]
			p.wake = append(p.wake, r)
		}
		r.alight()
	}
	clear(p.rides[len(stay):])
	p.rides = stay
	c.riding += len(stay)
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

// dismiss lets go of a party when its leader ends. Where the library has ended the
// leader, by a panic that is not for us to hide or by runtime.Goexit, those who
// wait for it learn so.
func (c *Combiner) dismiss(p *party) {
	if len(p.rides) == 0 {
		c.parties.Put(p)
		return
	}
	for i, r := range p.rides {
		r.call.Source = true // it is not sent again
		p.results[i] = redishold.Result{Err: errEnded}
	}
	if c.arrive(p) {
		go c.lead()
	}
}
