package ordered_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// The goroutines of one process that wait for permits have few entries in the queue of the
// store: each answer of the store contains them all.
func TestCrowdHasFewEntries(t *testing.T) {
	const permits, first = 10, 64 // `first` is sharedFirst in the core
	for name, test := range map[string]struct {
		pause time.Duration // between the goroutines as they come
		most  int           // entries
	}{
		"all come at once":          {0, first + permits},
		"one comes after the other": {time.Millisecond, permits + 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 500
				m := newMemory(time.Minute)
				l := holdfast.New(newBackend(m), nil)
				most := 0
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() {
						k, err := l.Semaphore("job", permits).Acquire(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						time.Sleep(100 * time.Millisecond)
						m.mu.Lock()
						most = max(most, len(m.queue("job")))
						m.mu.Unlock()
						if err := k.Unlock(); err != nil {
							t.Error(err)
						}
					})
					time.Sleep(test.pause)
				}
				wg.Wait()
				_ = l.Drain(context.Background())
				t.Logf("%d entries at most, %d calls that make one", most, m.count("enqueue"))
				if calls := m.count("enqueue"); most > test.most || calls > n {
					t.Errorf("%d entries at most, want %d; %d calls that make one, want %d", most, test.most, calls, n)
				}
			})
		})
	}
}
