package deploytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/redishold"
)

// wakeLimit bounds how long a waiter may sleep after its lock is free. A watched store
// wakes nobody without a message before two thirds of the TTL have passed.
const wakeLimit = 2 * time.Second

// names are in many slots of a cluster.
func names(kind string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s:%d", kind, i)
	}
	return all
}

// useMutexes takes locks with two clients of one deployment.
func useMutexes(t *testing.T, ours, theirs client) {
	t.Helper()
	ctx := await.Context(t, 20*time.Second)
	for _, name := range names("mutex", 8) {
		exchange(t, ctx, theirs.store, ours.Mutex(name), theirs.Mutex(name))
	}
	var all []*holdfast.Mutex
	for _, name := range names("mutex", 50) {
		all = append(all, ours.Mutex(name))
	}
	locks, err := holdfast.LockAll(ctx, all)
	if err != nil {
		t.Fatalf("LockAll: %v", err)
	}
	if _, err := theirs.TryLock(ctx, "mutex:49"); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("TryLock of one of LockAll: got %v, want ErrBusy", err)
	}
	if err := locks.Unlock(); err != nil {
		t.Errorf("Unlock of all: %v", err)
	}
}

// exchange lets a lock pass from one client to another, of which store is: refused,
// awaited, woken, with a larger token.
func exchange(t *testing.T, ctx context.Context, store *watched, ours, theirs *holdfast.Mutex) {
	t.Helper()
	first, err := ours.Lock(ctx)
	if err != nil {
		t.Fatalf("Lock %q: %v", ours.Name(), err)
	}
	var busy *holdfast.BusyError
	if _, err := theirs.TryLock(ctx); !errors.As(err, &busy) || busy.Holder == "" || busy.Remaining <= 0 {
		t.Errorf("TryLock %q: got %v, want who holds it and for how long", ours.Name(), err)
	}
	asleep := store.asleep(t, "a waiter of "+ours.Name())
	next := make(chan *holdfast.Lock, 1)
	go func() {
		second, err := theirs.Lock(ctx)
		if err != nil {
			t.Errorf("second Lock %q: %v", ours.Name(), err)
		}
		next <- second
	}()
	asleep()
	freed := await.NewWatch(t)
	if err := first.Unlock(); err != nil {
		t.Errorf("Unlock %q: %v", ours.Name(), err)
	}
	second := <-next
	if second == nil {
		return
	}
	wantWoken(t, ours.Name(), freed)
	if second.Token() <= first.Token() {
		t.Errorf("%q: token %d after %d", ours.Name(), second.Token(), first.Token())
	}
	if err := second.Unlock(); err != nil {
		t.Errorf("Unlock %q: %v", ours.Name(), err)
	}
}

// wantWoken wants a waiter to have what was released at freed by now.
func wantWoken(t *testing.T, name string, freed *await.Watch) {
	t.Helper()
	if took := freed.Took(); took > wakeLimit {
		t.Errorf("%q: woken after %v, want at most %v", name, took, wakeLimit)
	}
}

// useOtherKinds takes one lock of each other kind with two clients.
func useOtherKinds(t *testing.T, ours, theirs client) {
	t.Helper()
	ctx := await.Context(t, 20*time.Second)
	for _, name := range names("kind", 3) {
		exchange(t, ctx, theirs.store, ours.FairMutex(name+":fair"), theirs.FairMutex(name+":fair"))
		exchange(t, ctx, theirs.store, ours.RWMutex(name+":rw").Write, theirs.RWMutex(name+":rw").Write)
		exchange(t, ctx, theirs.store, ours.RWMutex(name+":rw2").Read, theirs.RWMutex(name+":rw2").Write)
		shareReads(t, ctx, ours.RWMutex(name+":rw3"), theirs.RWMutex(name+":rw3"))
		usePermits(t, ctx, ours.Semaphore(name+":permits", 2), theirs.Semaphore(name+":permits", 2))
		useLatch(t, ctx, theirs.store, ours.CountDownLatch(name+":latch"), theirs.CountDownLatch(name+":latch"))
	}
}

func shareReads(t *testing.T, ctx context.Context, ours, theirs holdfast.RWMutex) {
	t.Helper()
	first, err := ours.Read.Lock(ctx)
	if err != nil {
		t.Fatalf("Read.Lock: %v", err)
	}
	second, err := theirs.Read.TryLock(ctx)
	if err != nil {
		t.Fatalf("second Read.TryLock: %v", err)
	}
	if err := errors.Join(first.Unlock(), second.Unlock()); err != nil {
		t.Errorf("Unlock of readers: %v", err)
	}
}

func usePermits(t *testing.T, ctx context.Context, ours, theirs *holdfast.Semaphore) {
	t.Helper()
	one, err := ours.Acquire(ctx)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	two, err := theirs.Acquire(ctx)
	if err != nil {
		t.Fatalf("second Acquire: %v", err)
	}
	if _, err := ours.TryAcquire(ctx); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("third of two permits: got %v, want ErrBusy", err)
	}
	if err := errors.Join(one.Unlock(), two.Unlock()); err != nil {
		t.Errorf("Unlock of permits: %v", err)
	}
}

func useLatch(t *testing.T, ctx context.Context, store *watched, ours, theirs *holdfast.CountDownLatch) {
	t.Helper()
	if set, err := ours.TrySet(ctx, 1); err != nil || !set {
		t.Fatalf("Set: got %v, %v", set, err)
	}
	asleep := store.asleep(t, "a waiter of "+ours.Name())
	open := make(chan error, 1)
	go func() { open <- theirs.Wait(ctx) }()
	asleep()
	freed := await.NewWatch(t)
	if err := ours.CountDown(ctx); err != nil {
		t.Fatalf("Done: %v", err)
	}
	if err := <-open; err != nil {
		t.Errorf("Wait: %v", err)
	}
	wantWoken(t, ours.Name(), freed)
}

// useLog lets one client read what the other did.
func useLog(t *testing.T, ours, theirs *redishold.Backend) {
	t.Helper()
	ctx := await.Context(t, 20*time.Second)
	log := audit.New(ours, nil)
	l := holdfast.New(ours, &holdfast.Options{TTL: ttl, Observe: log.Observe})
	lock, err := l.Lock(ctx, "of old")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.Unlock(), l.Drain(ctx), log.Flush(ctx)); err != nil {
		t.Fatal(err)
	}
	list, err := theirs.ReadLog(ctx, admin.LogFilter{Last: time.Hour, Limit: 10_000})
	list = slices.DeleteFunc(list, func(h admin.Entry) bool { return h.Name != "of old" })
	if err != nil || len(list) != 2 || list[0].Type != admin.EntryAcquired || list[1].Type != admin.EntryReleased || list[1].Token != lock.Token() {
		t.Errorf("got %+v and error %v, want an acquire and a release with token %d", list, err, lock.Token())
	}
}
