package mutextest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/must"
)

// goKeeps has Go unlock before its AtLeast has passed. Threads that wait are woken once,
// and learn that the name stays taken until then, which is sooner than the lease they saw.
func goKeeps(t *testing.T, b *redisson.Bench) {
	const least = 3 * time.Second
	admin := b.Admin().Bind(t)
	heard := admin.Listen(channel(b.Name))
	j, other := java(t, b, "c65-a"), java(t, b, "c65-b")
	l := b.Locker(time.Minute)
	began := time.Now()
	lock := held(t, l, b.Name, holdfast.AtLeast(least))
	waiters := []queued{j.begin("lock", 0, 0), other.begin("tryLock", time.Minute, 0)}
	for _, q := range waiters {
		q.asleep()
	}
	must.Unlock(t, lock)
	java(t, b, "c65-c").wantBusy()
	if busy := whoHolds(t, l, b.Name); busy.Remaining > least {
		t.Errorf("BusyError says that %v are left, want %v at most", busy.Remaining, least)
	}
	end := ends(t, admin, b.Name)
	redisson.Await(t, "a thread that waited has the lock", func() bool {
		return !waiters[0].answer.Waits() || !waiters[1].answer.Waits()
	})
	if waiters[0].answer.Waits() {
		waiters[0], waiters[1] = waiters[1], waiters[0]
	}
	at := waiters[0].got()
	if early := began.Add(least).Sub(at); early > 0 {
		t.Errorf("a thread had the lock %v before the end", early)
	}
	wantAt(t, at, end)
	seen := wantPublished(t, admin, heard, b.Name, 0, "0")
	waiters[1].wantWaiting()
	waiters[0].unlock()
	waiters[1].got()
	waiters[1].unlock()
	wantPublished(t, admin, heard, b.Name, seen, "0", "0")
}
