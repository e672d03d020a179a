package storestest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// Clients that want one lock all the time have it equally often, on stores where they take
// turns.
func TestShares(t *testing.T) {
	const clients, turns, work = 4, 200, 5 * time.Millisecond
	for name, start := range stores() {
		switch name {
		case "memory", "quorum", "mixed", "timestamp", "shedlock": // who gets it is luck
			continue
		}
		t.Run(name, func(t *testing.T) {
			open := start(t)
			var inside, left atomic.Int32
			left.Store(turns)
			got := make([]int, clients)
			ctx := await.Context(t, time.Minute)
			lockers, pauses := make([]*holdfast.Locker, clients), make([]time.Duration, clients)
			for i := range lockers {
				lockers[i] = holdfast.New(open(t), nil)
				t.Cleanup(func() { must.Drain(t, lockers[i]) })
				must.Unlock(t, must.Lock(t, lockers[i], "connect")) // who connects late has fewer turns
			}
			began := time.Now()
			var wg sync.WaitGroup
			for i, l := range lockers {
				last := began
				wg.Go(func() {
					for left.Load() > 0 {
						k, err := l.Lock(ctx, "shared")
						if err != nil {
							t.Error(err)
							return
						}
						if n := inside.Add(1); n != 1 {
							t.Errorf("%d clients hold the lock", n)
						}
						pauses[i], last = max(pauses[i], time.Since(last)), time.Now()
						time.Sleep(work)
						inside.Add(-1)
						got[i]++
						left.Add(-1)
						if err := k.Unlock(); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			t.Logf("%v holds of %v in %v; longest time from one to the next: %v", got, work, time.Since(began).Round(time.Millisecond), pauses)
			for i, n := range got {
				if n < turns/clients*7/10 {
					t.Errorf("client %d had the lock %d times of %d, want at least 0.7 of an equal share", i, n, turns)
				}
			}
		})
	}
}
