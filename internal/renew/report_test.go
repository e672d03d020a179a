package renew

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Reports are much slower than renewals. No lease ends that the store renews.
func TestSlowReportsLoseNoLease(t *testing.T) {
	inBubble(t, 3*time.Second, func(t *testing.T, k *kit) {
		k.slow = 20 * time.Millisecond
		leases := k.addMany(2000)
		time.Sleep(15 * time.Second)
		for _, l := range leases {
			l.held(t)
		}
		k.removeAll(leases...)
		time.Sleep(time.Minute) // until all is reported
	})
}

// A lease that is gone ends when the store answers that, and not when the other results of
// the call have been reported.
func TestSlowReportsDelayNoEnd(t *testing.T) {
	inBubble(t, 30*time.Second, func(t *testing.T, k *kit) {
		k.slow = 10 * time.Second
		leases := k.addMany(10)
		k.answers(each(func(c driver.Claim) driver.Renewal {
			if c.Name == "lease 9" {
				return driver.Renewal{Err: driver.ErrGone}
			}
			return driver.Renewal{ValidFor: c.TTL}
		}))
		time.Sleep(time.Second / 2)
		k.change(func() { k.ahead += time.Hour }) // all leases are due, in one call
		start := time.Now()
		time.Sleep(time.Hour)
		between(t, "it ended after", leases[9].endedAt().Sub(start), 0, TickMost)
		k.removeAll(leases...)
		time.Sleep(time.Hour)
	})
}

// A report that never returns costs one goroutine for each lease, not one for each renewal.
func TestHungReportsAreBounded(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		var under atomic.Int64
		end := make(chan struct{})
		k.Renewed = func(Report) {
			under.Add(1)
			<-end
		}
		leases := k.addMany(3)
		time.Sleep(time.Hour)
		if n := under.Load(); n == 0 || n > 3 {
			t.Errorf("%d reports are under way, want one for each lease at most", n)
		}
		for _, l := range leases {
			l.held(t)
		}
		k.mu.Lock()
		if len(k.calls) > 3 {
			t.Errorf("%d calls were reported, want none of which nothing new is reported", len(k.calls))
		}
		k.mu.Unlock()
		close(end)
		k.removeAll(leases...)
	})
}

// Of the renewals that end while an earlier one is reported, the latest is reported. Otherwise an
// observer would not know until when the store has confirmed the lease.
func TestLatestRenewalIsReported(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		begun, end := make(chan struct{}, 100), make(chan struct{})
		var reported []Report
		k.Renewed = func(r Report) {
			begun <- struct{}{}
			<-end
			k.change(func() { reported = append(reported, r) })
		}
		lease := k.add("a")
		<-begun
		time.Sleep(ttl) // several renewals
		k.answers(fail)
		time.Sleep(ttl / 2) // the last ones fail
		close(end)
		synctest.Wait()
		k.change(func() {
			if len(reported) != 2 || reported[0].Err != nil || !errors.Is(reported[1].Err, errReset) {
				t.Errorf("got the reports %+v, want the first and the latest", reported)
			}
		})
		k.removeAll(lease)
	})
}

// Renewals that succeeded are reported only if Verbose returns true. Each call is reported
// once, before its results.
func TestWhatIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		quiet          bool
		answer         driver.Renewal
		calls, reports int
		err            error // of the call
	}{
		"all that went well": {false, driver.Renewal{ValidFor: ttl}, 1, 2, nil},
		"quiet":              {true, driver.Renewal{ValidFor: ttl}, 0, 0, nil},
		"failures":           {true, driver.Renewal{Err: errReset}, 1, 2, errReset},
		"losses":             {true, driver.Renewal{Err: driver.ErrGone}, 1, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, ttl, func(t *testing.T, k *kit) {
				k.quiet = test.quiet
				a, b := k.add("a"), k.add("b")
				answers := 0
				k.answers(each(func(driver.Claim) driver.Renewal { // for the first call of both
					if answers++; answers > 2 {
						return driver.Renewal{ValidFor: ttl}
					}
					return test.answer
				}))
				k.change(func() { k.ahead += time.Minute })
				time.Sleep(TickMost + time.Millisecond)
				k.removeAll(a, b)
				k.mu.Lock()
				defer k.mu.Unlock()
				if len(k.calls) != test.calls || len(k.reports) != test.reports {
					t.Errorf("%d calls and %d renewals were reported, want %d and %d", len(k.calls), len(k.reports), test.calls, test.reports)
				}
				if len(k.calls) > 0 && k.calls[0].Claim.Name != k.asked[0].names[0] {
					t.Errorf("the call of %q was reported, want that of %q", k.calls[0].Claim.Name, k.asked[0].names[0])
				}
				if len(k.calls) > 0 && !errors.Is(k.calls[0].Err, test.err) {
					t.Errorf("the call was reported with the error %v, want %v", k.calls[0].Err, test.err)
				}
			})
		})
	}
}

// A late renewal is reported also if Verbose returns false.
func TestLateRenewalIsReported(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		k.quiet = true
		l := k.add("job")
		k.answers(fail)
		time.Sleep(ttl - margin - ttl/5)
		k.forget()
		k.answers(grant)
		time.Sleep(time.Second)
		k.Remove(l)
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.reports) != 1 || !k.reports[0].Late || k.reports[0].Margin <= 0 {
			t.Errorf("got %+v, want one late renewal", k.reports)
		}
	})
}
