package etcdhold

import (
	"context"
	"sync"
	"time"
)

// attempts is how often a call is made at most for one answer.
const attempts = 3

// call is a request that does no harm when it is made several times.
type call[T any] func(context.Context) (T, error)

// soon returns the first answer. A member that is silent does not answer, and the client may
// not have noticed: it chooses the next member for the next call. So when a third of the time
// of ctx has passed without an answer, soon makes another attempt, and again after another
// third. of returns the calls of an attempt, from 0: one or two.
func soon[T any](ctx context.Context, of func(attempt int) []call[T]) (T, error) {
	end, ok := ctx.Deadline()
	if !ok {
		return of(0)[0](ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 2*attempts)
	var wg sync.WaitGroup
	defer wg.Wait() // the others end with ctx
	defer cancel()
	asked, failed := 0, 0
	ask := func(attempt int) {
		for _, call := range of(attempt) {
			asked++
			wg.Go(func() {
				value, err := call(ctx)
				answers <- answer{value, err}
			})
		}
	}
	ask(0)
	again := time.NewTicker(max(time.Until(end)/attempts, 1))
	defer again.Stop()
	for made := 1; ; {
		select {
		case a := <-answers:
			if failed++; a.err == nil || failed == asked {
				return a.value, a.err
			}
		case <-again.C:
			if made < attempts {
				ask(made)
				made++
			}
		}
	}
}
