package zkholdtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/zkhold"
)

// The name of a lock is its path, below the root. Names that continue one another are
// different locks, also where one looks like the node of a claim of the other.
func TestNamesArePaths(t *testing.T) {
	t.Parallel()
	l, rooted := locker(t, nil), locker(t, &zkhold.Options{Root: "/" + name(t)})
	var locks []*holdfast.Lock
	for _, at := range []string{"", "/1", "/1/2", "/lock-0000000001", "/" + strings.Repeat("long", 900)} {
		lock, err := l.TryLock(within(t), name(t)+at)
		if err != nil {
			t.Fatalf("TryLock(%q): %v", name(t)+at, err)
		}
		locks = append(locks, lock)
	}
	if got := nodes(t, name(t)+"/1/2"); len(got) != 1 {
		t.Errorf("got nodes %v below the path, want one", got)
	}
	if _, err := rooted.TryLock(within(t), "1/2"); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("TryLock below the root: got error %v, want ErrBusy", err)
	}
	for _, lock := range locks {
		must.Unlock(t, lock)
	}
}

// A container that goes while the lock is free costs no lock, and tokens rise all the same.
func TestContainersGo(t *testing.T) {
	t.Parallel()
	l := locker(t, nil)
	var last uint64
	for range 3 {
		lock := must.Lock(t, l, name(t)+"/inner")
		if lock.Token() <= last {
			t.Errorf("token %d after %d", lock.Token(), last)
		}
		last = lock.Token()
		must.Unlock(t, lock)
		for gone := false; !gone; time.Sleep(50 * time.Millisecond) {
			there, _, err := observer.Exists("/" + name(t))
			gone = err == nil && !there
			if within(t).Err() != nil {
				t.Fatal("the container stays")
			}
		}
	}
}

// Data that is no lock is said to be none.
func TestNodeThatStays(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/" + name(t), "/" + name(t) + "/lock-0000000000"} {
		if _, err := observer.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(err)
		}
	}
	if _, err := locker(t, nil).TryLock(within(t), name(t)); !errors.Is(err, driver.ErrMismatch) || !strings.Contains(err.Error(), "is not ephemeral") {
		t.Errorf("got error %v, want ErrMismatch that says why", err)
	}
	if _, err := locker(t, nil).Lock(within(t), name(t)); !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("Lock: got error %v, want ErrMismatch", err)
	}
	await.Until(t, ttl/2, "our node is gone, and not with its session", func() bool { return len(nodes(t, name(t))) == 1 })
}

// What ZooKeeper refuses is not tried again, and says so.
func TestRefusals(t *testing.T) {
	t.Parallel()
	if _, err := observer.Create("/"+name(t), nil, 0, zk.DigestACL(zk.PermAll, "user", "password")); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		t.Fatal(err)
	}
	if _, err := locker(t, nil).TryLock(within(t), name(t)); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("without a password: got error %v, want ErrRefused", err)
	}
	opts := &zkhold.Options{Auth: []zkhold.Credentials{{Scheme: "digest", Auth: "user:password"}}, ACL: zk.DigestACL(zk.PermAll, "user", "password")}
	must.Unlock(t, must.Lock(t, locker(t, opts), name(t)))

	if _, err := sessiontest.LockerOf(t, zkhold.New(nil, nil)).TryLock(within(t), name(t)); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("without servers: got error %v, want ErrRefused", err)
	}
	claim := driver.Claim{Name: name(t), Client: "client", Seq: 1, Owner: "client:1", TTL: ttl, Count: 1, Tokens: 1}
	claim.TTL = ttl - 1
	b := open(t, nil)
	if _, err := b.Try(within(t), claim); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("a lease that no renewal extends: got error %v, want ErrRefused", err)
	}
	b.Close()
	claim.TTL = ttl
	if _, err := b.Try(within(t), claim); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("closed: got error %v, want ErrClosed", err)
	}
}

// readOnly returns options for a root that an administrator has made below a node where the
// session may not create any.
func readOnly(t *testing.T) *zkhold.Options {
	t.Helper()
	locked := fmt.Sprint("/locked-", rand.Uint64())
	acl := append(zk.DigestACL(zk.PermCreate|zk.PermDelete|zk.PermWrite, "user", "password"), zk.WorldACL(zk.PermRead)...)
	_, err := observer.Create(locked, nil, 0, zk.WorldACL(zk.PermAll))
	if err == nil {
		_, err = observer.Create(locked+"/shop", nil, 0, acl)
	}
	if err == nil {
		_, err = observer.SetACL(locked, zk.WorldACL(zk.PermRead), -1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &zkhold.Options{Auth: []zkhold.Credentials{{Scheme: "digest", Auth: "user:password"}}, ACL: acl, Root: locked + "/shop"}
}

// A session that may not create nodes above its root uses a node that an administrator has
// made, also for the reason of a forced unlock.
func TestRootIsNotWritable(t *testing.T) {
	t.Parallel()
	opts := readOnly(t)
	l, c := sessiontest.LockerOf(t, open(t, opts)), admin.New(open(t, opts))
	must.Unlock(t, must.Lock(t, l, "a/b"))
	lock := must.Lock(t, l, "a/b")
	if err := c.ForceUnlock(within(t), "a/b", get(t, c, "a/b").Holds[0].Holder, "because"); err != nil {
		t.Error(err)
	}
	if there, _, err := observer.Exists(opts.Root + "/holdfast.forced"); err != nil || !there {
		t.Errorf("the reason is not below the root: %v", err)
	}
	if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Unlock: got error %v, want ErrLost", err)
	}
	opts.Root = path.Dir(opts.Root) + "/other"
	if _, err := sessiontest.LockerOf(t, open(t, opts)).TryLock(within(t), "a"); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("below a node that nobody has made: got error %v, want ErrRefused", err)
	}
}

// breaks is a connection that breaks before the first request whether a node exists.
type breaks struct {
	net.Conn
	broken *atomic.Bool
}

func (b breaks) Write(packet []byte) (int, error) {
	const exists = 3
	if len(packet) >= 12 && binary.BigEndian.Uint32(packet[8:]) == exists && b.broken.CompareAndSwap(false, true) {
		_ = b.Close()
	}
	return b.Conn.Write(packet)
}

// A connection that breaks while a session finds out whether its root exists is no missing
// permission.
func TestConnectionBreaksBelowReadOnlyNode(t *testing.T) {
	t.Parallel()
	opts, broken := readOnly(t), new(atomic.Bool)
	opts.Dial = func(network, address string, timeout time.Duration) (net.Conn, error) {
		conn, err := net.DialTimeout(network, address, timeout)
		return breaks{conn, broken}, err
	}
	lock, err := sessiontest.LockerOf(t, open(t, opts)).Lock(within(t), "a")
	if err != nil || !broken.Load() {
		t.Fatalf("got error %v, broken: %v, want a lock over the next connection", err, broken.Load())
	}
	must.Unlock(t, lock)
}

// The end of a Backend frees what it holds at once.
func TestCloseFrees(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	l := holdfast.New(b, nil)
	lock := must.Lock(t, l, name(t))
	closed := await.NewWatch(t)
	b.Close()
	must.Unlock(t, must.Lock(t, locker(t, nil), name(t)))
	if took := closed.Took(); took > ttl/2 {
		t.Errorf("free after %v, want at once", took)
	}
	_ = lock.Unlock()
	must.Drain(t, l)
}

// A server that does not answer bounds no call beyond its context.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	b := zkhold.New([]string{"127.0.0.1:1"}, &zkhold.Options{TTL: ttl})
	defer b.Close()
	l := sessiontest.LockerOf(t, b)
	began := await.NewWatch(t)
	_, err := l.Lock(within(t), name(t), holdfast.Wait(time.Second))
	if took := began.Took(); err == nil || took > 3*time.Second {
		t.Errorf("got error %v after %v, want one after a second", err, took)
	}
}
