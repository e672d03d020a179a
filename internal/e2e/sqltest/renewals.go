//go:build unix

package sqltest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/must"
)

// Renewals holds a thousand locks of one process, and checks that few calls renew them.
// count returns how many statements b has sent so far, of which a renewal takes each.
func Renewals(t *testing.T, b driver.Backend, each int, count func() int) {
	t.Helper()
	const n, ttl = 1000, 6 * time.Second
	const period = ttl / 3   // each lock is renewed once in it
	const calls = 2 * 2 * 20 // twice as many as a schedule of twenty moments has in two periods
	l := holdfast.New(b, &holdfast.Options{TTL: ttl})
	defer must.Drain(t, l)
	locks := make([]*holdfast.Lock, n)
	apart(n, func(i int) { locks[i] = must.Lock(t, l, fmt.Sprint("many ", i)) })
	time.Sleep(period) // the locks come to the common moments
	before := count()
	time.Sleep(2 * period)
	got := count() - before
	t.Logf("%d statements for %d locks in %v", got, n, 2*period)
	if most := each * calls; got < 2*each || got > most {
		t.Errorf("%d statements for %d locks in %v, want %d at most", got, n, 2*period, most)
	}
	apart(n, func(i int) { must.Unlock(t, locks[i]) })
}

// apart calls do with each number below n, from ten goroutines.
func apart(n int, do func(i int)) {
	const goroutines = 10
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
