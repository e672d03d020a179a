package etcdhold

import (
	"context"
	"sync"
	"time"
)

// untimed is a context that hides its deadline from the client. A call still ends at the
// deadline, because the context then ends. But the client does not send the deadline to the
// server, which would start a timer for it. The server has a limit of its own.
type untimed struct{ context.Context }

// Deadline returns no deadline.
func (untimed) Deadline() (time.Time, bool) { return time.Time{}, false }

// attempts is the largest number of attempts to get one answer.
const attempts = 3

// call is a request that has the same effect if it is made several times.
type call[T any] func(context.Context) (T, error)

// firstAnswer makes up to three attempts and returns the first answer without an error. When a
// member stops responding, the client notices that late, but makes its next call to another
// member. So firstAnswer makes the second attempt when a third of the time until the deadline
// of ctx has passed without an answer, and the third attempt after another third. The function
// `of` returns the calls of attempt 0, 1 or 2: one call or two. If all calls so far have
// failed, firstAnswer returns the last error.
func firstAnswer[T any](ctx context.Context, of func(attempt int) []call[T]) (T, error) {
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
	defer wg.Wait() // the other calls end with ctx
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
