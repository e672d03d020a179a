package scripttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/redishold"
)

// Read-write locks of package redishold on a real server.

func writer(name, number string) driver.Claim {
	c := claim(name, number)
	c.ReadWrite = true
	return c
}

func reader(name, number string) driver.Claim {
	c := writer(name, number)
	c.Mode = driver.Shared
	return c
}

func mustGrant(t *testing.T, b driver.Backend, c driver.Claim) driver.Outcome {
	t.Helper()
	o := mustTry(t, b, c)
	if !o.Granted {
		t.Fatalf("%s of %s: got %+v, want a grant", c.Mode, c.Owner, o)
	}
	return o
}

func mustRefuse(t *testing.T, b driver.Backend, c driver.Claim) driver.Outcome {
	t.Helper()
	o := mustTry(t, b, c)
	if o.Granted {
		t.Fatalf("%s of %s: got a grant, want busy", c.Mode, c.Owner)
	}
	return o
}

func mustRelease(t *testing.T, b driver.Backend, c driver.Claim) {
	t.Helper()
	if err := b.Release(bounded(t), c); err != nil {
		t.Fatalf("Release of %s: %v", c.Owner, err)
	}
}

func mustWait(t *testing.T, w driver.Waiter, last driver.Outcome) driver.Outcome {
	t.Helper()
	o, err := w.Wait(bounded(t), last)
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return o
}

func mustForce(t *testing.T, b *redishold.Backend, name string, h admin.Holder, why string) {
	t.Helper()
	if err := b.ForceUnlock(bounded(t), name, h, why); err != nil {
		t.Fatalf("ForceUnlock of %s: %v", h.Owner, err)
	}
}

// mustRenewAsGone wants a renewal to find nothing of the claims.
func mustRenewAsGone(t *testing.T, b driver.Backend, cs ...driver.Claim) {
	t.Helper()
	renewals, err := b.Renew(bounded(t), cs)
	if err != nil || len(renewals) != len(cs) {
		t.Fatalf("Renew: got %+v and error %v", renewals, err)
	}
	for i, r := range renewals {
		if !errors.Is(r.Err, driver.ErrGone) {
			t.Fatalf("Renew of %s: got %+v, want ErrGone", cs[i].Owner, r)
		}
	}
}

// wantForced checks what those who watch learn of a hold that is over.
func wantForced(t *testing.T, b *redishold.Backend, name, owner, want string) {
	t.Helper()
	why, err := b.ForceReasons(bounded(t), []admin.Ended{{Name: name, Owner: owner}})
	if err != nil || len(why) != 1 || why[0] != want {
		t.Fatalf("Forced: got %q and error %v, want %q", why, err, want)
	}
}

func mustLook(t *testing.T, b *redishold.Backend, name string) map[string]admin.Holder {
	t.Helper()
	holders, err := dial.Holders(bounded(t), b, name)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	byOwner := map[string]admin.Holder{}
	for _, h := range holders {
		byOwner[h.Owner] = h
	}
	return byOwner
}

func TestReadWriteWakes(t *testing.T) {
	_, b := startStore(t, nil)
	wakes := func(waiting driver.Claim, change func()) {
		t.Helper()
		w := b.Waiter(waiting)
		defer w.Close()
		begin, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, _ = w.Wait(begin, mustRefuse(t, b, waiting)) // subscribes, unless the topic of the last waiter is still there
		cancel()
		last := mustRefuse(t, b, waiting)
		change()
		mustWait(t, w, last)
		mustGrant(t, b, waiting)
	}
	w1, w2, r1, r2 := writer("stock:42", "1"), writer("stock:42", "2"), reader("stock:42", "3"), reader("stock:42", "4")
	r1.Beside = w1.Owner
	mustGrant(t, b, w1)
	mustGrant(t, b, r1)
	wakes(r2, func() { mustRelease(t, b, w1) }) // a downgrade
	mustRelease(t, b, r2)
	wakes(w2, func() { mustRelease(t, b, r1) }) // of the last reader
	wakes(r2, func() { mustForce(t, b, "stock:42", mustLook(t, b, "stock:42")[w2.Owner], "why") })
	mustRelease(t, b, r2)
}

func TestReadWriteLookAndBreakOneHold(t *testing.T) {
	server, b := startStore(t, nil)
	one, two := reader("stock:42", "1"), reader("stock:42", "2")
	one.Count, two.TTL = 3, 40*time.Second
	mustGrant(t, b, one)
	mustGrant(t, b, two)
	holders := mustLook(t, b, "stock:42")
	h := holders[one.Owner]
	if len(holders) != 2 || h.Holds != 3 || h.Note != "ci@host:4121" || h.Remaining <= 0 || h.Remaining > one.TTL {
		t.Fatalf("Get: got %+v, want two readers with leases of their own", holders)
	}
	if left := holders[two.Owner].Remaining; left <= one.TTL || left > two.TTL {
		t.Fatalf("Get: got %v left of the second reader, want up to %v", left, two.TTL)
	}
	changed := h
	changed.Holds = 2
	if err := b.ForceUnlock(bounded(t), "stock:42", changed, "why"); !errors.Is(err, driver.ErrGone) {
		t.Fatalf("Break of another count: got %v, want ErrGone", err)
	}
	mustForce(t, b, "stock:42", h, "stuck deploy")
	wantForced(t, b, "stock:42", h.Owner, "stuck deploy")
	wantForced(t, b, "stock:42", two.Owner, "")
	renewals, err := b.Renew(bounded(t), []driver.Claim{one, two})
	var gone *driver.GoneError
	if err != nil || !errors.As(renewals[0].Err, &gone) || gone.Reason != driver.ReasonForced || renewals[1].Err != nil {
		t.Fatalf("Renew: got %+v and error %v, want the first Forced, the second renewed", renewals, err)
	}
	mustRelease(t, b, two)

	// A Redisson thread with both sides.
	java := "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99:57"
	server.Int("HSET", "stock:42", "mode", "write", java, "1", java+":write", "1")
	server.Int("PEXPIRE", "stock:42", "20000")
	server.String("SET", "{stock:42}:"+java+":rwlock_timeout:1", "1", "PX", "10000")
	holders = mustLook(t, b, "stock:42")
	h = holders[java+":write"]
	if len(holders) != 2 || holders[java].Holds != 1 || h.Note != "Redisson client 71b96ce8… thread 57" {
		t.Fatalf("Get: got %+v, want both sides of the thread", holders)
	}
	mustForce(t, b, "stock:42", h, "why")
	wantForced(t, b, "stock:42", java+":write", "why")
	holders = mustLook(t, b, "stock:42")
	if _, ok := holders[java]; !ok || len(holders) != 1 {
		t.Fatalf("Get: got %+v, want the read side alone", holders)
	}
	mustGrant(t, b, two)
}

// However a read hold ends, the lock then ends with the longest lease of the readers that stay.
func TestEveryReleaseTrims(t *testing.T) {
	server, b := startStore(t, nil)
	long, short := reader("orders", "1"), reader("orders", "2")
	long.TTL = time.Hour
	for _, c := range []struct {
		what    string
		release func() error
	}{
		{"Release", func() error { return b.Release(bounded(t), long) }},
		{"ReleaseAll", func() error { return b.ReleaseAll(bounded(t), []driver.Claim{long})[0] }},
		{"Release of an indeterminate claim", func() error {
			uncertain := long
			uncertain.Indeterminate = true
			return b.Release(bounded(t), uncertain)
		}},
		{"ForceUnlock", func() error {
			return b.ForceUnlock(bounded(t), long.Name, mustLook(t, b, long.Name)[long.Owner], "a test")
		}},
	} {
		server.String("FLUSHALL")
		mustGrant(t, b, long)
		mustGrant(t, b, short)
		if err := c.release(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if err := b.Drain(bounded(t)); err != nil { // the TTL is shortened in the background
			t.Fatal(err)
		}
		if got := server.Int("PTTL", "orders"); got <= 0 || got > short.TTL.Milliseconds() {
			t.Errorf("%s: the lock stays for %d ms, want at most %v", c.what, got, short.TTL)
		}
	}
}

// Several writers find readers of which some are dead, in one TryAll.
func TestSeveralWritersBehindReaders(t *testing.T) {
	server, b := startStore(t, nil)
	writers := []driver.Claim{writer("free", "1"), writer("dead", "2"), writer("live", "3"), writer("both", "4")}
	for _, r := range []driver.Claim{reader("dead", "5"), reader("live", "6"), reader("both", "7"), reader("both", "8")} {
		mustGrant(t, b, r)
	}
	server.Int("DEL", "{dead}:"+clientID+":5:rwlock_timeout:1", "{both}:"+clientID+":7:rwlock_timeout:1")
	for i, a := range b.TryAll(bounded(t), writers) {
		free := writers[i].Name == "free" || writers[i].Name == "dead"
		if a.Err != nil || a.Outcome.Granted != free || !free && a.Outcome.RetryAfter < 10*time.Second {
			t.Errorf("%s: got %+v and error %v, want a grant: %v", writers[i].Name, a.Outcome, a.Err, free)
		}
	}
}
