package zkpeertest

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/zkhold"
)

// Readers of both are inside together, and writers alone.
func TestCuratorReadWrite(t *testing.T) {
	p := peer.Start(t, libraries()[0].start(t))
	ctx, at := await.Context(t, timeout), "/"+name(t)
	rw := locker(t, zkhold.Options{}).RWMutex(name(t))
	do := func(thread, op, kind string, wait int64) bool {
		t.Helper()
		return p.Do(peer.Command{Op: op, Thread: thread, Kind: kind, Name: at, Wait: wait}).Bool()
	}
	if !do("one", "lock", "read", timeout.Milliseconds()) {
		t.Fatal("a reader of a free lock was refused")
	}
	reader, err := rw.Read.TryLock(ctx)
	if err != nil {
		t.Fatalf("a reader beside theirs: %v", err)
	}
	if _, err := rw.Write.TryLock(ctx); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("a writer beside readers: got error %v, want ErrBusy", err)
	}
	must.Unlock(t, reader)
	do("one", "unlock", "read", 0)

	writer, err := rw.Write.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"read", "write"} {
		if do("one", "lock", kind, 200) {
			t.Errorf("their %s lock was granted beside our writer", kind)
		}
	}
	must.Unlock(t, writer)

	if !do("one", "lock", "write", timeout.Milliseconds()) {
		t.Fatal("a writer of a free lock was refused")
	}
	for _, m := range []*holdfast.Mutex{rw.Read, rw.Write} {
		if _, err := m.TryLock(ctx); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("beside their writer: got error %v, want ErrBusy", err)
		}
	}
	do("one", "unlock", "write", 0)
}

// A writer that has taken the reading side beside itself, and leaves, keeps their writers
// out and lets their readers in.
func TestCuratorAndDowngrade(t *testing.T) {
	p := peer.Start(t, libraries()[0].start(t))
	at := "/" + name(t)
	rw := locker(t, zkhold.Options{}).RWMutex(name(t))
	ctx := holdfast.WithOwner(await.Context(t, timeout))
	writer, err := rw.Write.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := rw.Read.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	must.Unlock(t, writer)
	if p.Do(peer.Command{Op: "lock", Kind: "write", Name: at, Wait: 200}).Bool() {
		t.Error("their writer was granted beside our reader")
	}
	if !p.Do(peer.Command{Op: "lock", Kind: "read", Name: at, Wait: timeout.Milliseconds()}).Bool() {
		t.Error("their reader was refused beside ours")
	}
	p.Do(peer.Command{Op: "unlock", Kind: "read", Name: at})
	must.Unlock(t, reader)
	if !p.Do(peer.Command{Op: "lock", Kind: "write", Name: at, Wait: timeout.Milliseconds()}).Bool() {
		t.Error("their writer was refused, want that the lock is free")
	}
	p.Do(peer.Command{Op: "unlock", Kind: "write", Name: at})
}

// A path that Curator uses as a mutex is no read-write lock: Curator would not wait for
// that.
func TestPathOfOneKind(t *testing.T) {
	p := peer.Start(t, libraries()[0].start(t))
	if !p.Do(peer.Command{Op: "lock", Name: "/" + name(t), Wait: timeout.Milliseconds()}).Bool() {
		t.Fatal("not granted, want that the name is free")
	}
	_, err := locker(t, zkhold.Options{}).RWMutex(name(t)).Write.TryLock(await.Context(t, timeout))
	if !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("got error %v, want ErrMismatch", err)
	}
	p.Do(peer.Command{Op: "unlock", Name: "/" + name(t)})
}

// Two permits are shared and each side is woken by the other's release.
func TestCuratorSemaphore(t *testing.T) {
	p := peer.Start(t, libraries()[0].start(t))
	ctx, at := await.Context(t, timeout), "/"+name(t)
	s := locker(t, zkhold.Options{}).Semaphore(name(t), 2)
	acquire := func(wait time.Duration) peer.Command {
		return peer.Command{Op: "acquire", Name: at, Wait: wait.Milliseconds()}
	}
	if !p.Do(acquire(timeout)).Bool() {
		t.Fatal("the first permit was refused to them")
	}
	ours, err := s.TryAcquire(ctx)
	if err != nil {
		t.Fatalf("the second permit: %v", err)
	}
	if p.Do(acquire(200 * time.Millisecond)).Bool() {
		t.Error("they got a third permit")
	}
	if _, err := s.TryAcquire(ctx); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("a third permit for us: got error %v, want ErrBusy", err)
	}
	theirs := p.Go(acquire(timeout))
	await.Until(t, timeout, "they wait with a lease", func() bool {
		nodes, _, err := observer.Children(at + "/leases")
		return err == nil && len(nodes) == 3
	})
	must.Unlock(t, ours)
	if r := <-theirs; r.Err() != nil || !r.Bool() {
		t.Fatalf("got %s and error %v after our release, want a permit", r.Value, r.Err())
	}
	got := make(chan *holdfast.Lock, 1)
	go func() {
		lock, err := s.Acquire(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- lock
	}()
	await.Until(t, timeout, "we wait with a lease", func() bool {
		nodes, _, err := observer.Children(at + "/leases")
		return err == nil && len(nodes) == 3
	})
	p.Do(peer.Command{Op: "release", Name: at})
	must.Unlock(t, <-got)
	p.Do(peer.Command{Op: "release", Name: at})
	for _, folder := range []string{"/leases", "/locks"} {
		if nodes, _, err := observer.Children(at + folder); err != nil && !errors.Is(err, zk.ErrNoNode) || len(nodes) > 0 {
			t.Errorf("left in %s: %v, %v", folder, nodes, err)
		}
	}
}
