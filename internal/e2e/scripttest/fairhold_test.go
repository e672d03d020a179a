package scripttest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

// Fair locks of package redishold on a real server.

func fairClaim(number string) driver.Claim {
	c := claim("stock:42", number)
	c.Fair = true
	return c
}

// awaitQueue returns when n claims wait for the lock.
func awaitQueue(t *testing.T, server *redistest.Server, n int64) {
	t.Helper()
	if !await.Eventually(5*time.Second, func() bool { return server.Int("LLEN", queueKey) == n }) {
		t.Fatalf("queue: got %q, want %d waiters", server.Strings("LRANGE", queueKey, "0", "-1"), n)
	}
}

// However many died in the queue, the next gets the lock within 5 seconds.
func TestFairDeadWaitersDelayTheNextOnce(t *testing.T) {
	server, b := startStore(t, nil)
	holder := fairClaim("1")
	mustTry(t, b, holder)
	for i := range 20 {
		mustTry(t, b, fairClaim(fmt.Sprint("dead", i))) // and never again
	}
	start := time.Now()
	locker := holdfast.New(b, nil)
	t.Cleanup(func() { must.Drain(t, locker) })
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		awaitQueue(t, server, 21)
		if err := b.Release(bounded(t), holder); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
	lock, err := locker.FairMutex("stock:42").Lock(bounded(t))
	took := time.Since(start)
	if err != nil {
		t.Fatal(err)
	}
	if took > 5*time.Second || took < 3*time.Second {
		t.Errorf("granted after %v, want about 4s", took)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestFairGivingUpLeavesNoPlace(t *testing.T) {
	server, b := startStore(t, nil)
	first, second, third := fairClaim("1"), fairClaim("2"), fairClaim("3")
	mustTry(t, b, first)
	mustTry(t, b, second)
	last := mustTry(t, b, third)
	if last.Granted || last.RetryAfter <= 0 || last.RetryAfter > first.TTL {
		t.Fatalf("got %+v, want busy", last)
	}
	w := b.Waiter(third)
	defer w.Close()
	mustWait(t, w, last) // subscribes
	mustTry(t, b, third)
	mustRelease(t, b, first)
	last = mustTry(t, b, third)
	if last.Granted || last.RetryAfter <= 0 || last.RetryAfter > 4*time.Second {
		t.Fatalf("got %+v, want to come back within 4s: it is another's turn", last)
	}
	mustRelease(t, b, second) // which was given the lock
	if o := mustWait(t, w, last); !o.Granted || o.Token == 0 || o.ValidFor > 4*time.Second || o.ValidFor < 3*time.Second {
		t.Fatalf("Wait: got %+v, want the grant", o)
	}
	mustGrant(t, b, third)
	mustRenewOn(t, b, third)
	mustRenewAsGone(t, b, second)
	third.Indeterminate = true
	mustRelease(t, b, third)
	if _, err := b.Try(bounded(t), third); !errors.Is(err, driver.ErrGone) {
		t.Fatalf("a late Try: got %v, want ErrGone", err)
	}
	if err := b.Release(bounded(t), second); !errors.Is(err, driver.ErrGone) {
		t.Fatalf("Release once more: got %v, want ErrGone", err)
	}
	if stay := server.KeysWithoutTTL(isTokenCounter); len(stay) > 0 {
		t.Fatalf("keys without TTL: %q", stay)
	}
}

// hear waits for c, whose last Try was refused with last, until it is granted
// without another one.
func hear(t *testing.T, w driver.Waiter, last driver.Outcome) driver.Outcome {
	t.Helper()
	ctx := bounded(t)
	for {
		o, err := w.Wait(ctx, last)
		if err != nil {
			t.Fatalf("Wait: %v, and no grant", err)
		}
		if o.Granted {
			return o
		}
	}
}

// listening returns a Waiter of c that is subscribed, and the Outcome of a Try
// since then.
func listening(t *testing.T, b *redishold.Backend, c driver.Claim) (driver.Waiter, driver.Outcome) {
	t.Helper()
	w := b.Waiter(c)
	t.Cleanup(w.Close)
	mustWait(t, w, mustRefuse(t, b, c))
	return w, mustRefuse(t, b, c)
}

// Tokens rise over grants that releases make, and those that a Try makes.
func TestFairGrantsOnReleaseHaveRisingTokens(t *testing.T) {
	_, b := startStore(t, nil)
	holder := fairClaim("0")
	token := mustTry(t, b, holder).Token
	for i := range 6 {
		next := fairClaim(fmt.Sprint(i + 1))
		w, last := listening(t, b, next)
		mustRelease(t, b, holder)
		granted := hear(t, w, last)
		if granted.Token <= token {
			t.Fatalf("grant %d: got token %d after %d", i, granted.Token, token)
		}
		token = granted.Token
		w.Close()
		if i%2 == 0 { // asks all the same, as one that did not hear
			again := mustTry(t, b, next)
			if !again.Granted || again.Token <= token {
				t.Fatalf("Try after the grant: got %+v, want a token above %d", again, token)
			}
			token = again.Token
		}
		holder = next
	}
}
