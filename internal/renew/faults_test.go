package renew

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// If a store stops answering, in whatever way, the lease ends a margin before the store can
// grant it to another client, with the last error.
func TestLeaseExpiresInTime(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(context.Context, []driver.Claim) ([]driver.Renewal, error)
		last   error // nil: any error
	}{
		"hangs":        {hang, nil},
		"errors":       {fail, errReset},
		"not executed": {func(context.Context, []driver.Claim) ([]driver.Renewal, error) { return nil, driver.ErrNotExecuted }, driver.ErrNotExecuted},
		"refuses":      {func(context.Context, []driver.Claim) ([]driver.Renewal, error) { return nil, driver.ErrRefused }, driver.ErrRefused},
		"each errors":  {each(func(driver.Claim) driver.Renewal { return driver.Renewal{Err: errReset} }), errReset},
		"answers less": {func(context.Context, []driver.Claim) ([]driver.Renewal, error) { return nil, nil }, nil},
		"never ends": {func(context.Context, []driver.Claim) ([]driver.Renewal, error) {
			time.Sleep(time.Hour)
			return nil, nil
		}, retry.ErrNoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, ttl, func(t *testing.T, k *kit) {
				start := time.Now()
				l := k.add("job")
				k.answers(test.answer)
				time.Sleep(ttl - margin)
				synctest.Wait()
				end, last := l.state()
				if end != "expired" || last == nil || test.last != nil && !errors.Is(last, test.last) {
					t.Fatalf("got %q, %v, want it expired with %v", end, last, test.last)
				}
				between(t, "it ended after", l.endedAt().Sub(start), ttl-margin, ttl-margin)
				time.Sleep(time.Hour) // until the call that hangs has ended
				if end, _ := l.state(); end != "expired" {
					t.Errorf("the answer that came too late changed the end to %q", end)
				}
			})
		})
	}
}

// If a store does not answer for less than a lease, no lease is lost. It is asked
// repeatedly, each time with a longer timeout, and with the usual one after an answer.
func TestRenewalIsRetried(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		l := k.add("job")
		for range 20 {
			k.forget()
			k.answers(fail)
			time.Sleep(ttl / 2)
			calls := k.renewals("")
			if len(calls) < 4 {
				t.Errorf("%d calls while the store is away", len(calls))
			}
			for i, c := range calls {
				if want := retry.Timeout(ttl, i); c.limit != want {
					t.Errorf("call %d may take %v, want %v", i, c.limit, want)
				}
				if i > 0 {
					between(t, "a call after the one before", c.at.Sub(calls[i-1].at), 7*time.Millisecond, 250*time.Millisecond)
				}
			}
			if err := k.LastError(l); !errors.Is(err, errReset) {
				t.Errorf("Trouble: got %v, want what went wrong", err)
			}
			k.answers(grant)
			time.Sleep(time.Second)
			l.held(t)
			if err := k.LastError(l); err != nil {
				t.Errorf("Trouble after a renewal: got %v", err)
			}
		}
		k.Remove(l)
	})
}

// An answer counts from before the call, however late it comes.
func TestLateAnswerGivesNoLongerLease(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		l := k.add("job")
		var renewed time.Time
		k.answers(func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			first := false
			k.change(func() {
				if first = renewed.IsZero(); first {
					renewed = time.Now()
				}
			})
			if !first {
				return hang(ctx, cs)
			}
			time.Sleep(300 * time.Millisecond)
			return grant(ctx, cs)
		})
		time.Sleep(2 * ttl)
		k.change(func() {
			between(t, "it ended after the renewal began", l.endedAt().Sub(renewed), ttl-margin, ttl-margin)
		})
	})
}

func TestGone(t *testing.T) {
	gone := &driver.GoneError{Reason: driver.ReasonForced}
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		l, other := k.add("job"), k.add("other")
		k.answers(each(func(c driver.Claim) driver.Renewal {
			if c.Name == "job" {
				return driver.Renewal{Err: gone}
			}
			return driver.Renewal{ValidFor: c.TTL}
		}))
		time.Sleep(ttl)
		if end, last := l.state(); end != "gone" || !errors.Is(last, gone) {
			t.Errorf("got %q, %v, want gone", end, last)
		}
		if n := len(k.renewals("job")); n != 1 {
			t.Errorf("%d renewals of what is gone, want 1", n)
		}
		other.held(t)
		k.mu.Lock()
		if !slices.ContainsFunc(k.reports, func(r Report) bool { return r.Item == l && errors.Is(r.Err, gone) }) {
			t.Error("the renewal that found it gone was not reported")
		}
		k.mu.Unlock()
		k.Remove(other)
	})
}

// If one claim makes the store's code panic, only its lease is lost.
func TestPanicCostsOneLease(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		leases := k.addMany(1000)
		k.answers(func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			if slices.ContainsFunc(cs, func(c driver.Claim) bool { return c.Name == "lease 500" }) {
				panic("cannot renew this")
			}
			return grant(ctx, cs)
		})
		time.Sleep(10 * ttl)
		for i, l := range leases {
			if i != 500 {
				l.held(t)
			} else if end, last := l.state(); end != "gone" || !errors.Is(last, errPanic) || !strings.Contains(last.Error(), "cannot renew this") {
				t.Errorf("the one that panics: got %q, %v", end, last)
			}
		}
		k.removeAll(leases...)
	})
}

// Leases whose renewal failed share calls with those that failed as often, and with no
// others, also if all are due at once.
func TestFailuresTravelApart(t *testing.T) {
	inBubble(t, 30*time.Second, func(t *testing.T, k *kit) {
		failed := map[string]int{}
		k.answers(func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			answers, frozen := make([]driver.Renewal, len(cs)), false
			k.change(func() {
				before := failed[cs[0].Name]
				for i, c := range cs {
					if failed[c.Name] != before {
						t.Errorf("%s failed %d times, and travels with one that failed %d times", c.Name, failed[c.Name], before)
					}
					answers[i].ValidFor = c.TTL
					if strings.HasSuffix(c.Name, "7") {
						answers[i].Err = errReset
						frozen = true
					}
				}
				for i, c := range cs {
					if answers[i].Err != nil {
						failed[c.Name]++
					}
				}
			})
			if frozen {
				<-ctx.Done()
			}
			return answers, nil
		})
		leases := k.addMany(100)
		for range 6 {
			time.Sleep(4 * time.Second)
			k.change(func() { k.ahead += 2 * time.Second }) // a step of the clock: all leases are due
		}
		together := 0
		for _, c := range k.renewals("lease 8") {
			together = max(together, len(c.names))
			if c.limit > retry.Timeout(30*time.Second, 0) {
				t.Errorf("a healthy lease waits for up to %v, want %v", c.limit, retry.Timeout(30*time.Second, 0))
			}
		}
		if together < 90 {
			t.Errorf("%d leases travelled together at most: the test tests nothing", together)
		}
		k.removeAll(leases...)
	})
}

// A call goes on while one of its leases is held, and ends with the last of them.
func TestCallEndsWithItsLeases(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		ended := make(chan error, 1)
		k.answers(func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		})
		a, b := k.add("a"), k.add("b")
		k.change(func() { k.ahead += time.Minute })
		time.Sleep(TickMost)
		synctest.Wait()
		if n := len(k.renewals("")); n != 1 {
			t.Fatalf("%d calls are under way, want one for both", n)
		}
		k.Remove(a)
		k.Remove(a) // a second call has no effect
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("the call ended with %v while one of its leases is held", err)
		default:
		}
		k.Remove(b)
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the call ended with %v, want it cancelled", err)
			}
		default:
			t.Error("the call goes on, and nobody needs it")
		}
		if err := k.LastError(b); errors.Is(err, context.Canceled) || err == nil {
			t.Errorf("the trouble with its renewals was %v, want that the store did not answer", err)
		}
		time.Sleep(ttl)
		if n := len(k.renewals("")); n != 1 {
			t.Errorf("%d calls, want no other", n)
		}
	})
}

// The next renewal counts from the start of the call, so a slow store is asked as often.
func TestSlowAnswersDelayNoRenewal(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		k.answers(func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			time.Sleep(400 * time.Millisecond)
			return grant(ctx, cs)
		})
		l := k.add("job")
		time.Sleep(time.Minute)
		l.held(t)
		calls := k.renewals("")
		for i, c := range calls[1:] {
			between(t, "a call after the one before", c.at.Sub(calls[i].at), ttl/3-ttl/60, ttl/3)
		}
		k.Remove(l)
	})
}
