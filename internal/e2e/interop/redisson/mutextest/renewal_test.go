package mutextest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/must"
)

func javaRenews(t *testing.T, b *redisson.Bench) {
	const timeout = 4500 * time.Millisecond
	j := java(t, b, "c08").in(watchdog(b, timeout))
	b.WarmUp(j.jvm)
	wakeUps := newWakeUps(t, b)
	j.lock(0)
	w := begin(t, b.Locker(10*time.Second), b.Name)
	stays(t, b, timeout)
	w.wantWaiting()
	wakeUps.measure("Go", j.unlock, w.got)
	wakeUps.report()
	must.Unlock(t, w.lock)
}

func goRenews(t *testing.T, b *redisson.Bench) {
	const ttl = 3 * time.Second
	wakeUps := newWakeUps(t, b)
	lock := held(t, through(b, "goredis", ttl), b.Name)
	j := java(t, b, "c09")
	q := j.begin("lock", 0, 0)
	stays(t, b, ttl)
	q.wantWaiting()
	if err := lock.Err(); err != nil {
		t.Error(err)
	}
	wakeUps.measure("Java", func() { must.Unlock(t, lock) }, q.got)
	wakeUps.report()
	j.unlock()
}

// stays wants the lock to have the same holder for three times its lease, and
// always to have a lease.
func stays(t *testing.T, b *redisson.Bench, lease time.Duration) {
	t.Helper()
	admin := b.Admin().Bind(t)
	hash := admin.Map("HGETALL", b.Name)
	least := lease
	for end := time.Now().Add(3 * lease); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		left := milliseconds(admin.Int("PTTL", b.Name))
		if left <= 0 || left > lease {
			t.Fatalf("%q has %v left, want a lease of %v", b.Name, left, lease)
		}
		least = min(least, left)
	}
	wantSame(t, hash, admin.Map("HGETALL", b.Name))
	if least > lease*9/10 {
		t.Errorf("the lease was never below %v: what was measured is no renewal", least)
	}
}

func fixedLeases(t *testing.T, b *redisson.Bench) {
	const lease, less, more = 4 * time.Second, 2 * time.Second, 6 * time.Second
	admin := b.Admin().Bind(t)
	heard := admin.Listen(channel(b.Name))
	j := java(t, b, "c18")
	l := b.Locker(10 * time.Second)
	must.Unlock(t, held(t, l, b.Name+":first")) // connects and asks what the server is, which counts for no wait below

	quiet := b.Quiet() // a JVM that starts may take the whole second that Go has for a round trip
	quiet.Lock()
	j.lock(lease)
	began := await.NewWatch(t)
	_, err := l.TryLock(t.Context(), b.Name, holdfast.Wait(less))
	took, starved := time.Since(began.Began), began.Late()
	quiet.Unlock()
	if !isBusy(err) {
		t.Fatalf("Go, which waits for less than the lease: %v, want ErrBusy; the machine stood still for %v", err, starved)
	}
	if took < less || took > less+late+starved {
		t.Errorf("Go gave up after %v, want %v; the machine stood still for %v", took, less, starved)
	}
	end := ends(t, admin, b.Name)
	lock := held(t, l, b.Name, holdfast.Wait(more), holdfast.FixedLease(lease))
	wantAt(t, time.Now(), end)
	j.wantNotHeld()
	wantPublished(t, admin, heard, b.Name, 0)

	if j.tryLock(less, 0) {
		t.Fatal("Java got the lock, although it waited for less than the lease")
	}
	end = ends(t, admin, b.Name)
	if !j.tryLock(more, 0) {
		t.Fatal("Java was refused, although it waited for more than the lease")
	}
	wantAt(t, time.Now(), end)
	wantLost(t, lock)
	wantPublished(t, admin, heard, b.Name, 1) // 1: the end of the first count
	j.unlock()
}

// Nobody who held the lock before renews the lease of its holder now.
func alternatingLeases(t *testing.T, b *redisson.Bench) {
	const timeout, lease = 3 * time.Second, 8 * time.Second
	admin := b.Admin().Bind(t)
	j := java(t, b, "c19").in(watchdog(b, timeout))
	b.WarmUp(j.jvm)
	unmoved := func(want time.Duration, since time.Time) {
		t.Helper()
		wantTTL(t, admin, b.Name, want, since)
		end := ends(t, admin, b.Name)
		time.Sleep(timeout/3 + 2*slack) // a round of renewals, at a third of the lease
		wantUnmoved(t, admin, b.Name, end)
	}
	for _, own := range []time.Duration{2500 * time.Millisecond, time.Minute} { // shorter and longer than the watchdog's
		eachAdapter(b, timeout, func(_ string, l *holdfast.Locker) {
			since := time.Now()
			j.lock(0)
			wantTTL(t, admin, b.Name, timeout, since)
			renewed(t, admin, b.Name)
			j.unlock()
			since = time.Now()
			lock := held(t, l, b.Name, holdfast.FixedLease(own))
			unmoved(own, since)
			must.Unlock(t, lock)

			since = time.Now()
			lock = held(t, l, b.Name)
			wantTTL(t, admin, b.Name, timeout, since)
			renewed(t, admin, b.Name)
			must.Unlock(t, lock)
			since = time.Now()
			j.lock(lease)
			unmoved(lease, since)
			j.unlock()
		})
	}
}
