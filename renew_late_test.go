package holdfast

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// lateness collects the reports of renewals.
type lateness struct {
	log bytes.Buffer

	mu       sync.Mutex
	renewals []Event
}

func (r *lateness) options() *Options {
	return &Options{
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
		Observe: func(_ context.Context, e Event) {
			if e.Type == EventRenew {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.renewals = append(r.renewals, e)
			}
		},
	}
}

// late fails unless want renewals were reported as late, in all reports. It returns how
// much of the lease was left, by the events.
func (r *lateness) late(t *testing.T, want int) (left time.Duration) {
	t.Helper()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	if got := strings.Count(r.log.String(), "renewal late"); got != want {
		t.Errorf("%d warnings, want %d:\n%s", got, want, r.log.String())
	}
	events := 0
	r.mu.Lock()
	for _, e := range r.renewals {
		if e.Late {
			events++
			left = e.Remaining
		}
	}
	r.mu.Unlock()
	if events != want {
		t.Errorf("%d events say late, want %d", events, want)
	}
	return left
}

// A store that grants a fair lock at the release of another grants it for a short time, as
// Redis does. Its early renewal is not reported as late.
func TestShortGrantIsNotRenewedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r lateness
		store := &shortGrants{Backend: memhold.New(), after: 500 * time.Millisecond, validFor: 4 * time.Second}
		l := New(store, r.options())
		lock, err := l.FairMutex("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		r.late(t, 0)
		_ = lock.Unlock()
	})
}

// If its renewals fail until little is left, it is late, and the figures are those of the
// short lease.
func TestShortGrantThatIsRenewedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r lateness
		store := &shortGrants{Backend: memhold.New(), after: 500 * time.Millisecond, validFor: 4 * time.Second, deaf: 2600 * time.Millisecond}
		l := New(store, r.options())
		began := time.Now()
		lock, err := l.FairMutex("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		left := r.late(t, 1)
		if left <= 0 || left > 4*time.Second-2600*time.Millisecond {
			t.Errorf("the events say that %v were left of a lease of 4s that was renewed 2.6s after it began, %v ago", left, time.Since(began))
		}
		_ = lock.Unlock()
	})
}

// After a step of the wall clock the Locker renews its locks. That does not extend a lock
// with a fixed end, so it is never late.
func TestFixedLeaseIsNeverLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r lateness
		var ahead atomic.Int64
		l := New(memhold.New(), r.options())
		l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		lock, err := l.Lock(t.Context(), "job", Lease(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(55 * time.Second)
		ahead.Store(int64(2 * time.Second)) // more than half of the margin, less than what is left
		time.Sleep(1500 * time.Millisecond)
		r.mu.Lock()
		asked := len(r.renewals)
		r.mu.Unlock()
		if asked == 0 {
			t.Error("the store was not asked after the clock was set: this test tests nothing")
		}
		_ = lock.Unlock()
		r.late(t, 0)
	})
}

// shortGrants is a store that refuses the first try of a fair claim, and grants it for a
// short time while it waits.
type shortGrants struct {
	*memhold.Backend
	after, validFor time.Duration
	deaf            time.Duration // after the grant, renewals are not answered for so long

	granted time.Time
}

func (s *shortGrants) Try(context.Context, driver.Claim) (driver.Outcome, error) {
	return driver.Outcome{RetryAfter: time.Minute}, nil
}

func (s *shortGrants) Renew(_ context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	if time.Since(s.granted) < s.deaf {
		return nil, errors.New("connection reset")
	}
	return []driver.Renewal{{ValidFor: cs[0].TTL}}, nil
}

func (s *shortGrants) Release(context.Context, driver.Claim) error { return nil }

func (s *shortGrants) Waiter(driver.Claim) driver.Waiter { return shortGrant{s} }

type shortGrant struct{ *shortGrants }

func (w shortGrant) Wait(context.Context, driver.Outcome) (driver.Outcome, error) {
	time.Sleep(w.after)
	w.granted = time.Now()
	return driver.Outcome{Granted: true, Token: 7, ValidFor: w.validFor}, nil
}

func (w shortGrant) Close() {}
