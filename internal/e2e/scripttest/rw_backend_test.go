package scripttest

import (
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
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
	server := redistest.Start(t)
	b := redishold.New(connect(t, server.Addr(), "", ""), nil)
	wakes := func(what string, waiting driver.Claim, change func()) {
		t.Helper()
		w := b.Waiter(waiting)
		defer w.Close()
		if _, err := w.Wait(bounded(t), mustRefuse(t, b, waiting)); err != nil { // subscribes
			t.Fatalf("%s: Wait: %v", what, err)
		}
		last := mustRefuse(t, b, waiting)
		change()
		if _, err := w.Wait(bounded(t), last); err != nil {
			t.Fatalf("%s: Wait: %v", what, err)
		}
		mustGrant(t, b, waiting)
	}
	w1, w2, r1, r2 := writer("stock:42", "1"), writer("stock:42", "2"), reader("stock:42", "3"), reader("stock:42", "4")
	r1.Beside = w1.Owner
	mustGrant(t, b, w1)
	mustGrant(t, b, r1)
	wakes("downgrade", r2, func() { mustRelease(t, b, w1) })
	mustRelease(t, b, r2)
	wakes("last reader", w2, func() { mustRelease(t, b, r1) })
	wakes("broken writer", r2, func() {
		if err := b.ForceUnlock(bounded(t), "stock:42", mustLook(t, b, "stock:42")[w2.Owner], "why"); err != nil {
			t.Fatalf("Break: %v", err)
		}
	})
	mustRelease(t, b, r2)
}

func TestReadWriteLookAndBreakOneHold(t *testing.T) {
	server := redistest.Start(t)
	b := redishold.New(connect(t, server.Addr(), "", ""), nil)
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
	if err := b.ForceUnlock(bounded(t), "stock:42", h, "stuck deploy"); err != nil {
		t.Fatalf("Break: %v", err)
	}
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
	if err := b.ForceUnlock(bounded(t), "stock:42", h, "why"); err != nil {
		t.Fatalf("Break: %v", err)
	}
	wantForced(t, b, "stock:42", java+":write", "why")
	holders = mustLook(t, b, "stock:42")
	if _, ok := holders[java]; !ok || len(holders) != 1 {
		t.Fatalf("Get: got %+v, want the read side alone", holders)
	}
	mustGrant(t, b, two)
}

func TestReadWriteOnMiniredis(t *testing.T) {
	server := miniredis.RunT(t)
	b := redishold.New(connect(t, server.Addr(), "", ""), nil)
	one, two, w := reader("stock:42", "1"), reader("stock:42", "2"), writer("stock:42", "3")
	mustGrant(t, b, one)
	mustGrant(t, b, two)
	mustRefuse(t, b, w)
	if holders := mustLook(t, b, "stock:42"); len(holders) != 2 {
		t.Fatalf("Get: got %+v, want two readers", holders)
	}
	server.Del("{stock:42}:" + one.Owner + ":rwlock_timeout:1")
	mustRefuse(t, b, w)
	if err := b.Release(bounded(t), one); !errors.Is(err, driver.ErrGone) {
		t.Fatalf("Release of a dead reader: got %v, want ErrGone", err)
	}
	mustRelease(t, b, two)
	mustGrant(t, b, w)
	mine := reader("stock:42", "4")
	mine.Beside = w.Owner
	mustGrant(t, b, mine)
	mustRelease(t, b, w)
	if r, err := b.Renew(bounded(t), []driver.Claim{mine, w}); err != nil || r[0].Err != nil || !errors.Is(r[1].Err, driver.ErrGone) {
		t.Fatalf("Renew: got %+v and error %v", r, err)
	}
	mustGrant(t, b, two)
}
