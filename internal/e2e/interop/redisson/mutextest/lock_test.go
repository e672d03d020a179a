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

// The plain lock, RLock.
func TestLock(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Standalone, []redisson.Case{
		{Name: "01 Java holds, Go is refused", Run: javaHolds},
		{Name: "02 Go holds, Java is refused", Run: goHolds},
		{Name: "03 Java unlocks while Go waits", Run: goWaits},
		{Name: "04 Go unlocks while Java waits", Run: javaWaits},
		{Name: "05 both re-enter", Run: bothReenter},
		{Name: "06 Java is killed while it holds", Run: javaKilled},
		{Name: "07 Go is killed while it holds", Run: goKilled},
		{Name: "07b Go is killed after a quiet release", Run: goKilledInBurst},
		{Name: "08 Java's watchdog keeps Go out", Run: javaRenews},
		{Name: "09 Go's renewals keep Java out", Run: goRenews},
		{Name: "10 Go breaks a lock of Java", Run: goBreaks},
		{Name: "11 Java forces a lock of Go open", Run: javaForces},
		{Name: "12 the key is deleted under its holder", Run: keyDeleted},
		{Name: "13 a JVM is stopped for longer than its lease", Run: javaPaused},
		{Name: "14 a Go process is stopped for longer than its lease", Run: goPaused},
		{Name: "15 names of all sorts", Run: names},
		{Name: "16 a NameMapper and a Prefix", Run: prefixes},
		{Name: "18 leases that are not renewed", Run: fixedLeases},
		{Name: "19 the TTL is always the holder's", Run: alternatingLeases},
		{Name: "21 latch keys come to an end", Run: latchKeys},
		{Name: "22a Go loses the reply to an acquire", Run: goLosesReplies},
		{Name: "22b Java loses it, single server", Run: javaLosesReply("single")},
		{Name: "22c Java loses it, other modes", Run: javaLosesReply("replicated")},
		{Name: "61 a message that means nothing", Run: garbage},
		{Name: "63 a name has one kind", Run: kinds},
		{Name: "65 Go keeps a name after its unlock", Run: goKeeps},
		{Name: "66a all callers of Go give up while Java waits", Run: goGivesUp},
		{Name: "66b all callers of Go give up while their release is late", Run: goGivesUpLate},
	})
}

func javaHolds(t *testing.T, b *redisson.Bench) {
	j := java(t, b, "c01")
	for _, lease := range []time.Duration{20 * time.Second, 0} {
		before := time.Now()
		j.lock(lease)
		after := time.Now()
		eachAdapter(b, 10*time.Second, func(adapter string, l *holdfast.Locker) {
			most := lease - time.Since(after) + slack
			least := lease - slack
			if lease == 0 { // the watchdog's, which may have renewed it meanwhile
				most, least = 30*time.Second, 30*time.Second-slack
			}
			busy := namesHolder(t, l, b.Name)
			if least -= time.Since(before); busy.Remaining < least || busy.Remaining > most {
				t.Errorf("%s says that %v are left, want between %v and %v", adapter, busy.Remaining, least, most)
			}
			if !strings.HasPrefix(busy.Holder, "Redisson client ") {
				t.Errorf("%s says that the holder is %q", adapter, busy.Holder)
			}
		})
		j.unlock()
	}
	eachAdapter(b, 10*time.Second, func(_ string, l *holdfast.Locker) { // and then it is free
		must.Unlock(t, held(t, l, b.Name, holdfast.Wait(0)))
	})
}

func goHolds(t *testing.T, b *redisson.Bench) {
	const ttl = 20 * time.Second
	j := java(t, b, "c02")
	eachAdapter(b, ttl, func(_ string, l *holdfast.Locker) {
		since := time.Now()
		lock := held(t, l, b.Name)
		j.wantBusy()
		if !j.do("isLocked").Bool() {
			t.Error("isLocked says no")
		}
		if j.do("isHeld").Bool() || j.do("holdCount").Int() != 0 {
			t.Error("Java believes that it holds the lock")
		}
		left := milliseconds(j.do("ttl").Int())
		if least := ttl - time.Since(since) - slack; left < least || left > ttl {
			t.Errorf("remainTimeToLive is %v, want between %v and %v", left, least, ttl)
		}
		began := time.Now()
		if j.tryLock(300*time.Millisecond, 0) {
			t.Error("Java got the lock that Go holds")
		}
		if took := time.Since(began); took < 299*time.Millisecond { // Redisson counts whole milliseconds
			t.Errorf("Java gave up after %v, want 300ms", took)
		}
		must.Unlock(t, lock)
		if j.do("isLocked").Bool() {
			t.Error("isLocked says yes after the unlock")
		}
	})
}

func goWaits(t *testing.T, b *redisson.Bench) {
	j := java(t, b, "c03")
	wakeUps := newWakeUps(t, b)
	eachAdapter(b, 10*time.Second, func(adapter string, l *holdfast.Locker) {
		for range 3 { // Go also asks by itself once a second: one wake-up could be luck
			j.lock(time.Minute)
			listeners(t, b.Admin(), b.Name, 0)
			w := begin(t, l, b.Name)
			asleep(t, b.Admin(), b.Name, 1)
			w.wantWaiting()
			wakeUps.measure(adapter, j.unlock, w.got)
			must.Unlock(t, w.lock)
		}
	})
	wakeUps.report()
}

func javaWaits(t *testing.T, b *redisson.Bench) {
	j := java(t, b, "c04")
	wakeUps := newWakeUps(t, b)
	eachAdapter(b, time.Minute, func(_ string, l *holdfast.Locker) {
		for _, op := range []string{"lock", "tryLock", "lockInterruptibly"} {
			lock := held(t, l, b.Name)
			listeners(t, b.Admin(), b.Name, 0)
			q := j.begin(op, time.Minute, 0)
			q.asleep()
			q.wantWaiting()
			wakeUps.measure(op, func() { must.Unlock(t, lock) }, q.got)
			j.unlock()
		}
		lock, recipe := held(t, l, "stock:42"), j.at("stock:42").begin("recipe", 0, 0)
		recipe.asleep()
		recipe.wantWaiting()
		must.Unlock(t, lock)
		if !recipe.answer.Wait().Bool() {
			t.Error("the recipe has not shipped")
		}
	})
	wakeUps.report()
}

func bothReenter(t *testing.T, b *redisson.Bench) {
	admin := b.Admin().Bind(t)
	heard := admin.Listen(channel(b.Name))
	j, other := java(t, b, "c05-a"), java(t, b, "c05-b")
	seen := 0
	l := b.Locker(30 * time.Second)
	for _, want := range []string{"1", "2", "3"} {
		j.lock(0)
		wantCount(t, b, want)
	}
	for _, want := range []string{"2", "1"} {
		j.unlock()
		wantCount(t, b, want)
		wantBusy(t, l, b.Name)
	}
	seen = wantPublished(t, admin, heard, b.Name, seen)
	j.unlock()
	wantCount(t, b, "")
	seen = wantPublished(t, admin, heard, b.Name, seen, "0")

	eachAdapter(b, 30*time.Second, func(_ string, l *holdfast.Locker) {
		ctx := holdfast.WithOwner(t.Context())
		var lock *holdfast.Lock
		for _, want := range []string{"1", "2", "3"} {
			var err error
			if lock, err = l.Lock(ctx, b.Name); err != nil {
				t.Fatal(err)
			}
			wantCount(t, b, want)
		}
		for _, want := range []string{"2", "1"} {
			must.Unlock(t, lock)
			wantCount(t, b, want)
			other.wantBusy()
		}
		seen = wantPublished(t, admin, heard, b.Name, seen)
		must.Unlock(t, lock)
		wantCount(t, b, "")
		seen = wantPublished(t, admin, heard, b.Name, seen, "0")
	})
}

// through returns a Locker over one adapter.
func through(b *redisson.Bench, adapter string, ttl time.Duration) *holdfast.Locker {
	return b.Over(b.Through(adapter, redishold.Options{}), ttl)
}
