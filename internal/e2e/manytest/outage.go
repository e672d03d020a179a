package manytest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/must"
)

const (
	// most is how many calls of Renew a second a process makes, whatever fails.
	most = 60
	// sizeEnv is "full" for the larger form of a test.
	sizeEnv = "HOLDFAST_LOAD"
)

// Full reports whether the larger form of a test is wanted, which takes too long for each
// run.
func Full() bool { return os.Getenv(sizeEnv) == "full" }

// Outage has a process hold n locks of b while fault harms the store for a while, and
// checks that none of them is lost, and that few calls of Renew are made from then on until
// all are renewed.
func Outage(t *testing.T, b driver.Backend, n int, ttl time.Duration, fault func()) {
	t.Helper()
	counted := &renewals{Backend: b}
	l := holdfast.New(counted.backend(), &holdfast.Options{TTL: ttl})
	defer must.Drain(t, l)
	held := make([]*holdfast.Lock, n)
	began := time.Now()
	Do(n, func(i int) { held[i] = must.Lock(t, l, fmt.Sprintf("%s-%d", t.Name(), i)) })
	t.Logf("%d locks are held after %v", n, time.Since(began).Round(time.Millisecond))
	time.Sleep(ttl / 3) // the locks come to the common moments
	usual := counted.mostInASecond()
	fault()
	time.Sleep(ttl / 2) // what was not renewed is lost by then, or soon will be
	lost := 0
	for _, k := range held {
		if err := k.Err(); err != nil {
			if lost++; lost == 1 {
				t.Logf("the first that is lost: %v", err)
			}
		}
	}
	got := counted.mostInASecond()
	t.Logf("TTL %v: %d of %d locks lost, %d calls of Renew a second at most, %d before", ttl, lost, n, got, usual)
	if lost > 0 {
		t.Errorf("%d of %d locks are lost", lost, n)
	}
	if got > most {
		t.Errorf("%d calls of Renew in a second, want %d at most", got, most)
	}
	Do(n, func(i int) { _ = held[i].Unlock() })
}

// renewals counts calls of Renew.
type renewals struct {
	driver.Backend

	mu    sync.Mutex
	calls []time.Time
}

// backend returns the Backend with what the Locker uses besides.
func (r *renewals) backend() driver.Backend {
	if n, ok := r.Backend.(driver.Notifier); ok {
		return struct {
			*renewals
			driver.Notifier
		}{r, n}
	}
	return r
}

func (r *renewals) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	r.mu.Lock()
	r.calls = append(r.calls, time.Now())
	r.mu.Unlock()
	return r.Backend.Renew(ctx, cs)
}

// mostInASecond returns how many calls there were in the second with the most.
func (r *renewals) mostInASecond() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := 0
	for last, at := range r.calls {
		for at.Sub(r.calls[first]) >= time.Second {
			first++
		}
		n = max(n, last-first+1)
	}
	return n
}
