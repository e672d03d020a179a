package mutextest

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

func isBusy(err error) bool { return errors.Is(err, holdfast.ErrBusy) }

func goBreaks(t *testing.T, b *redisson.Bench) {
	wakeUps := newWakeUps(t, b)
	admin := b.Admin().Bind(t)
	heard := admin.Listen(channel(b.Name))
	store := b.Backend(redishold.Options{})
	holder, next := java(t, b, "c10-a"), java(t, b, "c10-b")
	holder.lock(0)
	q := next.begin("lock", 0, 0)
	q.asleep()
	held, err := dial.Holders(t.Context(), store, b.Name)
	if err != nil || len(held) != 1 {
		t.Fatalf("Get: %v, %v; want one holder", held, err)
	}
	q.wantWaiting()
	wakeUps.measure("a waiting thread", func() {
		if err := store.ForceUnlock(t.Context(), b.Name, held[0], "a test"); err != nil {
			t.Fatal(err)
		}
	}, q.got)
	wakeUps.report()
	holder.wantNotHeld()
	if !next.do("isHeld").Bool() {
		t.Error("the unlock of the thread whose lock was broken took the lock from the next one")
	}
	if err := store.ForceUnlock(t.Context(), b.Name, held[0], "again"); !errors.Is(err, driver.ErrGone) {
		t.Errorf("ForceUnlock of a hold that is over: %v, want ErrGone", err)
	}
	wantPublished(t, admin, heard, b.Name, 0, "0")
	next.unlock()
}

func javaForces(t *testing.T, b *redisson.Bench) {
	const ttl = 4500 * time.Millisecond // a third of it and late are less
	j := java(t, b, "c11")
	wakeUps := newWakeUps(t, b)
	eachAdapter(b, ttl, func(adapter string, l *holdfast.Locker) {
		lock := held(t, l, b.Name)
		listeners(t, b.Admin(), b.Name, 0)
		w := begin(t, through(b, adapter, 10*time.Second), b.Name)
		asleep(t, b.Admin(), b.Name, 1)
		w.wantWaiting()
		var forced time.Time
		wakeUps.measure("the next goroutine", func() {
			forced = time.Now()
			if !j.do("forceUnlock").Bool() {
				t.Error("forceUnlock says that nothing was held")
			}
		}, w.got)
		if told := toldAfter(t, lock, forced); told > ttl/3+late {
			t.Errorf("the holder was told after %v, want %v", told, ttl/3)
		}
		wantLost(t, lock)
		if err := w.lock.Err(); err != nil {
			t.Errorf("the next holder: %v", err)
		}
		must.Unlock(t, w.lock)
		if j.do("forceUnlock").Bool() {
			t.Error("forceUnlock of nothing says that something was held")
		}
	})
	wakeUps.report()
}

func keyDeleted(t *testing.T, b *redisson.Bench) {
	const ttl = 4500 * time.Millisecond
	admin := b.Admin().Bind(t)
	l := b.Locker(ttl)
	lock := held(t, l, b.Name)
	deleted := time.Now()
	admin.Int("DEL", b.Name)
	if told := toldAfter(t, lock, deleted); told > ttl/3+late {
		t.Errorf("Go was told after %v, want %v", told, ttl/3)
	}
	var lost *holdfast.LostError
	if err := lock.Err(); !errors.As(err, &lost) || lost.Reason != driver.ReasonDeleted {
		t.Errorf("Err is %v, want the reason %q", err, driver.ReasonDeleted)
	}
	wantLost(t, lock)

	const timeout = 3 * time.Second
	j := java(t, b, "c12").in(watchdog(b, timeout))
	b.WarmUp(j.jvm)
	j.lock(0)
	renewed(t, admin, b.Name)
	admin.Int("DEL", b.Name)
	time.Sleep(2 * timeout / 3) // two rounds of the watchdog
	if admin.Int("EXISTS", b.Name) != 0 {
		t.Error("Java's watchdog has made the key anew")
	}
	next := held(t, l, b.Name)
	j.wantNotHeld()
	if err := next.Err(); err != nil {
		t.Error(err)
	}
	must.Unlock(t, next)
	t.Attr("observed", "Java's holder of a key that was deleted is notified by unlock only (IllegalMonitorStateException); Go had the lock meanwhile")
}
