package holdfast_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// All claims of a Locker have its id and different numbers. The owner consists of both, and
// stays the same from the first try to the release.
func TestClaimsSayWhoseTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		owners := map[string]uint64{} // of a client: the numbers
		clients := map[string]bool{}
		calls := 0
		watch := func(c driver.Claim) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			clients[c.Client] = true
			owners[c.Owner] = c.Seq
			if want := fmt.Sprintf("%s:%d", c.Client, c.Seq); c.Client == "" || c.Seq == 0 || c.Owner != want {
				t.Errorf("got owner %q of client %q with number %d, want %q", c.Owner, c.Client, c.Seq, want)
			}
		}
		l := holdfast.New(&watched{memhold.New(), watch}, &holdfast.Options{TTL: 3 * time.Second})
		k := must.Lock(t, l, "a")
		all, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{l.Mutex("b"), l.Mutex("c")})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		must.Unlock(t, k)
		must.UnlockAll(t, all)
		if len(clients) != 1 || len(owners) != 3 || calls < 60 {
			t.Errorf("got %d calls for %d owners of %d clients, want 3 owners of one client", calls, len(owners), len(clients))
		}
	})
}

// watched records the claims of all calls.
type watched struct {
	*memhold.Backend
	show func(driver.Claim)
}

func (w *watched) all(cs []driver.Claim) {
	for _, c := range cs {
		w.show(c)
	}
}

func (w *watched) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	w.show(c)
	return w.Backend.Try(ctx, c)
}

func (w *watched) TryAll(ctx context.Context, cs []driver.Claim) []driver.Attempt {
	w.all(cs)
	return w.Backend.TryAll(ctx, cs)
}

func (w *watched) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	w.all(cs)
	return w.Backend.Renew(ctx, cs)
}

func (w *watched) Release(ctx context.Context, c driver.Claim) error {
	w.show(c)
	return w.Backend.Release(ctx, c)
}

func (w *watched) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	w.all(cs)
	return w.Backend.ReleaseAll(ctx, cs)
}
