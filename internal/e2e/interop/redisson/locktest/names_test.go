package locktest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/redishold"
)

func (s *suite) names(t *testing.T, b *redisson.Bench) {
	l := through(b, "goredis", time.Minute)
	wakeUps := s.wakeUps(t, b.Java)
	for _, name := range []string{
		"case15:{tag}", "{case15:tag}:lock", "case15:a{b", "case15:}", "case15:two words", "case15:naïve:鍵:🔑",
		"case15:\"quoted\\\"\n", "|", // one byte, which no other case uses
	} {
		share(t, b, java(t, b, "c15").at(name), l, name, name, wakeUps)
	}
	wakeUps.report()
	wrongType(t, b, l)
}

// share has each side hold while the other is refused, waits and gets the lock,
// which is kept at key.
func share(t *testing.T, b *redisson.Bench, j thread, l *holdfast.Locker, name, key string, wakeUps *wakeUps) {
	t.Helper()
	admin := b.Admin().Bind(t)
	j.lock(0)
	if got := admin.String("TYPE", key); got != "hash" {
		t.Errorf("Java's lock: the key %q is a %s, want a hash", key, got)
	}
	wantBusy(t, l, name)
	w := begin(t, l, name)
	asleep(t, admin, key, 1)
	wakeUps.measure("Go", j.unlock, w.got)

	j.wantBusy()
	listeners(t, admin, key, 0)
	q := j.begin("lock", 0, 0)
	asleep(t, admin, key, 1)
	wakeUps.measure("Java", func() { mustUnlock(t, w.lock) }, q.got)
	j.unlock()
	listeners(t, admin, key, 0)
	if admin.Int("EXISTS", key) != 0 {
		t.Errorf("%q is left", key)
	}
}

// wrongType wants both to refuse a key that is no hash, and to leave it alone.
func wrongType(t *testing.T, b *redisson.Bench, l *holdfast.Locker) {
	t.Helper()
	admin := b.Admin().Bind(t)
	admin.String("SET", b.Name, "data")
	if _, err := l.Lock(t.Context(), b.Name); !errors.Is(err, holdfast.ErrMismatch) {
		t.Errorf("Go on a string: %v, want ErrMismatch", err)
	}
	j := java(t, b, "c15")
	if r := j.try(j.command("tryLock", 0, 0)); !strings.Contains(r.Error, "WRONGTYPE") {
		t.Errorf("Java on a string: %v, want WRONGTYPE", r.Err())
	}
	if got := admin.String("GET", b.Name); got != "data" {
		t.Errorf("the string is %q now", got)
	}
	admin.Int("DEL", b.Name)
}

func (s *suite) prefixes(t *testing.T, b *redisson.Bench) {
	const prefix = "app16:"
	jvm := s.jvm(b, func(o *redisson.Settings) { o.Prefix = prefix })
	wakeUps := s.wakeUps(t, jvm)
	for _, adapter := range []string{"rueidis", "goredis"} {
		l := b.Over(b.Through(adapter, redishold.Options{Prefix: prefix}), time.Minute)
		share(t, b, java(t, b, "c16").in(jvm), l, b.Name, prefix+b.Name, wakeUps)

		// Those without the prefix are others.
		lock := mustLock(t, l, b.Name)
		other := java(t, b, "c16-other")
		other.lock(0)
		other.unlock()
		mustUnlock(t, mustLock(t, b.Locker(time.Minute), b.Name, holdfast.Wait(0)))
		mustUnlock(t, lock)
	}
	wakeUps.report()
}

func kinds(t *testing.T, b *redisson.Bench) {
	admin := b.Admin().Bind(t)
	j := java(t, b, "c63")
	eachAdapter(b, 10*time.Second, func(_ string, l *holdfast.Locker) {
		rw := l.RWMutex(b.Name)
		j.lock(0)
		hash := admin.Map("HGETALL", b.Name)
		refused(t, "a lock", rw.Write, rw.Read)
		wantSame(t, hash, admin.Map("HGETALL", b.Name))
		j.unlock()

		for _, side := range []string{"read", "write"} {
			other := j.of(side)
			other.lock(0)
			refused(t, "a "+side+" lock", l.Mutex(b.Name), l.FairMutex(b.Name))
			other.unlock()
		}
		mustUnlock(t, mustLock(t, l, b.Name)) // nothing of it is left
	})
	j.of("write").lock(0)
	if j.do("tryLock").Bool() {
		t.Error("Java's plain lock was granted beside its write lock")
	}
	j.of("write").unlock()
}

// refused wants each of ms to say at once that the name is in use for something
// else.
func refused(t *testing.T, what string, ms ...*holdfast.Mutex) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, m := range ms {
		lock, err := m.Lock(ctx)
		if !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("Go on the name of %s: %v, want ErrMismatch", what, err)
		}
		_ = lock.Unlock()
	}
}

func (s *suite) garbage(t *testing.T, b *redisson.Bench) {
	wakeUps := s.wakeUps(t, b.Java)
	admin := b.Admin().Bind(t)
	l := through(b, "goredis", 10*time.Second)
	holder, waiter := java(t, b, "c61-a"), java(t, b, "c61-b")
	holder.lock(0)
	q := waiter.begin("lock", 0, 0)
	asleep(t, admin, b.Name, 1)
	w := begin(t, l, b.Name)
	asleep(t, admin, b.Name, 2)
	for range 3 {
		if heard := admin.Int("PUBLISH", channel(b.Name), "7"); heard != 2 {
			t.Errorf("%d heard the message, want 2", heard)
		}
	}
	time.Sleep(300 * time.Millisecond) // for whatever it may do
	q.wantWaiting()
	w.wantWaiting()

	javaFirst := false // both are told, and one is first
	wakeUps.measure("one of them", holder.unlock, func() time.Time {
		select {
		case r := <-q.answer:
			javaFirst = true
			return r.Received
		case k := <-w.taken:
			w.taken <- k
			return w.got()
		}
	})
	if javaFirst {
		wakeUps.measure("Go", waiter.unlock, w.got)
		mustUnlock(t, w.lock)
	} else {
		asleep(t, admin, b.Name, 1)
		wakeUps.measure("Java", func() { mustUnlock(t, w.lock) }, q.got)
		waiter.unlock()
	}
	wakeUps.report()
}
