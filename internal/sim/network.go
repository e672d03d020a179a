package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Link is the network between a process and the store. A Store uses Call, Receive and Deliver
// for all messages from and to the process.
type Link struct {
	*process
	drift float64 // share by which the clock of the store is faster than that of the process

	// The mutex of the simulation guards the fields below.

	cutThere, cutBack bool
	resets            bool          // a message over a cut link gives an error at once
	slow              time.Duration // the longest additional delay
	loss              float64       // share of lost messages, in addition to plan.loss
	stopped           chan struct{} // the process stands still until it is closed; nil if it runs
	delivered         time.Time     // when the last message of Deliver arrives
	budget            float64       // how many calls the process may make now, see spend
	called            time.Time     // when spend last took a call
}

var (
	errReset = errors.New("connection reset")
	errLost  = errors.New("message lost")
)

// send sends a message now, to the process if the parameter back is true, else to the store. It
// returns the time until the message arrives. It returns errLost if the message does not arrive,
// and errReset if the process must get an error instead. The messages of
// calls may overtake each other: the client library of a process may have several connections.
func (l *Link) send(back bool) (delay time.Duration, err error) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts["messages"]++
	delay = s.latency/2 + s.below(s.latency)
	if s.random.IntN(50) == 0 {
		delay += s.below(s.spike)
	}
	delay = s.onGrid(delay + s.below(l.slow))
	if delay > retry.TryTimeout(s.ttl, 0)/4 {
		s.overdue = time.Now().Add(delay)
	}
	cut := l.cutThere
	if back {
		cut = l.cutBack
	}
	switch {
	case !l.alive():
		return delay, errLost
	case !cut && s.random.Float64() >= s.loss+l.loss:
		return delay, nil
	}
	s.disturbed = time.Now()
	switch {
	case l.resets || !cut && s.random.IntN(2) == 0:
		return delay, errReset
	}
	return delay, errLost
}

// carry sends a message, and returns when the message arrives, or when the process gets an error
// instead. If the message is lost, it returns errLost at once.
func (l *Link) carry(back bool) error {
	delay, err := l.send(back)
	if !errors.Is(err, errLost) {
		time.Sleep(delay)
	}
	return err
}

// allow adds n calls to the budget of the process, for an operation of one of its workers.
func (l *Link) allow(n int) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.budget += float64(n)
}

// cleaning is how many calls a second a process may make for claims that were given up: it
// releases 32 of them at a time, each about five times, and a table releases each of them once
// more.
const cleaning = 2 * 32 * 5

// spend takes one call from the budget of the process. Each second adds some calls to the
// budget, for renewals, waits and repeated tries. spend returns false if the budget is used up.
func (l *Link) spend() bool {
	s := l.s
	second := float64(20 + 40*s.workers + s.many)
	if s.giveUpEvery > 0 || !s.calm() {
		second += cleaning
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.budget, l.called = min(l.budget+second*time.Since(l.called).Seconds(), 2*second)-1, time.Now()
	return l.budget >= 0
}

// Claims returns claims of the process with their durations by the clock of the store.
func (l *Link) Claims(claims ...driver.Claim) []driver.Claim {
	claims = slices.Clone(claims)
	for i, c := range claims {
		claims[i].TTL, claims[i].AtLeast = l.There(c.TTL), l.There(c.AtLeast)
	}
	return claims
}

// There returns a duration of the process as the clock of the store measures it.
func (l *Link) There(d time.Duration) time.Duration { return time.Duration(float64(d) * (1 - l.drift)) }

// Back returns a duration of the store as the clock of the process measures it.
func (l *Link) Back(d time.Duration) time.Duration { return time.Duration(float64(d) / (1 - l.drift)) }

// Call sends a request to the store, where execute runs, and returns the answer. If ctx ends
// first, Call returns the error of ctx, and the store may execute the request later.
func Call[T any](ctx context.Context, l *Link, execute func() (T, error)) (v T, err error) {
	if err := ctx.Err(); err != nil {
		return v, fmt.Errorf("%w: %w", driver.ErrNotExecuted, err)
	}
	if !l.spend() {
		l.s.violate("p%d makes too many calls", l.id)
	}
	type answer struct {
		v   T
		err error
	}
	got := make(chan answer, 1)
	l.s.inFlight.Add(1)
	go func() {
		defer l.s.inFlight.Add(-1)
		l.s.pass(context.Background(), &l.stopped)
		var a answer
		err := l.carry(false)
		if err == nil {
			l.s.pass(context.Background(), &l.s.stopped)
			time.Sleep(l.s.inTurn())
			a.v, a.err = execute()
			l.s.lookAtAll()
			if err = l.carry(true); !errors.Is(err, errLost) {
				l.s.pass(context.Background(), &l.stopped)
			}
		}
		if err != nil {
			a = answer{err: err}
		}
		if !errors.Is(err, errLost) {
			got <- a
		}
	}()
	select {
	case a := <-got:
		return a.v, a.err
	case <-ctx.Done():
		return v, ctx.Err()
	}
}

// Deliver sends a message from the store to the process. It calls fn with nil when the message
// arrives, or with an error when the process notices that the message was lost. Messages of
// Deliver do not overtake each other: they have a connection of their own.
func (l *Link) Deliver(fn func(error)) {
	delay, err := l.send(true)
	if err != nil {
		time.AfterFunc(l.s.ttl/4, func() { fn(errReset) })
		return
	}
	l.s.mu.Lock()
	delay = max(delay, time.Until(l.delivered)+1)
	l.delivered = time.Now().Add(delay)
	l.s.mu.Unlock()
	time.AfterFunc(delay, func() { fn(nil) })
}

// Receive sends a message from the store to the process, and waits until it arrives. It returns
// an error when the process notices that the message was lost, or the error of ctx when ctx ends.
func (l *Link) Receive(ctx context.Context) error {
	if !l.s.pass(ctx, &l.stopped) {
		return ctx.Err()
	}
	arrived := make(chan error, 1)
	l.Deliver(func(err error) { arrived <- err })
	select {
	case err := <-arrived:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
