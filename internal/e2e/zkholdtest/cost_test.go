package zkholdtest

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/zkhold"
)

// ourLock and zkLock take one lock after the other, by this package and by the recipe of
// the client library, and return how it is released.
func ourLock(t *testing.T, count *zktest.Count) func() (unlock func()) {
	l := locker(t, &zkhold.Options{TTL: 20 * ttl, Dial: count.Dialer})
	return func() func() {
		lock := must.Lock(t, l, name(t))
		return func() { must.Unlock(t, lock) }
	}
}

func zkLock(t *testing.T, count *zktest.Count) func() (unlock func()) {
	conn, _, err := zk.Connect([]string{server.Addr()}, 20*ttl, zk.WithDialer(count.Dialer), zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return func() func() {
		lock := zk.NewLock(conn, "/"+name(t), zk.WorldACL(zk.PermAll))
		if err := lock.Lock(); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// keep makes the node of a name, which the server does not remove as it does a container that
// is empty for a moment.
func keep(t *testing.T, name string) {
	t.Helper()
	if _, err := observer.Create("/"+name, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = observer.Delete("/"+name, -1) }) // for the next run
}

// short is less than the time after which a client watches its own node, by further requests.
const short = 200 * time.Millisecond

// A lock and its unlock cost three requests once the container is there, as zk.Lock does:
// the node, the queue, and the removal.
func TestRequestsOfALock(t *testing.T) {
	t.Parallel()
	for by, lock := range map[string]func(*testing.T, *zktest.Count) func() func(){"zkhold": ourLock, "zk.Lock": zkLock} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			keep(t, name(t))
			var count zktest.Count
			lock := lock(t, &count)
			lock()()
			locks := 0
			for limit := time.Now().Add(timeout); locks < 10 && time.Now().Before(limit); {
				before, began := count.All(), time.Now()
				lock()()
				if time.Since(began) > short { // once more
					continue
				}
				locks++
				if got := count.All() - before; got != 3 {
					t.Errorf("lock %d: %d requests, want 3", locks, got)
				}
			}
			if locks < 10 {
				t.Errorf("%d locks were short, want 10", locks)
			}
		})
	}
}

// A turn of two clients costs four: the node, the queue, a watch of who is before it, and
// the removal. zk.Lock asks for the queue again. A longer wait costs two to learn the
// holder, and a longer hold, or wait, one for a watch of the own node.
func TestRequestsOfATurn(t *testing.T) {
	t.Parallel()
	for by, lock := range map[string]func(*testing.T, *zktest.Count) func() func(){"zkhold": ourLock, "zk.Lock": zkLock} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			want := 4
			if by == "zk.Lock" {
				want = 5
			}
			var count zktest.Count
			first, second := locker(t, &zkhold.Options{TTL: 20 * ttl}), lock(t, &count)
			keep(t, name(t))
			second()()
			for limit := time.Now().Add(timeout); time.Now().Before(limit); {
				held := must.Lock(t, first, name(t))
				before, began := count.All(), time.Now()
				unlocked := make(chan struct{})
				go func() {
					defer close(unlocked)
					second()()
				}()
				await.Until(t, timeout, "the second waits", func() bool { return count.All() >= before+3 })
				must.Unlock(t, held)
				<-unlocked
				if time.Since(began) > short { // a longer wait: once more
					continue
				}
				if got := count.All() - before; got != want {
					t.Errorf("%d requests for a turn, want %d", got, want)
				}
				return
			}
			t.Error("no turn was short")
		})
	}
}

// With more clients a turn costs five. The queue is read when the node before the one ahead
// has gone, so nothing is asked between the release and the grant.
func TestQueueIsReadBeforeTheRelease(t *testing.T) {
	t.Parallel()
	var count zktest.Count
	opts := &zkhold.Options{TTL: 20 * ttl}
	first, second, third := locker(t, opts), locker(t, opts), locker(t, &zkhold.Options{TTL: 20 * ttl, Dial: count.Dialer})
	keep(t, name(t))
	must.Unlock(t, must.Lock(t, third, name(t)))
	for limit := time.Now().Add(timeout); time.Now().Before(limit); {
		held, began := must.Lock(t, first, name(t)), time.Now()
		passed := make(chan *holdfast.Lock)
		go func() { passed <- must.Lock(t, second, name(t)) }()
		await.Until(t, timeout, "the second waits", func() bool { return len(nodes(t, name(t))) == 2 })
		before := count.All()
		granted := make(chan int)
		go func() {
			lock := must.Lock(t, third, name(t))
			granted <- count.All() - before
			must.Unlock(t, lock)
			granted <- count.All() - before
		}()
		await.Until(t, timeout, "the third waits", func() bool { return count.All() >= before+3 })
		must.Unlock(t, held)
		lock := <-passed
		await.Until(t, timeout, "the third has read the queue", func() bool { return count.All() >= before+4 })
		must.Unlock(t, lock)
		got, all := <-granted, <-granted
		if time.Since(began) > short { // a longer wait: once more
			continue
		}
		if got != 4 || all != 5 {
			t.Errorf("%d requests before the grant and %d in all, want 4 and 5", got, all)
		}
		return
	}
	t.Error("no turn was short")
}

// The queue is asked for before the answer to the creation of the node is there: a lock
// costs one round trip.
func TestALockIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	var held ahead
	l := locker(t, &zkhold.Options{TTL: 20 * ttl, Dial: held.dial})
	keep(t, name(t))
	must.Unlock(t, must.Lock(t, l, name(t)))
	held.hold.Store(true)
	must.Unlock(t, must.Lock(t, l, name(t)))
	if n, late := held.answers.Load(), held.late.Load(); n != 1 || late != 0 {
		t.Errorf("%d creations, of which %d were answered before the queue was asked for, want one and none", n, late)
	}
}

// ahead holds answers to creations back until the client has asked for children.
type ahead struct {
	hold          atomic.Bool
	answers, late atomic.Int32
}

func (a *ahead) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	c := &aheadConn{ahead: a, asked: make(chan struct{}, 10)}
	c.Packets = zktest.Packets{Conn: conn, Arrived: c.arrived}
	return c, nil
}

type aheadConn struct {
	zktest.Packets
	ahead    *ahead
	creation atomic.Uint32 // its number
	asked    chan struct{}
}

func (c *aheadConn) Write(b []byte) (int, error) {
	const children, create2 = 12, 15
	if len(b) >= 12 && c.ahead.hold.Load() {
		switch binary.BigEndian.Uint32(b[8:]) {
		case create2:
			c.creation.Store(binary.BigEndian.Uint32(b[4:]))
		case children:
			c.asked <- struct{}{}
		}
	}
	return c.Conn.Write(b)
}

func (c *aheadConn) arrived(number uint32) error {
	if c.creation.Load() != 0 && number == c.creation.Load() {
		c.ahead.answers.Add(1)
		select {
		case <-c.asked:
		case <-time.After(ttl):
			c.ahead.late.Add(1)
		}
	}
	return nil
}

// A token is the number of the transaction that made the node.
func TestTokenIsCzxid(t *testing.T) {
	t.Parallel()
	lock := must.Lock(t, locker(t, nil), name(t))
	defer must.Unlock(t, lock)
	_, stat, err := observer.Get("/" + name(t) + "/" + nodes(t, name(t))[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, want := lock.Token(), uint64(stat.Czxid)<<10; got != want {
		t.Errorf("token %d, want %d", got, want)
	}
}
