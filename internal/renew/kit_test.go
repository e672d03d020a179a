package renew

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

const (
	ttl    = 9 * time.Second
	margin = ttl / 10
)

var errReset = errors.New("connection reset")

// lease is a simple Item. It is over a margin before the end that the store has answered.
type lease struct {
	entry Entry
	kit   *kit
	name  string
	fixed bool

	mu    sync.Mutex
	holds int // the count in its claim
	until clock.Instant
	ends  clock.Instant

	// Its end.
	end  string // "gone" or "expired"; "" while it has not
	last error
	at   time.Time
}

func (l *lease) Entry() *Entry { return &l.entry }

func (l *lease) Until() clock.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

func (l *lease) Claim(clock.Instant) driver.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	return driver.Claim{Name: l.name, TTL: l.kit.TTL, Count: l.holds}
}

func (l *lease) Answered(start clock.Moment, answer driver.Renewal) (Report, bool) {
	now := l.kit.Clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	found := Report{Item: l, Err: answer.Err}
	if l.end != "" || now >= l.until {
		return found, false
	}
	found.Margin = l.until - now
	if answer.Err == nil {
		found.Late = found.Margin < l.kit.TTL/4
		if !l.fixed {
			l.ends = start.Mono + answer.ValidFor
			l.until = l.ends - l.kit.Margin
		}
	}
	return found, true
}

func (l *lease) Gone(err error, report func()) {
	l.finish("gone", err)
	l.kit.Remove(l)
	go report()
}

func (l *lease) Expired(last error) { l.finish("expired", last) }

func (l *lease) finish(end string, last error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == "" {
		l.end, l.last, l.at = end, last, time.Now()
	}
}

// state returns how the lease ended, "" if it has not.
func (l *lease) state() (end string, last error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end, l.last
}

// endedAt returns when the lease ended.
func (l *lease) endedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

// held fails unless the lease has not ended.
func (l *lease) held(t *testing.T) {
	t.Helper()
	if end, last := l.state(); end != "" {
		t.Errorf("%s is %s: %v", l.name, end, last)
	}
}

// asked is a call that the Scheduler made.
type asked struct {
	at    time.Time
	names []string
	limit time.Duration // its timeout
}

// kit is a Scheduler over a store that is a function.
type kit struct {
	*Scheduler
	ahead time.Duration // how far the wall clock is ahead

	mu      sync.Mutex
	answer  func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error)
	asked   []asked
	reports []Report
	calls   []Call
	ticks   int
	idles   int // how often Idle was called
	quiet   bool
	slow    time.Duration // how long the report of a renewal takes
}

func newKit(length time.Duration) *kit {
	k := &kit{answer: grant}
	c := clock.New()
	c.Wall = func() time.Time {
		k.mu.Lock()
		defer k.mu.Unlock()
		return time.Now().Add(k.ahead)
	}
	k.Scheduler = New(Config{
		Clock: c, TTL: length, Margin: length / 10, Renew: k.ask,
		Verbose: func() bool { return !k.quiet },
		Called: func(_ context.Context, c Call) {
			k.change(func() { k.calls = append(k.calls, c) })
		},
		Renewed: func(r Report) {
			time.Sleep(k.slow)
			k.change(func() { k.reports = append(k.reports, r) })
		},
		Ticked: func() { k.change(func() { k.ticks++ }) },
		Idle:   func() { k.change(func() { k.idles++ }) },
	})
	return k
}

// grant renews all claims.
func grant(_ context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	answers := make([]driver.Renewal, len(cs))
	for i, c := range cs {
		answers[i].ValidFor = c.TTL
	}
	return answers, nil
}

// hang does not answer before the context ends.
func hang(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func fail(context.Context, []driver.Claim) ([]driver.Renewal, error) { return nil, errReset }

func (k *kit) ask(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	until, _ := ctx.Deadline()
	a := asked{at: time.Now(), limit: time.Until(until)}
	for _, c := range cs {
		a.names = append(a.names, c.Name)
	}
	k.mu.Lock()
	k.asked = append(k.asked, a)
	answer := k.answer
	k.mu.Unlock()
	return answer(ctx, cs)
}

// change changes fields while they are in use.
func (k *kit) change(fn func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fn()
}

// answers makes fn answer the calls from now on.
func (k *kit) answers(fn func(context.Context, []driver.Claim) ([]driver.Renewal, error)) {
	k.change(func() { k.answer = fn })
}

// each returns a function that answers each claim with fn.
func each(fn func(c driver.Claim) driver.Renewal) func(context.Context, []driver.Claim) ([]driver.Renewal, error) {
	return func(_ context.Context, cs []driver.Claim) (answers []driver.Renewal, err error) {
		for _, c := range cs {
			answers = append(answers, fn(c))
		}
		return answers, nil
	}
}

// add adds a lease that the store has just granted for its TTL.
func (k *kit) add(name string) *lease { return k.addFor(name, k.TTL, false) }

func (k *kit) addFor(name string, validFor time.Duration, fixed bool) *lease {
	start := k.Clock.Read()
	l := &lease{kit: k, name: name, fixed: fixed, holds: 1, ends: start.Mono + validFor}
	l.until = l.ends - min(k.Margin, validFor/10)
	k.Add(l, start, validFor, fixed)
	return l
}

func (k *kit) addMany(n int) []*lease {
	leases := make([]*lease, n)
	for i := range leases {
		leases[i] = k.add(fmt.Sprint("lease ", i))
	}
	return leases
}

func (k *kit) removeAll(leases ...*lease) {
	for _, l := range leases {
		k.Remove(l)
	}
}

// renewals returns the calls with a name; all calls if it is "".
func (k *kit) renewals(name string) []asked {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(k.asked), func(a asked) bool {
		return name != "" && !slices.Contains(a.names, name)
	})
}

// forget deletes the record of earlier calls.
func (k *kit) forget() { k.change(func() { k.asked, k.reports, k.calls = nil, nil, nil }) }

// inBubble runs a test in fake time. It fails if a goroutine or a timer is left at the end.
func inBubble(t *testing.T, length time.Duration, test func(t *testing.T, k *kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := newKit(length)
		test(t, k)
		time.Sleep(2 * TickMost)
		synctest.Wait()
		k.Scheduler.mu.Lock()
		defer k.Scheduler.mu.Unlock()
		if n := len(k.items); n > 0 && !t.Failed() {
			t.Errorf("%d items are left", n)
		}
		if len(k.items) == 0 && k.next != 0 {
			t.Errorf("the timer fires at %v, and there is nothing to do", k.next)
		}
	})
}

// between fails unless lo <= got <= hi.
func between(t *testing.T, what string, got, lo, hi time.Duration) {
	t.Helper()
	if got < lo || got > hi {
		t.Errorf("%s: got %v, want %v to %v", what, got, lo, hi)
	}
}
