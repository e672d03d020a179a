package zkholdtest

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/zkhold"
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
	opts := &zkhold.Options{TTL: 4 * ttl} // as much as a busy machine may need
	l, other := renewed.locker(t, openOn(t, s, opts)), renewed.locker(t, openOn(t, s, opts))
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

// A try for a permit that was given up when its node was made, and before its number was
// known, does not help the next one to a permit.
func TestEndOfTheCounterAfterATryGivenUp(t *testing.T) {
	t.Parallel()
	s := zktest.StartCounted(t, map[string]int32{
		"/permits": 2, "/permits/locks": 7, "/permits/leases": zktest.LastNumber + 1,
	})
	ctx, giveUp := context.WithCancel(within(t))
	givenUp := make(chan struct{})
	b := openOn(t, s, &zkhold.Options{TTL: 20 * ttl, Dial: answers(2, func() { giveUp(); <-givenUp })})
	claim := driver.Claim{Name: "permits", Client: "client", Seq: 1, Owner: "client:1", TTL: 20 * ttl, Count: 1, Tokens: 1, Mode: driver.Permit, Permits: 2}
	if _, err := b.Try(ctx, claim); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want that the try was given up", err)
	}
	close(givenUp)
	if err := b.Drain(within(t)); err != nil {
		t.Fatal(err)
	}
	if out, err := b.Try(within(t), claim); out.Granted || !errors.Is(err, driver.ErrRefused) {
		t.Errorf("got %+v, error %v, want ErrRefused", out, err)
	}
	for _, folder := range []string{"/permits/locks", "/permits/leases"} {
		if left, _, err := s.Client(t).Children(folder); err != nil || len(left) > 0 {
			t.Errorf("below %s: %v, %v, want nothing", folder, left, err)
		}
	}
}

// answers returns a zk.Dialer of connections that call arrived before the client reads the
// answer to the nth creation of a node.
func answers(nth int32, arrived func()) func(string, string, time.Duration) (net.Conn, error) {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		conn, err := net.DialTimeout(network, address, timeout)
		if err != nil {
			return nil, err
		}
		c := &creations{nth: nth}
		c.Packets = zktest.Packets{Conn: conn, Arrived: func(number uint32) error {
			if c.number.Load() != 0 && number == c.number.Load() {
				arrived()
			}
			return nil
		}}
		return c, nil
	}
}

type creations struct {
	zktest.Packets
	nth    int32
	sent   atomic.Int32
	number atomic.Uint32 // of the nth creation
}

func (c *creations) Write(b []byte) (int, error) {
	const create2 = 15
	if len(b) >= 12 && binary.BigEndian.Uint32(b[8:]) == create2 && c.sent.Add(1) == c.nth {
		c.number.Store(binary.BigEndian.Uint32(b[4:]))
	}
	return c.Conn.Write(b)
}
