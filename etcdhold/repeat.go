package etcdhold

import (
	"context"
	"sync"
	"time"
)

// calls is how many calls are made at most for one answer.
const calls = 3

// soon returns the first answer to call, which does no harm when it is made several times.
// A member that is silent does not answer, and the client may not have noticed: it chooses
// the next member for the next call. So when a third of the time of ctx has passed without
// an answer, soon makes the call again, and again after another third.
func soon[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	end, ok := ctx.Deadline()
	if !ok {
		return call(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, calls)
	var wg sync.WaitGroup
	defer wg.Wait() // the others end with ctx
	defer cancel()
	ask := func() {
		wg.Go(func() {
			value, err := call(ctx)
			answers <- answer{value, err}
		})
	}
	ask()
	again := time.NewTicker(max(time.Until(end)/calls, 1))
	defer again.Stop()
	for made, failed := 1, 0; ; {
		select {
		case a := <-answers:
			if failed++; a.err == nil || failed == made {
				return a.value, a.err
			}
		case <-again.C:
			if made < calls {
				made++
				ask()
			}
		}
	}
}
