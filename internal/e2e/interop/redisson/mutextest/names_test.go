package mutextest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

func names(t *testing.T, b *redisson.Bench) {
	l := through(b, "goredis", time.Minute)
	wakeUps := newWakeUps(t, b)
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
	q.asleep()
	wakeUps.measure("Java", func() { must.Unlock(t, w.lock) }, q.got)
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

func prefixes(t *testing.T, b *redisson.Bench) {
	const prefix = "app16:"
	b.Prefix = prefix
	jvm := b.JVM(func(o *redisson.Settings) { o.Prefix = prefix })
	b.WarmUp(jvm)
	wakeUps := newWakeUps(t, b)
	for _, adapter := range []string{"rueidis", "goredis"} {
		l := b.Over(b.Through(adapter, redishold.Options{KeyPrefix: prefix}), time.Minute)
		share(t, b, java(t, b, "c16").in(jvm), l, b.Name, prefix+b.Name, wakeUps)

		// Those without the prefix are others.
		lock := held(t, l, b.Name)
		other := java(t, b, "c16-other")
		other.lock(0)
		other.unlock()
		must.Unlock(t, held(t, b.Locker(time.Minute), b.Name, holdfast.Wait(0)))
		must.Unlock(t, lock)
		if b.Version == redisson.Newest { // older ones did not map the names of the queue
			shareFair(t, b, java(t, b, "c16-fair").in(jvm).of("fair"), l.FairMutex(b.Name), prefix+b.Name, wakeUps)
		}
	}
	reported(t, b, java(t, b, "c16-long").in(jvm), prefix)
	wakeUps.report()
}

// reported has Go wait behind Java until it reports the wait. The report has the prefix, too, and
// may outlive the lock.
func reported(t *testing.T, b *redisson.Bench, j thread, prefix string) {
	t.Helper()
	admin := b.Admin().Bind(t)
	l := b.Over(b.Through("goredis", redishold.Options{KeyPrefix: prefix}), time.Minute)
	j.lock(0)
	w := begin(t, l, b.Name)
	redisson.Await(t, "a report of the wait of Go", func() bool {
		return admin.Int("EXISTS", prefix+"holdfast:waiting:{"+prefix+b.Name+"}") == 1
	})
	j.unlock()
	w.got()
	must.Unlock(t, w.lock)
}

// shareFair is share for a fair lock, which is kept at key, and with its queue.
func shareFair(t *testing.T, b *redisson.Bench, j thread, m *holdfast.Mutex, key string, wakeUps *wakeUps) {
	t.Helper()
	admin := b.Admin().Bind(t)
	queued := func() bool {
		owners := admin.Strings("LRANGE", "redisson_lock_queue:{"+key+"}", "0", "-1")
		return len(owners) == 1 && redisson.Listeners(admin, channel(key)+":"+owners[0]) == 1
	}
	j.lock(0)
	if lock, err := m.TryLock(t.Context()); !isBusy(err) {
		t.Fatalf("Go on Java's fair lock: %v, %v, want ErrBusy", lock, err)
	}
	w := beginOn(t, m)
	redisson.AwaitGo(t, admin, "fair_acquire", key, "a waiter of Go in the queue", queued)
	w.wantWaiting()
	wakeUps.measure("Go, fair", j.unlock, w.got)

	j.wantBusy()
	q := j.begin("lock", 0, 0)
	q.asleep()
	if !queued() {
		t.Errorf("the waiting thread is not in the queue of %q", key)
	}
	wakeUps.measure("Java, fair", func() { must.Unlock(t, w.lock) }, q.got)
	j.unlock()
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
		must.Unlock(t, held(t, l, b.Name)) // nothing of it is left
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

func garbage(t *testing.T, b *redisson.Bench) {
	wakeUps := newWakeUps(t, b)
	admin := b.Admin().Bind(t)
	l := through(b, "goredis", 10*time.Second)
	holder, waiter := java(t, b, "c61-a"), java(t, b, "c61-b")
	holder.lock(0)
	q := waiter.begin("lock", 0, 0)
	q.asleep()
	w := begin(t, l, b.Name)
	asleep(t, admin, b.Name, 2)
	for range 3 {
		if heard := admin.Int("PUBLISH", channel(b.Name), "7"); heard != 2 {
			t.Errorf("%d heard the message, want 2", heard)
		}
	}
	// Go asks again, the thread sleeps again, and both wait.
	asleep(t, admin, b.Name, 2)
	q.asleep()
	q.wantWaiting()
	w.wantWaiting()

	javaFirst := false // both get the message, and one is first
	wakeUps.measure("one of them", holder.unlock, func() time.Time {
		redisson.Await(t, "one of them has the lock", func() bool { return !q.answer.Waits() || len(w.taken) > 0 })
		if javaFirst = !q.answer.Waits(); javaFirst {
			return q.got()
		}
		return w.got()
	})
	if javaFirst {
		wakeUps.measure("Go", waiter.unlock, w.got)
		must.Unlock(t, w.lock)
	} else {
		q.asleep()
		wakeUps.measure("Java", func() { must.Unlock(t, w.lock) }, q.got)
		waiter.unlock()
	}
	wakeUps.report()
}
