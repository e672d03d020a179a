package holdfast

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
)

// less is a store that grants leases of most at most, as ZooKeeper does. If left is set,
// its first grant lasts for left: the rest of a session.
func less(most, left time.Duration) *faulty.Store {
	s := faulty.New()
	s.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
		c.TTL = min(c.TTL, most)
		out, err := s.Backend.Try(ctx, c)
		if left > 0 && out.Granted {
			out.ValidFor = left
		}
		return out, err
	}
	s.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
		short := make([]driver.Claim, len(cs))
		for i, c := range cs {
			c.TTL = min(c.TTL, most)
			short[i] = c
		}
		return s.Backend.Renew(ctx, short)
	}
	return s
}

// A store may grant less than the TTL. Its locks are held, are passed from one goroutine to
// the next, and one line of the log reports it.
func TestGrantedLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := less(27*time.Second, 0)
		l := New(store, &Options{TTL: 5 * time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		first, err := l.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := first.Remaining(), 27*time.Second*9/10; got != want {
			t.Errorf("remaining %v, want %v", got, want)
		}
		next := make(chan *Lock)
		for range 2 { // the first one asks the store, and its hold is passed on to the other
			go func() {
				lock, _ := l.Lock(t.Context(), "a")
				next <- lock
			}()
			synctest.Wait()
		}
		if err := first.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := (<-next).Unlock(); err != nil {
			t.Fatal(err)
		}
		second := <-next
		if n := store.Tries.Load(); second == nil || n != 2 {
			t.Fatalf("got %v after %d tries, want that it was passed on", second, n)
		}
		third, err := l.Lock(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		for _, lock := range []*Lock{second, third} {
			if err := lock.Err(); err != nil {
				t.Errorf("lost: %v", err)
			}
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
		}
		if got := strings.Count(log.String(), "the store grants a shorter lease"); got != 1 || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("got the log\n%swant one line", &log)
		}
	})
}

// A lease of two thirds of the TTL is what sessions promise, and is not logged.
func TestGrantedAsSessionsDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := New(less(20*time.Second, 0), &Options{TTL: 30 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		lock, err := l.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := lock.Unlock(); err != nil || log.Len() > 0 {
			t.Errorf("got error %v and the log %q", err, &log)
		}
	})
}

// If the user has chosen a margin that leaves no time to renew what the store grants, Lock
// returns an error at once, and leaves nothing in the store.
func TestMarginDoesNotFitTheGrant(t *testing.T) {
	for name, opts := range map[string][]Option{"renewed": nil, "with a fixed end": {Lease(time.Minute)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := less(27*time.Second, 0)
				l := New(store, &Options{TTL: 5 * time.Minute, Margin: 20 * time.Second})
				began := time.Now()
				lock, err := l.Lock(t.Context(), "a", opts...)
				if len(opts) > 0 { // its margin is a tenth of it
					if err != nil {
						t.Fatal(err)
					}
					_ = lock.Unlock()
					return
				}
				if err == nil || !strings.Contains(err.Error(), "margin of 20s") || !strings.Contains(err.Error(), "27s") {
					t.Fatalf("got error %v, want one that names the margin and the lease", err)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("the error came after %v", took)
				}
				if err := l.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				if out, err := store.Backend.Try(t.Context(), driver.Claim{Name: "a", Owner: "x:1", Client: "x", Seq: 1, TTL: time.Second, Count: 1, Tokens: 1}); err != nil || !out.Granted {
					t.Errorf("another got %+v, %v, want that it is free", out, err)
				}
			})
		})
	}
}

// A store with sessions may grant the rest of one. A renewal finds out how much it grants,
// and a margin that fits that is no error.
func TestMarginFitsTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := less(20*time.Second, 10*time.Second)
		l := New(store, &Options{TTL: 30 * time.Second, Margin: 9 * time.Second})
		began := time.Now()
		lock, err := l.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if took, left := time.Since(began), lock.Remaining(); took > 0 || left != 11*time.Second {
			t.Errorf("got it after %v for %v, want 11s at once", took, left)
		}
		time.Sleep(time.Minute)
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	})
}
