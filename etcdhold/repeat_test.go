package etcdhold

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A call to a silent member is repeated when a third of the time has passed, and the first
// answer counts. An error of the only call is returned at once.
func TestSoon(t *testing.T) {
	const limit = 3 * time.Second
	refused := errors.New("refused")
	for _, c := range []struct {
		what   string
		silent int64 // how many calls get no answer
		err    error // what the others get
		after  time.Duration
		want   error
		calls  int64
	}{
		{what: "no member is silent", calls: 1},
		{what: "one is silent", silent: 1, after: time.Second, calls: 2},
		{what: "two are silent", silent: 2, after: 2 * time.Second, calls: 3},
		{what: "all are silent", silent: 3, after: limit, want: context.DeadlineExceeded, calls: 3},
		{what: "a member refuses", err: refused, want: refused, calls: 1},
		{what: "one is silent, the next refuses", silent: 1, err: refused, after: limit, want: context.DeadlineExceeded, calls: 3},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				var made atomic.Int64
				began := time.Now()
				ask := func(ctx context.Context) (int64, error) {
					if made.Add(1) <= c.silent {
						<-ctx.Done()
						return 0, ctx.Err()
					}
					return 0, c.err
				}
				_, err := firstAnswer(ctx, func(int) []call[int64] { return []call[int64]{ask} })
				if !errors.Is(err, c.want) || time.Since(began) != c.after || made.Load() != c.calls {
					t.Errorf("got error %v after %v and %d calls, want %v after %v and %d", err, time.Since(began), made.Load(), c.want, c.after, c.calls)
				}
			})
		})
	}
}
