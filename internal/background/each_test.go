package background_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/background"
)

// Each number comes once, and no more calls than allowed run at once.
func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int{0, 1, 2, 10} {
			const most = 3
			calls := make([]atomic.Int64, n)
			began := time.Now()
			background.Each(n, most, func(i int) {
				calls[i].Add(1)
				time.Sleep(time.Second)
			})
			if took, want := time.Since(began), time.Duration((n+most-1)/most)*time.Second; took != want {
				t.Errorf("%d calls of a second, three at once: got %v, want %v", n, took, want)
			}
			for i := range calls {
				if got := calls[i].Load(); got != 1 {
					t.Errorf("%d of %d came %d times", i, n, got)
				}
			}
		}
	})
}
