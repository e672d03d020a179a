package background

import (
	"sync"
	"sync/atomic"
)

// Each calls `do` with each number from 0 to n-1, and makes at most `most` of these calls at the same
// time. It returns when all have returned.
func Each(n, most int, do func(i int)) {
	if n == 1 {
		do(0)
		return
	}
	var all sync.WaitGroup
	var next atomic.Int64
	for range min(n, most) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	all.Wait()
}
