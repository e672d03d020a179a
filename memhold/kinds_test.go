package memhold

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/document"
)

func writer(owner string) driver.Claim {
	c := claim(owner)
	c.ReadWrite = true
	return c
}

func reader(owner string) driver.Claim {
	c := writer(owner)
	c.Mode = driver.Shared
	return c
}

func permit(owner string, n int) driver.Claim {
	c := claim(owner)
	c.Mode, c.Permits = driver.Permit, n
	return c
}

func fair(c driver.Claim) driver.Claim {
	c.Fair = true
	return c
}

func mustRefuse(t *testing.T, b *Backend, c driver.Claim) driver.Outcome {
	t.Helper()
	o, err := b.Try(t.Context(), c)
	if err != nil || o.Granted {
		t.Fatalf("Try(%s): got %+v, %v, want a refusal", c.Owner, o, err)
	}
	return o
}

func mustRelease(t *testing.T, b *Backend, c driver.Claim) {
	t.Helper()
	if err := b.Release(t.Context(), c); err != nil {
		t.Fatalf("Release(%s): got %v, want nil", c.Owner, err)
	}
}

// owners returns the holders of "job".
func owners(t *testing.T, b *Backend) []string {
	t.Helper()
	records, err := b.Get(t.Context(), "job")
	if err != nil {
		t.Fatalf("Get: got %v, want nil", err)
	}
	var all []string
	for _, h := range records[0].Holds {
		all = append(all, h.Owner)
	}
	return all
}

// calling reports whether a Wait with o would return at once.
func calling(o driver.Outcome) bool {
	select {
	case <-o.Ahead.(ahead).changed:
		return true
	default:
		return false
	}
}

func TestEachReaderHasItsOwnLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		short, long := reader("short"), reader("long")
		short.TTL = 10 * time.Second
		mustTry(t, b, long)
		mustTry(t, b, short)
		if got := owners(t, b); !slices.Equal(got, []string{"long", "short"}) {
			t.Fatalf("got holders %v, want both, in the order in which they came", got)
		}
		if o := mustRefuse(t, b, writer("w")); o.RetryAfter != short.TTL {
			t.Errorf("got RetryAfter %v, want %v, the first lease to end", o.RetryAfter, short.TTL)
		}
		time.Sleep(short.TTL)
		if got := owners(t, b); !slices.Equal(got, []string{"long"}) {
			t.Fatalf("got holders %v, want the one whose lease lasts", got)
		}
		if err := renew(t, b, short).Err; !errors.Is(err, driver.ErrGone) {
			t.Errorf("Renew of a dead reader: got %v, want ErrGone", err)
		}
		o := mustRefuse(t, b, writer("w"))
		if o.RetryAfter != ttl-short.TTL {
			t.Fatalf("got RetryAfter %v, want %v", o.RetryAfter, ttl-short.TTL)
		}
		time.Sleep(o.RetryAfter)
		mustTry(t, b, writer("w"))
	})
}

func TestWriterDiesBesideItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		w, r := writer("w"), reader("r")
		w.TTL = time.Second
		r.Beside = w.Owner
		mustTry(t, b, w)
		mustTry(t, b, r)
		waiting := mustRefuse(t, b, reader("other"))
		time.Sleep(w.TTL)
		mustTry(t, b, reader("other"))
		if !calling(waiting) {
			t.Error("a waiting reader was not woken when the writer was found dead")
		}
		mustRefuse(t, b, writer("next"))
		mustRelease(t, b, r)
	})
}

func TestLostReaderIsNotToldOfOtherReaders(t *testing.T) {
	b := New()
	mustTry(t, b, reader("a"))
	mustTry(t, b, reader("b"))
	mustRelease(t, b, reader("a"))
	var gone *driver.GoneError
	if err := b.Release(t.Context(), reader("a")); !errors.As(err, &gone) || gone.Reason != driver.ReasonExpired {
		t.Errorf("got %#v, want reason %q: other readers are in nobody's way", err, driver.ReasonExpired)
	}
}

func TestSemaphoreIsKeptUntilDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		mustTry(t, b, permit("a", 2))
		mustRelease(t, b, permit("a", 2))
		time.Sleep(time.Hour)
		if total, free, err := b.Permits(t.Context(), "job"); total != 2 || free != 2 || err != nil {
			t.Errorf("an hour later: got %d permits, %d free, %v, want 2, 2 free", total, free, err)
		}
		if !b.Drop("job") {
			t.Error("Drop of a semaphore: got false, want true")
		}
		mustTry(t, b, claim("a")) // and the name can have any kind again
	})
}

func TestNonsenseIsRefused(t *testing.T) {
	b := New()
	_, tryErr := b.Try(t.Context(), permit("a", 0))
	_, setErr := b.SetCount(t.Context(), "job", "call", 0)
	for what, err := range map[string]error{
		"Try of a semaphore of no permits": tryErr,
		"SetCount to 0":                    setErr,
		"Resize to -1":                     b.Resize(t.Context(), "job", -1),
	} {
		if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) {
			t.Errorf("%s: got %v, want ErrRefused and ErrNotExecuted", what, err)
		}
	}
	if n := left(b); n != 0 {
		t.Errorf("%d things are left", n)
	}
}

func TestNameHasOneKind(t *testing.T) {
	type use func(t *testing.T, b *Backend) error
	uses := map[kind][]use{
		mutex:     {func(t *testing.T, b *Backend) error { _, err := b.Try(t.Context(), claim("a")); return err }},
		readWrite: {func(t *testing.T, b *Backend) error { _, err := b.Try(t.Context(), reader("a")); return err }},
		semaphore: {
			func(t *testing.T, b *Backend) error { return b.Resize(t.Context(), "job", 1) },
			func(t *testing.T, b *Backend) error { _, _, err := b.Permits(t.Context(), "job"); return err },
		},
		latch: {
			func(t *testing.T, b *Backend) error { _, err := b.SetCount(t.Context(), "job", "a", 1); return err },
			func(t *testing.T, b *Backend) error { _, err := b.Count(t.Context(), "job"); return err },
			func(t *testing.T, b *Backend) error { return b.CountDown(t.Context(), "job", "call") },
		},
	}
	for first, firsts := range uses {
		for second, seconds := range uses {
			for i, useToo := range seconds {
				b := New()
				if err := firsts[0](t, b); err != nil {
					t.Fatalf("%s: got %v, want nil", first, err)
				}
				var want error
				if first != second {
					want = driver.ErrMismatch
				}
				if err := useToo(t, b); !errors.Is(err, want) {
					t.Errorf("%s as a %s, call %d: got %v, want %v", first, second, i, err, want)
				}
			}
		}
	}
}

func TestLatchRemembersCallsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		mustSet := func(call string, n int64, want bool) {
			t.Helper()
			if got, err := b.SetCount(t.Context(), "job", call, n); err != nil || got != want {
				t.Fatalf("SetCount: got %v, %v, want %v", got, err, want)
			}
		}
		mustCount := func(call string, want int64) {
			t.Helper()
			if err := b.CountDown(t.Context(), "job", call); err != nil {
				t.Fatalf("CountDown: got %v, want nil", err)
			}
			if got, err := b.Count(t.Context(), "job"); err != nil || got != want {
				t.Fatalf("Count: got %d, %v, want %d", got, err, want)
			}
		}
		mustSet("set", 3, true)
		mustCount("a", 2)
		time.Sleep(document.Remember - 1)
		mustCount("a", 2)
		mustSet("set", 3, true)
		time.Sleep(time.Nanosecond)
		mustSet("set", 3, false) // the first call is not remembered any more, so this is another
		mustCount("a", 1)
	})
}

func TestDropOpensLatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		if set, err := b.SetCount(t.Context(), "job", "call", 3); !set || err != nil {
			t.Fatalf("SetCount: got %v, %v, want true", set, err)
		}
		w := b.LatchWaiter("job")
		defer w.Close()
		if _, err := w.Wait(t.Context(), driver.Outcome{}); err != nil {
			t.Fatalf("first Wait: got %v, want nil", err)
		}
		woken := make(chan error, 1)
		go func() {
			_, err := w.Wait(t.Context(), driver.Outcome{})
			woken <- err
		}()
		synctest.Wait()
		if len(woken) > 0 {
			t.Fatal("second Wait returned while the latch was counting")
		}
		if !b.Drop("job") {
			t.Fatal("Drop of a latch: got false, want true")
		}
		if err := <-woken; err != nil {
			t.Errorf("second Wait: got %v, want nil", err)
		}
		if n, err := b.Count(t.Context(), "job"); n != 0 || err != nil {
			t.Errorf("Count: got %d, %v, want 0", n, err)
		}
	})
}

// A count that no latch can have is refused, also in a call that has been answered before.
func TestRepeatedCallWithABadCount(t *testing.T) {
	b := New()
	if set, err := b.SetCount(t.Context(), "start", "call", 2); err != nil || !set {
		t.Fatalf("got %v and error %v, want true", set, err)
	}
	if set, err := b.SetCount(t.Context(), "start", "call", 0); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("got %v and error %v, want %v", set, err, driver.ErrRefused)
	}
}
