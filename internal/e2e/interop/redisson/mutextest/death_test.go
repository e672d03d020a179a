package mutextest

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

// late is how long after the end of a lease a waiter may have the lock.
const late = 2 * time.Second

// renewed waits until the holder's lease has been renewed.
func renewed(t *testing.T, a redistest.Admin, key string) {
	t.Helper()
	last := int64(1 << 62)
	redisson.Await(t, "a renewal of "+key, func() bool {
		left := a.Bind(t).Int("PTTL", key)
		more := left > last
		last = left
		return more
	})
}

// end is when a lease is over: not before from, not after to. What lies between is
// the time in which the server was asked.
type end struct{ from, to time.Time }

// ends returns when the lease ends that key has now, if nobody renews it.
func ends(t *testing.T, a redistest.Admin, key string) end {
	t.Helper()
	before := time.Now()
	left := milliseconds(a.Bind(t).Int("PTTL", key))
	if left <= 0 {
		t.Fatalf("%q has %v left", key, left)
	}
	return end{before.Add(left), time.Now().Add(left)}
}

// wantUnmoved wants the lease of key to end when it was to end before.
func wantUnmoved(t *testing.T, a redistest.Admin, key string, was end) {
	t.Helper()
	if now := ends(t, a, key); now.from.Sub(was.to) > slack || was.from.Sub(now.to) > slack {
		t.Errorf("the end of the lease was moved by %v", now.to.Sub(was.to))
	}
}

// wantAt wants a waiter to have had the lock at the end of a lease, and not
// before.
func wantAt(t *testing.T, at time.Time, lease end) {
	t.Helper()
	if at.Sub(lease.from) < -slack || at.Sub(lease.to) > late {
		t.Errorf("the waiter had the lock %v after the end of the lease, want between %v and %v", at.Sub(lease.to), -slack, late)
	}
}

func javaKilled(t *testing.T, b *redisson.Bench) {
	const timeout = 3 * time.Second
	jvm := watchdog(b, timeout)
	j := java(t, b, "c06").in(jvm)
	j.lock(0)
	w := begin(t, through(b, "goredis", 10*time.Second), b.Name)
	renewed(t, b.Admin(), b.Name)
	wantTTL(t, b.Admin(), b.Name, timeout, time.Now().Add(-time.Second))
	jvm.Kill()
	end := ends(t, b.Admin(), b.Name)
	w.wantWaiting()
	wantAt(t, w.got(), end)
	must.Unlock(t, w.lock)
}

func goKilled(t *testing.T, b *redisson.Bench) {
	const ttl = 2 * time.Second
	holder := b.GoProcess("rueidis", ttl)
	holder.Do(peer.Command{Op: "lock", Name: b.Name})
	j := java(t, b, "c07")
	q := j.begin("lock", 0, 0)
	renewed(t, b.Admin(), b.Name)
	wantTTL(t, b.Admin(), b.Name, ttl, time.Now().Add(-ttl/3))
	holder.Kill()
	end := ends(t, b.Admin(), b.Name)
	q.wantWaiting()
	wantAt(t, q.got(), end)
	j.unlock()
}

// A process that dies between a quiet release and its next grant wakes nobody. Java waits for
// the rest of the lease that it read, as if the process had died while it held the lock.
func goKilledInBurst(t *testing.T, b *redisson.Bench) {
	const client, ttl = "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11", 3 * time.Second
	store := b.Backend(redishold.Options{})
	claim := driver.Claim{Name: b.Name, Client: client, Seq: 1, Owner: client + ":1", TTL: ttl, Count: 1, Tokens: 1, Quiet: true}
	if out, err := store.Try(t.Context(), claim); err != nil || !out.Granted {
		t.Fatalf("got %+v and error %v", out, err)
	}
	end := ends(t, b.Admin(), b.Name)
	j := java(t, b, "c07b")
	q := j.begin("lock", 0, 0)
	q.asleep()
	finish := store.StartRelease(t.Context(), claim)
	if _, err := finish(); err != nil {
		t.Fatal(err)
	}
	q.wantWaiting()
	wantAt(t, q.got(), end)
	j.unlock()
}

func javaPaused(t *testing.T, b *redisson.Bench) {
	const timeout = 1500 * time.Millisecond
	jvm := watchdog(b, timeout)
	admin := b.Admin().Bind(t)
	j := java(t, b, "c13").in(jvm)
	j.lock(0)
	jvm.Pause()
	began := await.NewWatch(t)
	lock := held(t, b.Locker(10*time.Second), b.Name, holdfast.FixedLease(time.Minute)) // not renewed
	if took := began.Took(); took > timeout+late {
		t.Errorf("Go waited for %v, want %v at most", took, timeout+late)
	}
	hash, end := admin.Map("HGETALL", b.Name), ends(t, admin, b.Name)
	jvm.Resume()
	if j.do("isHeld").Bool() {
		t.Error("Java, when asked, says that it holds the lock")
	}
	time.Sleep(2 * timeout / 3) // two rounds of its watchdog
	wantUnmoved(t, admin, b.Name, end)
	j.wantNotHeld()
	wantSame(t, hash, admin.Map("HGETALL", b.Name))
	must.Unlock(t, lock)
	t.Attr("observed", "a JVM that was stopped past its lease is notified of the loss by isHeldByCurrentThread and unlock only; its watchdog leaves the new holder alone")
}

func goPaused(t *testing.T, b *redisson.Bench) {
	const ttl = 1500 * time.Millisecond
	holder := b.GoProcess("goredis", ttl)
	admin := b.Admin().Bind(t)
	holder.Do(peer.Command{Op: "lock", Name: b.Name})
	holder.Pause()
	j := java(t, b, "c14")
	began := await.NewWatch(t)
	j.lock(time.Minute) // not renewed
	if took := began.Took(); took > ttl+late {
		t.Errorf("Java waited for %v, want %v at most", took, ttl+late)
	}
	hash, end := admin.Map("HGETALL", b.Name), ends(t, admin, b.Name)
	holder.Resume()
	for _, op := range []string{"err", "over", "unlock"} {
		if r := holder.Try(peer.Command{Op: op}); r.Class != "ErrLost" {
			t.Errorf("%s in the process that was stopped: %v, want ErrLost", op, r.Err())
		}
	}
	wantSame(t, hash, admin.Map("HGETALL", b.Name))
	wantUnmoved(t, admin, b.Name, end)
	j.unlock()
}

func wantSame(t *testing.T, before, after map[string]string) {
	t.Helper()
	if len(before) != 1 || len(after) != 1 {
		t.Errorf("the hash is %v, was %v; want one field", after, before)
	}
	for owner, count := range before {
		if after[owner] != count {
			t.Errorf("the hash is %v, was %v", after, before)
		}
	}
}

// toldAfter waits until the holder is notified that its lock is lost, and returns how much
// later than since that was.
func toldAfter(t *testing.T, lock *holdfast.Lock, since time.Time) time.Duration {
	t.Helper()
	over := lock.Context(t.Context())
	select {
	case <-over.Done():
	case <-time.After(patience):
		t.Fatal("Go was not told of the loss")
	}
	took := time.Since(since)
	if err := lock.Err(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Err is %v, want ErrLost", err)
	}
	return took
}
