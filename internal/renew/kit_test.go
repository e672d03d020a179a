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

// lease is the simplest Item: over a margin before the end of what was answered.
type lease struct {
	entry Entry
	kit   *kit
	name  string
	fixed bool

	mu    sync.Mutex
	holds int // what its claim says
	until clock.Instant
	ends  clock.Instant

	// How it ended.
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

// endedAt returns when that was.
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

// asked is a call that was made.
type asked struct {
	at    time.Time
	names []string
	limit time.Duration // how long it may take
}

// kit is a Scheduler over a store that is a function.
type kit struct {
	*Scheduler
	ahead time.Duration // by how much the wall clock runs ahead

	mu      sync.Mutex
	answer  func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error)
	asked   []asked
	reports []Report
	calls   []Call
	ticks   int
	idles   int // how often the last item left
	quiet   bool
	slow    time.Duration // how long each report of a renewal takes
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

// hang answers nothing until the call is over.
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

// change changes what is used meanwhile.
func (k *kit) change(fn func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fn()
}

// answers makes the store answer like this from now on.
func (k *kit) answers(fn func(context.Context, []driver.Claim) ([]driver.Renewal, error)) {
	k.change(func() { k.answer = fn })
}

// each answers each claim by itself.
func each(fn func(c driver.Claim) driver.Renewal) func(context.Context, []driver.Claim) ([]driver.Renewal, error) {
	return func(_ context.Context, cs []driver.Claim) (answers []driver.Renewal, err error) {
		for _, c := range cs {
			answers = append(answers, fn(c))
		}
		return answers, nil
	}
}

// add adds a lease that the store granted just now for as long as it was asked for.
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

// renewals returns the calls that carried a name, of all calls with "".
func (k *kit) renewals(name string) []asked {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(k.asked), func(a asked) bool {
		return name != "" && !slices.Contains(a.names, name)
	})
}

// forget forgets the calls that were made.
func (k *kit) forget() { k.change(func() { k.asked, k.reports, k.calls = nil, nil, nil }) }

// inBubble runs a test in fake time, and fails if anything is left at its end.
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
