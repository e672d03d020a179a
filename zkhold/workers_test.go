package zkhold

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/internal/background"
)

// A goroutine that has made a call makes the next one. Four goroutines stay when there were
// more, and none when the session has ended.
func TestWorkersAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, goroutines background.Group
		quit := make(chan struct{})
		w := &workers{calls: &calls, goroutines: &goroutines, next: make(chan func()), quit: quit}
		made := 0
		for range 3 {
			w.Go(func() { made++ })
			synctest.Wait()
		}
		if n := w.idle.Load(); made != 3 || n != 1 {
			t.Errorf("%d calls made, %d goroutines wait, want 3 and one", made, n)
		}
		end := make(chan struct{})
		for range 2 * mostIdle {
			w.Go(func() { <-end })
		}
		synctest.Wait()
		close(end)
		if err := calls.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := w.idle.Load(); n != mostIdle {
			t.Errorf("%d goroutines wait, want %d", n, mostIdle)
		}
		close(quit)
		if err := goroutines.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
