package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const ttl = 30 * time.Second

// script is a call that gives one answer after the other, and repeats the last one.
type script struct {
	answers []error
	calls   []time.Duration // when each call was made, since the first
	limits  []time.Duration // the timeout of each call
	began   time.Time
}

func (s *script) call(ctx context.Context) error {
	if s.began.IsZero() {
		s.began = time.Now()
	}
	until, ok := ctx.Deadline()
	if !ok {
		return errors.New("the attempt is not bounded")
	}
	n := len(s.calls)
	s.calls = append(s.calls, time.Since(s.began))
	s.limits = append(s.limits, time.Until(until))
	err := s.answers[min(n, len(s.answers)-1)]
	if errors.Is(err, errHangs) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// errHangs is for a call that is not answered before its context ends.
var errHangs = errors.New("hangs")

var errReset = errors.New("connection reset")

// A call is repeated until it is answered, or its error is final.
func TestDoStopsAtAnAnswer(t *testing.T) {
	refused := fmt.Errorf("%w: NOPERM", driver.ErrRefused)
	for name, test := range map[string]struct {
		answers []error
		want    error
	}{
		"at once":                {[]error{nil}, nil},
		"after failures":         {[]error{errReset, driver.ErrNotExecuted, errHangs, nil}, nil},
		"final at once":          {[]error{refused}, refused},
		"final after a failures": {[]error{errReset, refused}, refused},
		"gone":                   {[]error{errReset, driver.ErrGone}, driver.ErrGone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: test.answers}
				if err := retry.Do(t.Context(), ttl, s.call); !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
				if len(s.calls) != len(test.answers) {
					t.Errorf("%d calls, want %d", len(s.calls), len(test.answers))
				}
			})
		})
	}
}

// The pause begins with 10 ms and doubles up to a quarter of a second. It is shorter by up
// to a quarter, at random: clients that fail together do not return together.
func TestPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []error{errReset}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_ = retry.Do(ctx, ttl, s.call)
		most := 10 * time.Millisecond
		for i := 1; i < len(s.calls); i++ {
			if pause := s.calls[i] - s.calls[i-1]; pause > most || pause < most*3/4 {
				t.Errorf("pause %d: got %v, want %v less a quarter at most", i, pause, most)
			}
			most = min(2*most, 250*time.Millisecond)
		}
		if n := len(s.calls); n < 40 || n > 60 {
			t.Errorf("%d calls in 10s, want about four a second", n)
		}
	})
}

func TestDelayHasJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		seen[retry.Delay(3, time.Hour)] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d different pauses of 100: clients that fail together return together", len(seen))
	}
	if got := retry.Delay(5, 2); got != 2 {
		t.Errorf("got %v, want the shortest pauses as they are", got)
	}
}

// Each attempt has twice the timeout of the one before, up to half of the lease and 4 s.
func TestTimeoutsGrow(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, test := range []struct {
		ttl  time.Duration
		want []time.Duration
	}{
		{30 * time.Second, []time.Duration{ms(500), ms(1000), ms(2000), ms(4000), ms(4000)}},
		{3 * time.Second, []time.Duration{ms(300), ms(600), ms(1200), ms(1500), ms(1500)}},
		{100 * time.Millisecond, []time.Duration{ms(20), ms(40), ms(50), ms(50)}},
		{10 * time.Millisecond, []time.Duration{ms(20), ms(20)}},
	} {
		for failures, want := range test.want {
			if got := retry.Timeout(test.ttl, failures); got != want {
				t.Errorf("TTL %v after %d failures: got %v, want %v", test.ttl, failures, got, want)
			}
			if got := retry.ReleaseTimeout(test.ttl, failures); got != min(want, time.Second) {
				t.Errorf("release, TTL %v after %d failures: got %v, want %v", test.ttl, failures, got, min(want, time.Second))
			}
		}
		if got := retry.Timeout(test.ttl, 1000); got != test.want[len(test.want)-1] {
			t.Errorf("TTL %v after 1000 failures: got %v", test.ttl, got)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []error{errHangs, errHangs, errHangs, nil}}
		if err := retry.Do(t.Context(), ttl, s.call); err != nil {
			t.Fatal(err)
		}
		for i, limit := range s.limits {
			if want := retry.Timeout(ttl, i); limit != want {
				t.Errorf("attempt %d may take %v, want %v", i, limit, want)
			}
		}
	})
}

// A caller that gives up gets the error of its context and the last error of the store.
// With a context that has ended before, no call is made.
func TestDoEndsWithItsContext(t *testing.T) {
	for name, test := range map[string]struct {
		answers []error
		limit   time.Duration
		want    []error
		calls   bool
	}{
		"while it pauses":       {[]error{errReset}, time.Second, []error{context.DeadlineExceeded, errReset}, true},
		"while the store hangs": {[]error{errReset, errHangs}, time.Second, []error{context.DeadlineExceeded, errReset}, true},
		"it never said a word":  {[]error{errHangs}, 10 * time.Second, []error{context.DeadlineExceeded}, true},
		"before it began":       {[]error{nil}, 0, []error{context.DeadlineExceeded}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: test.answers}
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				start := time.Now()
				err := retry.Do(ctx, ttl, s.call)
				for _, want := range test.want {
					if !errors.Is(err, want) {
						t.Errorf("got %v, want %v in it", err, want)
					}
				}
				if took := time.Since(start); took != test.limit {
					t.Errorf("it ended after %v, want %v", took, test.limit)
				}
				if (len(s.calls) > 0) != test.calls {
					t.Errorf("%d calls", len(s.calls))
				}
			})
		})
	}
}

// A loop that begins after a failed call pauses first.
func TestLoopAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loop retry.Loop
		loop.Failed(errReset)
		start := time.Now()
		if !loop.Next(t.Context()) {
			t.Fatal("the loop ended")
		}
		if time.Since(start) == 0 {
			t.Error("no pause after a failure")
		}
		if loop.Failures() != 1 {
			t.Errorf("%d failures, want 1", loop.Failures())
		}
	})
}

// A waiter sleeps until the time that the store has answered, but not longer than a second,
// or than the store allows.
func TestSleepLimit(t *testing.T) {
	const second, ms = time.Second, time.Millisecond
	for range 100 {
		for _, test := range []struct{ recheck, after, least, most time.Duration }{
			{0, 0, second * 3 / 4, second},
			{0, time.Minute, second * 3 / 4, second},
			{0, -time.Second, second * 3 / 4, second},
			{0, 100 * ms, 103 * ms, 105 * ms},
			{time.Minute, 0, 45 * second, time.Minute},
			{time.Minute, 20 * second, 20 * second, 20*second + 5*ms},
		} {
			if got := retry.SleepLimit(test.recheck, test.after); got < test.least || got > test.most {
				t.Fatalf("%v, after %v: got %v, want %v to %v", test.recheck, test.after, got, test.least, test.most)
			}
		}
	}
}

// waiter is a driver.Waiter that wakes after a time, with an error or without. If after is
// 0, it never wakes.
type waiter struct {
	after time.Duration
	err   error
	saw   *driver.Outcome
}

func (w waiter) Wait(ctx context.Context, answer driver.Outcome) (driver.Outcome, error) {
	*w.saw = answer
	if w.after > 0 && !retry.Sleep(ctx, w.after) || w.after == 0 {
		<-ctx.Done()
		return driver.Outcome{}, ctx.Err()
	}
	return driver.Outcome{Token: 3}, w.err
}

func (w waiter) Close() {}

func TestNap(t *testing.T) {
	const limit = time.Second
	for name, test := range map[string]struct {
		waiter     waiter
		least, end time.Duration
		woken      bool
	}{
		"it wakes":              {waiter{after: 300 * time.Millisecond}, 300 * time.Millisecond, 300 * time.Millisecond, true},
		"it never wakes":        {waiter{}, limit, limit, false},
		"it cannot wake":        {waiter{after: 1, err: errors.ErrUnsupported}, 187 * time.Millisecond, 251 * time.Millisecond, false},
		"it fails near the end": {waiter{after: limit - 1, err: errReset}, limit, limit, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.waiter.saw = new(driver.Outcome)
				start := time.Now()
				meanwhile, woken := retry.Nap(t.Context(), test.waiter, driver.Outcome{Ahead: 7}, limit)
				if woken != test.woken {
					t.Errorf("woken: got %v, want %v", woken, test.woken)
				}
				if test.woken != (meanwhile.Token == 3) && test.waiter.err == nil {
					t.Errorf("meanwhile: got %+v", meanwhile)
				}
				if took := time.Since(start); took < test.least || took > test.end {
					t.Errorf("it took %v, want %v to %v", took, test.least, test.end)
				}
				if test.waiter.saw.Ahead != 7 {
					t.Error("the waiter was not given the answer of the store")
				}
			})
		})
	}
}

func TestNapEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, woken := retry.Nap(ctx, waiter{after: 1, err: errReset, saw: new(driver.Outcome)}, driver.Outcome{}, time.Second); woken {
			t.Error("nobody woke it")
		}
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("it took %v, want no longer than its context", took)
		}
	})
}
