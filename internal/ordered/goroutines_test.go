package ordered_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Goroutines of one process that can hold beside others have entries of their own in the
// queue of the store, and wait there. In a queue of the process they would wait for claims
// that are behind them in the store.
func TestGoroutinesOfOneProcess(t *testing.T) {
	for name, acquire := range map[string]func(ctx context.Context, l *holdfast.Locker, i int) (*holdfast.Lock, error){
		"permits": func(ctx context.Context, l *holdfast.Locker, _ int) (*holdfast.Lock, error) {
			return l.Semaphore("job", 1).Acquire(ctx)
		},
		"readers and writers": func(ctx context.Context, l *holdfast.Locker, i int) (*holdfast.Lock, error) {
			if i%4 == 0 {
				return l.RWMutex("job").Write.Lock(ctx)
			}
			return l.RWMutex("job").Read.Lock(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, ps := processes(t, 3)
				var wg sync.WaitGroup
				for _, p := range ps {
					l := holdfast.New(p, nil)
					for i := range 3 {
						wg.Go(func() {
							for range 20 {
								ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
								lock, err := acquire(ctx, l, i)
								cancel()
								if err != nil {
									t.Error(err)
									return
								}
								time.Sleep(time.Millisecond)
								if err := lock.Unlock(); err != nil {
									t.Error(err)
								}
							}
						})
					}
				}
				wg.Wait()
			})
		})
	}
}
