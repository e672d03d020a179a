package mutextest

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

// RFencedLock, which draws a token for each acquisition.
func TestFenced(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Standalone, []redisson.Case{
		{Name: "23 tokens rise over Go and Java", From: "3.19.0", Run: sharedTokens},
		{Name: "24 Go without shared tokens", From: "3.19.0", Run: ownTokens},
	})
}

// The spin lock, which polls.
func TestSpin(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Standalone, []redisson.Case{
		{Name: "25 the spin lock", Run: spin},
	})
}

// The lock that its own thread cannot take again.
func TestNonReentrant(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Standalone, []redisson.Case{
		{Name: "26 the non-reentrant lock", From: "4.4.0", Run: nonReentrant},
	})
}

func sharedTokens(t *testing.T, b *redisson.Bench) {
	j := java(t, b, "c23").of("fenced")
	var last int64
	rises := func(who string, token int64) {
		t.Helper()
		if token <= last {
			t.Errorf("%s has the token %d after %d", who, token, last)
		}
		last = token
	}
	for _, adapter := range []string{"rueidis", "goredis"} {
		l := b.Over(b.Through(adapter, redishold.Options{SharedTokens: true}), 10*time.Second)
		for range 5 {
			rises("Java", j.do("lockAndGetToken").Int())
			if got := j.do("token").Int(); got != last {
				t.Errorf("getToken returns %d, want %d", got, last)
			}
			wantBusy(t, l, b.Name)
			j.unlock()

			lock := held(t, l, b.Name)
			rises("Go", int64(lock.Token()))
			if got := j.do("token").Int(); got != last {
				t.Errorf("Java's getToken returns %d while Go holds %d", got, last)
			}
			j.wantBusy()
			if got := j.do("token").Int(); got != last {
				t.Errorf("an attempt that was refused drew the token %d", got)
			}
			must.Unlock(t, lock)
		}
	}
	if left := b.Admin().Bind(t).Int("PTTL", "redisson_lock_token:{"+b.Name+"}"); left != -1 {
		t.Errorf("the counter has a TTL of %d, want none", left)
	}
}

func ownTokens(t *testing.T, b *redisson.Bench) {
	j := java(t, b, "c24").of("fenced")
	wakeUps := newWakeUps(t, b)
	eachAdapter(b, 10*time.Second, func(_ string, l *holdfast.Locker) {
		token := j.do("lockAndGetToken").Int()
		wantBusy(t, l, b.Name)
		w := begin(t, l, b.Name)
		asleep(t, b.Admin(), b.Name, 1)
		wakeUps.measure("Go", j.unlock, w.got)
		j.wantBusy()
		if got := j.do("token").Int(); got != token {
			t.Errorf("Redisson's token is %d after Go's lock, want %d still", got, token)
		}
		listeners(t, b.Admin(), b.Name, 0)
		q := j.begin("lock", 0, 0)
		q.asleep()
		wakeUps.measure("Java", func() { must.Unlock(t, w.lock) }, q.got)
		if got := j.do("token").Int(); got != token+1 {
			t.Errorf("Java's next token is %d, want %d", got, token+1)
		}
		j.unlock()
	})
	wakeUps.report()
}

func spin(t *testing.T, b *redisson.Bench) {
	const most = 3 * time.Second // a second with jitter, Java's call and a round trip; the lease is a minute
	admin := b.Admin().Bind(t)
	heard := admin.Listen(channel(b.Name))
	seen := 0
	j := java(t, b, "c25").of("spin")
	wakeUps := newWakeUps(t, b)
	var slowest time.Duration
	eachAdapter(b, 10*time.Second, func(adapter string, l *holdfast.Locker) {
		j.lock(time.Minute)
		wantBusy(t, l, b.Name)
		w := begin(t, l, b.Name)
		asleep(t, admin, b.Name, 1)
		w.wantWaiting()
		took, late := wakeUps.took(j.unlock, w.got)
		if took > most+late {
			t.Errorf("%s had the lock %v after a spin lock's unlock, want %v at most", adapter, took, most)
		} else {
			slowest = max(slowest, took)
		}
		seen = wantPublished(t, admin, heard, b.Name, seen)

		j.wantBusy()
		q := j.begin("lock", 0, 0)
		time.Sleep(200 * time.Millisecond) // it polls: nothing shows that it waits
		q.wantWaiting()
		wakeUps.measure("Java", func() { must.Unlock(t, w.lock) }, q.got)
		seen = wantPublished(t, admin, heard, b.Name, seen, "0")
		j.unlock()
		seen = wantPublished(t, admin, heard, b.Name, seen)
	})
	wakeUps.report()
	t.Attr("observed", "a spin lock publishes nothing at unlock: Go, which asks once a second, had it after "+slowest.Round(time.Millisecond).String())
}

func nonReentrant(t *testing.T, b *redisson.Bench) {
	wakeUps := newWakeUps(t, b)
	admin := b.Admin().Bind(t)
	l := b.Locker(time.Minute)
	j := java(t, b, "c26").of("nonreentrant")
	j.lock(0)
	before := admin.Map("HGETALL", b.Name)
	if r := j.try(j.command("lock", 0, 0)); r.Class != redisson.NotHeld || !strings.Contains(r.Error, "reentrant") {
		t.Errorf("a second lock by the same thread: %v, want %s", r.Err(), redisson.NotHeld)
	}
	wantSame(t, before, admin.Map("HGETALL", b.Name))
	j.unlock()
	share(t, b, j, l, b.Name, b.Name, wakeUps)
	wakeUps.report()
}
