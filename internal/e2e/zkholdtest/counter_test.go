package zkholdtest

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// A claim whose sequence number is near the end of the server's counter is refused, with
// the remedy. What is held by then is kept and released, and nothing stays of what is
// refused, however many ask at once. A node that is deleted counts from the beginning.
func TestEndOfTheCounter(t *testing.T) {
	t.Parallel()
	s := zktest.StartCounted(t, map[string]int32{
		"/mutex": zktest.LastNumber, "/rw": zktest.LastNumber - 1, "/over": math.MaxInt32,
		"/permits": 2, "/permits/locks": 7, "/permits/leases": zktest.LastNumber,
		"/waiters": 2, "/waiters/locks": zktest.LastNumber + 1, "/waiters/leases": 7,
	})
	var renewed renewals
	l, other := renewed.locker(t, openOn(t, s, nil)), renewed.locker(t, openOn(t, s, nil))
	client := s.Client(t)
	empty := func(path string) {
		t.Helper()
		if left, _, err := client.Children(path); err != nil || len(left) > 0 {
			t.Errorf("below %s: %v, %v, want nothing", path, left, err)
		}
	}
	refused := func(name, node string, err error) {
		t.Helper()
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "delete the node "+node+" ") {
			t.Fatalf("%s: got error %v, want ErrRefused with what to do", name, err)
		}
	}

	zktest.RefuseCrowd(t, "over", l, other)
	empty("/over")
	if err := client.Delete("/over", -1); err != nil {
		t.Fatal(err)
	}
	must.Unlock(t, must.Lock(t, l, "over"))

	held := must.Lock(t, l, "mutex")
	reader, err := l.RWMutex("rw").Read.Lock(within(t))
	if err != nil {
		t.Fatal(err)
	}
	second, err := other.RWMutex("rw").Read.Lock(within(t))
	if err != nil {
		t.Fatal(err)
	}
	permit, err := l.Semaphore("permits", 2).Acquire(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = other.Lock(within(t), "mutex")
		refused("mutex", "/mutex", err)
		_, err = other.RWMutex("rw").Write.Lock(within(t))
		refused("writer", "/rw", err)
		_, err = other.RWMutex("rw").Read.Lock(within(t))
		refused("reader", "/rw", err)
		_, err = other.Semaphore("permits", 2).Acquire(within(t))
		refused("permit", "/permits/leases", err)
		_, err = other.Semaphore("waiters", 2).Acquire(within(t))
		refused("waiter for a permit", "/waiters/locks", err)
	}
	for _, lock := range []*holdfast.Lock{held, reader, second, permit} {
		renewed.await(t, lock, 1)
		must.Unlock(t, lock)
	}
	_, err = l.TryLock(within(t), "mutex")
	refused("free", "/mutex", err)
	for _, path := range []string{"/mutex", "/rw", "/permits/leases", "/permits/locks", "/waiters/leases", "/waiters/locks"} {
		empty(path)
	}
}
