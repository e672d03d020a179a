package locktest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// Ten thousand locks in one process: a few goroutines, little memory, and
// renewals that are spread over the period and pipelined.
func TestManyHolds(t *testing.T) {
	await.NotShort(t, "takes long")
	eachAdapter(t, func(s *subject) {
		const n, ttl = 10_000, 9 * time.Second
		l := s.other(&holdfast.Options{TTL: ttl})
		s.warm(l)
		goroutines, heap := runtime.NumGoroutine(), heapNow()

		locks := make([]*holdfast.Lock, n)
		var wg sync.WaitGroup
		for part := range 50 {
			wg.Go(func() {
				for i := part; i < n; i += 50 {
					locks[i] = must.Lock(s, l, fmt.Sprintf("many:%d", i))
				}
			})
		}
		wg.Wait()

		grown := float64(heapNow()-heap) / n
		if grown > 2048 {
			s.Errorf("heap: %.0f bytes for each hold, want at most 2048", grown)
		}
		// One lease long: how many goroutines, how many renewals in each tenth.
		renewed := func() int64 { return s.server.CommandStats()["pexpire"] } // the script does it once
		before, calls := renewed(), s.server.CommandStats()["evalsha"]
		var tenths []int64
		most := 0
		began := time.Now()
		for at, last := 1, before; at <= 90; at++ {
			time.Sleep(time.Until(began.Add(time.Duration(at) * ttl / 90)))
			most = max(most, runtime.NumGoroutine()-goroutines)
			if at%9 == 0 {
				now := renewed()
				tenths = append(tenths, now-last)
				last = now
			}
		}
		renewals := renewed() - before
		if calls = s.server.CommandStats()["evalsha"] - calls; calls > renewals/20 {
			s.Errorf("%d calls for %d renewals, want that many share one", calls, renewals)
		}
		if renewals < 3*n*8/10 || renewals > 3*n*14/10 {
			s.Errorf("%d renewals in one lease, want about %d", renewals, 3*n)
		}
		for i, r := range tenths {
			if r > renewals/4 { // first renewals spread over two thirds of a period: it may see 3/20
				s.Errorf("tenth %d of the lease saw %d of %d renewals: %v", i, r, renewals, tenths)
			}
		}
		if most >= 50 {
			s.Errorf("%d goroutines above idle, want less than 50", most)
		}
		for i, lock := range locks {
			if err := lock.Err(); err != nil {
				s.Fatalf("lock %d: %v", i, err)
			}
		}
		for part := range 50 {
			wg.Go(func() {
				for i := part; i < n; i += 50 {
					must.Unlock(s, locks[i])
				}
			})
		}
		wg.Wait()
		gone(s, s.server.Admin, 0)
		s.Logf("%.0f bytes and %.3f goroutines for each hold; renewals by tenths of a lease: %v", grown, float64(most)/n, tenths)
	})
}

func heapNow() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
