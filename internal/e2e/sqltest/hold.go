//go:build unix

package sqltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
)

// KeepsItsLock has holder hold a lock for d, while harm is called every tenth of a second,
// and then fix: the lock is not lost, nobody gets it beside its holder, and the next one
// has it, with a larger token, when it is released.
func KeepsItsLock(t *testing.T, holder, other *holdfast.Locker, d time.Duration, harm, mend func()) {
	t.Helper()
	const name = "job"
	lock, err := holder.Lock(await.Context(t, 20*time.Second), name)
	if err != nil {
		t.Fatal(err)
	}
	held := lock.Context(t.Context())
	for end := time.Now().Add(d); time.Now().Before(end) && held.Err() == nil; {
		harm()
		if beside, err := other.TryLock(t.Context(), name); err == nil {
			t.Fatalf("token %d was granted while token %d is held", beside.Token(), lock.Token())
		} else if !errors.Is(err, holdfast.ErrBusy) {
			t.Logf("TryLock: %v", err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-held.Done():
		}
	}
	if held.Err() != nil {
		t.Fatalf("the lock is lost while its lease is good: %v", context.Cause(held))
	}
	mend()
	got := make(chan *holdfast.Lock, 1)
	go func() {
		next, err := other.Lock(await.Context(t, 20*time.Second), name)
		if err != nil {
			t.Error(err)
		}
		got <- next
	}()
	if err := lock.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	next := <-got
	if next == nil {
		return
	}
	if next.Token() <= lock.Token() {
		t.Errorf("token %d after %d", next.Token(), lock.Token())
	}
	if err := next.Unlock(); err != nil {
		t.Errorf("Unlock of the next: %v", err)
	}
}

// KeepsItsLockThroughDrops has something between client and server that breaks all
// connections ten times a second, or loses answers with them. open returns a Locker that
// reaches the server at addr.
func (s *Server) KeepsItsLockThroughDrops(t *testing.T, d time.Duration, open func(t *testing.T, addr string) *holdfast.Locker, other *holdfast.Locker) {
	for _, loses := range []bool{false, true} {
		t.Run(map[bool]string{false: "cuts", true: "loses answers"}[loses], func(t *testing.T) {
			proxy, err := faultproxy.RunRaw(s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(proxy.Close)
			n := 0
			KeepsItsLock(t, open(t, proxy.Addr()), other, d, func() {
				n++
				proxy.LoseReplies(loses && n%4 < 2) // for 200 ms of 400 no answer arrives
				proxy.CutAll()
			}, func() { proxy.LoseReplies(false) })
		})
	}
}
