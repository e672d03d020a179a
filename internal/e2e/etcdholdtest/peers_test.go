package etcdholdtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// timeout bounds a wait for what is sure to come.
const timeout = 20 * time.Second

// locker returns a Locker of a client of its own.
func locker(t *testing.T, opts ...func(*etcdhold.Options)) *holdfast.Locker {
	t.Helper()
	return lockerOf(t, server.Client(t), opts...)
}

func lockerOf(t *testing.T, client *clientv3.Client, opts ...func(*etcdhold.Options)) *holdfast.Locker {
	t.Helper()
	o := etcdhold.Options{TTL: 2 * shortest}
	for _, opt := range opts {
		opt(&o)
	}
	return sessiontest.LockerOf(t, etcdhold.New(client, &o))
}

// within returns a context that ends after timeout.
func within(t *testing.T) context.Context { return await.Context(t, timeout) }

// name returns the name of a lock for t alone, without a slash.
func name(t *testing.T) string { return strings.ReplaceAll(t.Name(), "/", "-") }

// mutex returns a Mutex of package concurrency with a session of its own.
func mutex(t *testing.T, name string, ttl int) (*concurrency.Mutex, *concurrency.Session) {
	t.Helper()
	s, err := concurrency.NewSession(server.Client(t), concurrency.WithTTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return concurrency.NewMutex(s, name), s
}

// empty requires that no key is left of a name.
func empty(t *testing.T, name string) {
	t.Helper()
	r, err := server.Client(t).Get(within(t), name+"/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range r.Kvs {
		t.Errorf("left: %s", kv.Key)
	}
}

// A Mutex of package concurrency and a lock keep each other out, and each is woken by the
// other's end.
func TestConcurrencyMutex(t *testing.T) {
	t.Parallel()
	l := locker(t)
	m, _ := mutex(t, name(t), 5)
	ctx := within(t)
	lock := must.Lock(t, l, name(t))
	if err := m.TryLock(ctx); !errors.Is(err, concurrency.ErrLocked) {
		t.Fatalf("TryLock of a Mutex while we hold: got error %v, want ErrLocked", err)
	}
	locked := make(chan error)
	go func() { locked <- m.Lock(ctx) }()
	select {
	case err := <-locked:
		t.Fatalf("Lock of a Mutex while we hold: got %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	must.Unlock(t, lock)
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	_, err := l.TryLock(ctx, name(t))
	if !errors.Is(err, holdfast.ErrBusy) {
		t.Fatalf("TryLock while a Mutex holds: got error %v, want ErrBusy", err)
	}
	ours := make(chan *holdfast.Lock)
	go func() { ours <- must.Lock(t, l, name(t)) }()
	select {
	case <-ours:
		t.Fatal("locked while a Mutex holds")
	case <-time.After(100 * time.Millisecond):
	}
	if err := m.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	got := <-ours
	if next := uint64(m.Header().Revision) << 10; got.Token() <= next {
		t.Errorf("token %d, want more than that of the Mutex before, %d shifted", got.Token(), next)
	}
	must.Unlock(t, got)
	empty(t, name(t))
}

// Locks, read-write locks, semaphores and Mutexes of several clients pass through one
// section, or as many as may.
func TestConcurrencyMutexUnderContention(t *testing.T) {
	t.Parallel()
	const rounds = 15
	ctx := within(t)
	var inside atomic.Int32
	var passed [2]atomic.Int32
	section := func(who int) {
		if n := inside.Add(1); n != 1 {
			t.Errorf("%d inside at once", n)
		}
		time.Sleep(time.Millisecond)
		inside.Add(-1)
		passed[who].Add(1)
	}
	var wg sync.WaitGroup
	for range 2 {
		l := locker(t)
		for range 3 {
			wg.Go(func() {
				for range rounds {
					lock := must.Lock(t, l, name(t))
					section(0)
					must.Unlock(t, lock)
				}
			})
		}
	}
	for range 3 {
		m, _ := mutex(t, name(t), 5)
		wg.Go(func() {
			for range rounds {
				if err := m.Lock(ctx); err != nil {
					t.Error(err)
					return
				}
				section(1)
				if err := m.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d passes of ours, %d of Mutexes", passed[0].Load(), passed[1].Load())
	empty(t, name(t))
}

// A Mutex waits for all readers and permits, and those that come later wait for it.
func TestConcurrencyMutexAmongReaders(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	l := locker(t)
	for kind, take := range map[string]func(name string, opts ...holdfast.Option) (*holdfast.Lock, error){
		"readers": func(name string, opts ...holdfast.Option) (*holdfast.Lock, error) {
			return l.RWMutex(name).Read.TryLock(ctx, opts...)
		},
		"permits": func(name string, opts ...holdfast.Option) (*holdfast.Lock, error) {
			return l.Semaphore(name, 3).TryAcquire(ctx, opts...)
		},
	} {
		name := name(t) + kind
		var held [2]*holdfast.Lock
		for i := range held {
			var err error
			if held[i], err = take(name); err != nil {
				t.Fatal(err)
			}
		}
		m, _ := mutex(t, name, 5)
		locked := make(chan error)
		go func() { locked <- m.Lock(ctx) }()
		waitsIn(t, name, 3)
		if _, err := take(name); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("%s: got error %v behind a waiting Mutex, want ErrBusy", kind, err)
		}
		must.Unlock(t, held[0])
		select {
		case err := <-locked:
			t.Fatalf("%s: Lock of a Mutex while one is left: got %v", kind, err)
		case <-time.After(100 * time.Millisecond):
		}
		must.Unlock(t, held[1])
		if err := <-locked; err != nil {
			t.Fatal(err)
		}
		if err := m.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		empty(t, name)
	}
}

// left returns how many keys there are below a name, -1 if that cannot be known now.
func left(t *testing.T, name string) int { return leftIn(t, observer, name) }

func leftIn(t *testing.T, client *clientv3.Client, name string) int {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	r, err := client.Get(ctx, name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return -1
	}
	return int(r.Count)
}

// waitsIn waits until there are n keys below a name.
func waitsIn(t *testing.T, name string, n int) {
	t.Helper()
	waitsOn(t, observer, name, n)
}

// waitsOn is waitsIn on the server of a client.
func waitsOn(t *testing.T, client *clientv3.Client, name string, n int) {
	t.Helper()
	await.Until(t, timeout, fmt.Sprintf("%d keys of %s", n, name), func() bool { return leftIn(t, client, name) == n })
}

// A name and one that continues it are two locks, though to a Mutex they are one.
func TestNestedNames(t *testing.T) {
	t.Parallel()
	l := locker(t)
	inner := name(t) + "/1"
	m, _ := mutex(t, inner, 5)
	if err := m.Lock(within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.TryLock(within(t), inner); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("TryLock(%q) while a Mutex holds: got error %v, want ErrBusy", inner, err)
	}
	for _, free := range []string{name(t), inner + "/1", name(t) + "/"} {
		lock, err := l.TryLock(within(t), free)
		if err != nil {
			t.Errorf("TryLock(%q) while %q is held: %v", free, inner, err)
			continue
		}
		must.Unlock(t, lock)
	}
}

// A Mutex that unlocks and locks again has the same key, behind that of a waiter who has
// seen it before its own.
func TestConcurrencyMutexLocksAgain(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	m, _ := mutex(t, name(t), 5)
	if err := m.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	b := etcdhold.New(server.Client(t), &etcdhold.Options{TTL: 10 * time.Second})
	claim := driver.Claim{Name: name(t), Client: "c", Owner: "c:1", Seq: 1, TTL: 10 * time.Second, Count: 1, Tokens: 1}
	out, err := b.Try(ctx, claim)
	if err != nil || out.Granted {
		t.Fatalf("Try while a Mutex holds: got granted %v and error %v", out.Granted, err)
	}
	if err := m.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	locked := make(chan error, 1)
	go func() { locked <- m.Lock(ctx) }()
	waitsIn(t, name(t), 2)
	w := b.Waiter(claim)
	if _, err := w.Wait(ctx, out); err != nil {
		t.Fatalf("Wait when the Mutex has its key behind ours: got error %v", err)
	}
	w.Close()
	if out, err := b.Try(ctx, claim); err != nil || !out.Granted {
		t.Fatalf("Try when the Mutex is behind us: got granted %v and error %v", out.Granted, err)
	}
	if err := b.Release(ctx, claim); err != nil {
		t.Fatal(err)
	}
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Unlock(ctx), b.Drain(ctx)); err != nil {
		t.Error(err)
	}
}

// A Mutex that waits behind a writer waits for the reader that the writer has taken
// beside itself, too, although it came before that.
func TestConcurrencyMutexAndDowngrade(t *testing.T) {
	t.Parallel()
	l := locker(t)
	rw := l.RWMutex(name(t))
	ctx := holdfast.WithOwner(within(t))
	writer, err := rw.Write.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := mutex(t, name(t), 5)
	locked := make(chan error, 1)
	go func() { locked <- m.Lock(within(t)) }()
	waitsIn(t, name(t), 2)
	reader, err := rw.Read.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	must.Unlock(t, writer)
	select {
	case err := <-locked:
		t.Fatalf("Lock of a Mutex while the reader of a downgrade is left: got %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	must.Unlock(t, reader)
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	if err := m.Unlock(within(t)); err != nil {
		t.Error(err)
	}
	empty(t, name(t))
}
