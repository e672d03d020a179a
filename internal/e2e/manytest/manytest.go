// Package manytest has a process hold many locks, or many processes wait for a few,
// whatever the store is, and counts what that costs it. Package storestest runs it over a real
// server of each store.
package manytest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/must"
)

const (
	locks      = 1000
	goroutines = 20
	// calls is the most in two periods: twice as many as a schedule of twenty moments has.
	calls = 2 * 2 * 20
)

// Renewals has l hold a thousand locks, each of which is renewed once in a period, and
// checks that few calls renew them. count returns how many requests the store has got so
// far, of which a call takes each.
func Renewals(t *testing.T, l *holdfast.Locker, period time.Duration, each int, count func() int) {
	t.Helper()
	held := make([]*holdfast.Lock, locks)
	Do(locks, func(i int) { held[i] = must.Lock(t, l, fmt.Sprintf("%s-%d", t.Name(), i)) })
	time.Sleep(period) // the locks come to the common moments
	before := count()
	time.Sleep(2 * period)
	got := count() - before
	t.Logf("%d requests for %d locks in %v", got, locks, 2*period)
	if most := each * calls; got < 2*each || got > most {
		t.Errorf("%d requests for %d locks in %v, want %d at most", got, locks, 2*period, most)
	}
	Do(locks, func(i int) { must.Unlock(t, held[i]) })
}

// Do calls do with each number below n, from twenty goroutines.
func Do(n int, do func(i int)) {
	var wg sync.WaitGroup
	for first := range goroutines {
		wg.Go(func() {
			for i := first; i < n; i += goroutines {
				do(i)
			}
		})
	}
	wg.Wait()
}
