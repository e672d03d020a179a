package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// notifying is a store that sends notices to the client that listens.
type notifying struct {
	*memhold.Backend
	seqs      chan uint64
	calls     atomic.Int64
	listening atomic.Int64
	err       error // the refusal to listen
}

func (b *notifying) Notify(ctx context.Context, _ string, hint func(uint64)) error {
	b.calls.Add(1)
	b.listening.Add(1)
	defer b.listening.Add(-1)
	if b.err != nil {
		return b.err
	}
	for {
		select {
		case seq := <-b.seqs:
			hint(seq)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A notice makes the Locker renew at once. It proves nothing by itself.
func TestForcedUnlockIsNoticedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &notifying{Backend: memhold.New(), seqs: make(chan uint64)}
		l := holdfast.New(store, &holdfast.Options{TTL: time.Hour})
		k := must.Lock(t, l, "a")
		time.Sleep(30 * time.Minute)
		h := holders(t, store, "a")[0]
		store.seqs <- 1
		store.seqs <- 57
		time.Sleep(time.Second)
		if err := k.Err(); err != nil {
			t.Errorf("after a false notice: got %v, want it held", err)
		}
		if err := store.ForceUnlock(t.Context(), "a", h, "maintenance"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := k.Err(); err != nil {
			t.Errorf("before the notice: got %v, want nothing known yet", err)
		}
		store.seqs <- 1
		time.Sleep(time.Second)
		var lost *holdfast.LostError
		if err := k.Err(); !errors.As(err, &lost) || lost.Reason != driver.ReasonForced {
			t.Errorf("after the notice: got %v, want it forced", err)
		}
		synctest.Wait()
		if n := store.listening.Load(); n != 0 {
			t.Errorf("%d still listen after the last lock was lost", n)
		}
	})
}

// When a client's session may have ended, all its holds may have. All of them are renewed
// at once, also those that would not be renewed otherwise.
func TestEndOfASessionIsNoticedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &notifying{Backend: memhold.New(), seqs: make(chan uint64)}
		l := holdfast.New(store, &holdfast.Options{TTL: time.Hour})
		locks := map[string]*holdfast.Lock{"kept": must.Lock(t, l, "kept"), "fixed": must.Lock(t, l, "fixed", holdfast.Lease(2*time.Hour))}
		for i := range 20 {
			name := fmt.Sprint("lost ", i)
			locks[name] = must.Lock(t, l, name)
		}
		time.Sleep(30 * time.Minute)
		for name := range locks {
			if name != "kept" {
				store.Drop(name)
			}
		}
		store.seqs <- 0
		time.Sleep(time.Second)
		for name, k := range locks {
			var lost *holdfast.LostError
			if err := k.Err(); errors.As(err, &lost) == (name == "kept") {
				t.Errorf("%s: got %v a second after the notice", name, err)
			}
		}
		must.Unlock(t, locks["kept"])
	})
}

// A Locker does not listen for locks that are held for less than a heartbeat. For others it
// listens once, until the last one is released.
func TestShortLocksDoNotListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &notifying{Backend: memhold.New(), seqs: make(chan uint64)}
		l := holdfast.New(store, &holdfast.Options{TTL: 3 * time.Second})
		for range 20 {
			k := must.Lock(t, l, "short")
			time.Sleep(heartbeat / 2)
			must.Unlock(t, k)
		}
		if n := store.calls.Load(); n != 0 {
			t.Errorf("%d calls for short locks, want none", n)
		}
		for round := range int64(2) {
			k, second := must.Lock(t, l, "long"), must.Lock(t, l, "other")
			time.Sleep(time.Minute)
			if calls, n := store.calls.Load(), store.listening.Load(); calls != round+1 || n != 1 {
				t.Errorf("%d calls, %d listen; want %d and 1", calls, n, round+1)
			}
			must.Unlock(t, second)
			synctest.Wait()
			if n := store.listening.Load(); n != 1 {
				t.Errorf("%d listen while a lock is held, want 1", n)
			}
			must.Unlock(t, k)
			if err := l.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := store.listening.Load(); n != 0 {
				t.Errorf("%d listen after Drain, want none", n)
			}
		}
	})
}

// If a store refuses to listen, there is one debug line, and no second attempt. After
// another failure there is.
func TestNoticesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		err  error
		most int64
	}{
		{driver.ErrRefused, 1},
		{errors.ErrUnsupported, 1},
		{errors.New("cut off"), 40},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			store := &notifying{Backend: memhold.New(), err: c.err}
			l := holdfast.New(store, &holdfast.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
			k := must.Lock(t, l, "a")
			time.Sleep(time.Minute)
			must.Unlock(t, k)
			time.Sleep(time.Minute)
			if n := store.calls.Load(); n > c.most || c.most > 1 && n < 20 {
				t.Errorf("%v: %d calls, want about %d", c.err, n, c.most)
			}
			if n := strings.Count(log.String(), "this client notices a forced unlock"); n != 1 {
				t.Errorf("%v: %d lines, want one", c.err, n)
			}
		})
	}
}

// claims records what is written about a client.
type claims struct {
	*memhold.Backend
	seen    []driver.Claim
	reports int
}

func (c *claims) Try(ctx context.Context, claim driver.Claim) (driver.Outcome, error) {
	c.seen = append(c.seen, claim)
	return c.Backend.Try(ctx, claim)
}

func (c *claims) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	c.seen = append(c.seen, cs...)
	return c.Backend.Renew(ctx, cs)
}

func (c *claims) Report(context.Context, driver.Report) error {
	c.reports++
	return nil
}

func TestAnonymous(t *testing.T) {
	for _, note := range []string{"", "batch job"} {
		synctest.Test(t, func(t *testing.T) {
			store := &claims{Backend: memhold.New()}
			l := holdfast.New(store, &holdfast.Options{Anonymous: true, Note: note})
			k := must.Lock(t, l, "a")
			time.Sleep(time.Minute)
			must.Unlock(t, k)
			if store.reports != 0 {
				t.Errorf("%d reports of presence, want none", store.reports)
			}
			if len(store.seen) < 3 {
				t.Fatalf("%d claims, want a try and renewals", len(store.seen))
			}
			for _, c := range store.seen {
				if !c.Anonymous || c.Note != note {
					t.Errorf("got a claim with Anonymous %v and note %q, want note %q", c.Anonymous, c.Note, note)
				}
			}
		})
	}
}
