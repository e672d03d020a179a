package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Link is the network between a process and the store. A store sends all that goes to the
// process or comes from it with Call, Receive and Deliver.
type Link struct {
	*process
	drift float64 // by what share the clock of the store runs faster than that of the process

	// What follows is guarded by the mutex of the simulation.

	cutThere, cutBack bool
	resets            bool          // a cut is an error at once, not silence
	slow              time.Duration // the longest additional delay
	loss              float64       // in addition
	stopped           chan struct{} // the process stands still until it is closed; nil if it runs
	lastThere         time.Time     // when the last message arrives, which none overtakes
	lastBack          time.Time
	budget            float64 // how many calls it may make at once, beside those of its workers
	called            time.Time
}

var (
	errReset = errors.New("connection reset")
	errLost  = errors.New("message lost")
)

// send sends a message now. It returns how long that takes, and errLost if it does not
// arrive, or errReset if the process is to get an error in its place.
func (l *Link) send(back bool) (delay time.Duration, err error) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts["messages"]++
	delay = s.latency/2 + s.below(s.latency)
	if s.random.IntN(50) == 0 {
		delay += s.below(s.ttl / 50)
	}
	delay = s.onGrid(delay + s.below(l.slow))
	last, cut := &l.lastThere, l.cutThere
	if back {
		last, cut = &l.lastBack, l.cutBack
	}
	if !s.unordered {
		delay = max(delay, time.Until(*last))
		*last = time.Now().Add(delay)
	}
	switch {
	case !l.alive():
		return delay, errLost
	case !cut && s.random.Float64() >= s.loss+l.loss:
		return delay, nil
	case l.resets || !cut && s.random.IntN(2) == 0:
		return delay, errReset
	}
	return delay, errLost
}

// carry sends a message, and returns when it arrives, or the process gets an error in its
// place. It returns errLost at once.
func (l *Link) carry(back bool) error {
	delay, err := l.send(back)
	if !errors.Is(err, errLost) {
		time.Sleep(delay)
	}
	return err
}

// allow gives the process some calls, for what one of its workers does.
func (l *Link) allow(n int) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.budget += float64(n)
}

// cleaning is how many calls a second a process makes for claims that were given up: 32 at a
// time are released, each about five times, and a table releases them once more by itself.
const cleaning = 2 * 32 * 5

// spend takes one call, of which a process has few in a second of its own: to renew, to wait
// and to try again. It returns false if there is none.
func (l *Link) spend() bool {
	s := l.s
	second := float64(20 + 40*s.workers + s.many)
	if !s.calm() {
		second += cleaning
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.budget, l.called = min(l.budget+second*time.Since(l.called).Seconds(), 2*second)-1, time.Now()
	return l.budget >= 0
}

// Claims returns claims of the process by the clock of the store.
func (l *Link) Claims(claims ...driver.Claim) []driver.Claim {
	claims = slices.Clone(claims)
	for i, c := range claims {
		claims[i].TTL, claims[i].AtLeast = l.There(c.TTL), l.There(c.AtLeast)
	}
	return claims
}

// There is a duration of the process by the clock of the store.
func (l *Link) There(d time.Duration) time.Duration { return time.Duration(float64(d) * (1 - l.drift)) }

// Back is a duration of the store by the clock of the process.
func (l *Link) Back(d time.Duration) time.Duration { return time.Duration(float64(d) / (1 - l.drift)) }

// Call sends a request to the store, which may execute it after ctx has ended, and returns
// the answer.
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

// Deliver runs fn when a message of the store arrives, or when the process notices that it
// was lost.
func (l *Link) Deliver(fn func(error)) {
	delay, err := l.send(true)
	if err != nil {
		time.AfterFunc(l.s.ttl/4, func() { fn(errReset) })
	} else {
		time.AfterFunc(delay, func() { fn(nil) })
	}
}

// Receive waits for a message of the store to arrive. It returns an error when the process
// notices that it was lost.
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
