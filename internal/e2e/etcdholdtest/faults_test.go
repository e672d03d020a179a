package etcdholdtest

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// unary is an interceptor of calls.
func unary(do func(method string, reply any, call func() error) error) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return do(method, reply, func() error { return invoke(ctx, method, req, reply, cc, opts...) })
	})
}

// A lease that somebody revokes is a loss of all that its process holds, by the next
// renewal. A waiter takes a new place.
func TestLeaseRevoked(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client := server.Client(t)
	l := lockerOf(t, server.Client(t))
	first, second := must.Lock(t, l, "first"), must.Lock(t, l, "second")
	leases, err := client.Leases(within(t))
	if err != nil || len(leases.Leases) != 1 {
		t.Fatalf("got leases %v and error %v, want one for all locks", leases, err)
	}
	if _, err := client.Revoke(within(t), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	for _, lock := range []*holdfast.Lock{first, second} {
		<-lock.Context(within(t)).Done()
		if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("got error %v, want ErrLost", err)
		}
	}
	must.Unlock(t, must.Lock(t, l, "first"))
}

// The waiter whose key is removed takes a new one, and is granted.
func TestWaitersKeyIsRemoved(t *testing.T) {
	t.Parallel()
	l := locker(t)
	lock := must.Lock(t, l, name(t))
	got := make(chan *holdfast.Lock)
	go func() { got <- must.Lock(t, locker(t), name(t)) }()
	waitsIn(t, name(t), 2)
	client := server.Client(t)
	r, err := client.Get(within(t), name(t)+"/", clientv3.WithLastCreate()...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Delete(within(t), string(r.Kvs[0].Key)); err != nil {
		t.Fatal(err)
	}
	waitsIn(t, name(t), 2)
	must.Unlock(t, lock)
	must.Unlock(t, <-got)
}

// A lock of one process has the same key each time: etcd passes deleted keys when it
// reads a queue, until the next compaction.
func TestKeyIsUsedAgain(t *testing.T) {
	t.Parallel()
	l := locker(t)
	for range 20 {
		must.Unlock(t, must.Lock(t, l, name(t)))
	}
	client := server.Client(t)
	r, err := client.Get(within(t), name(t))
	if err != nil {
		t.Fatal(err)
	}
	keys, changes := make(map[string]bool), 0
	for w := range client.Watch(within(t), name(t)+"/", clientv3.WithPrefix(), clientv3.WithRev(1)) {
		for _, e := range w.Events {
			keys[string(e.Kv.Key)] = true
			changes++
		}
		if w.Err() != nil || w.Header.Revision >= r.Header.Revision || changes >= 40 {
			break
		}
	}
	if len(keys) != 1 || changes != 40 {
		t.Errorf("20 locks changed keys %d times: got keys %v, want 40 times the same", changes, keys)
	}
}

// The keys of many locks are listed once in a third of the TTL, whatever their number.
func TestKeysOfManyLocksAreListedTogether(t *testing.T) {
	t.Parallel()
	const locks, ttl = 1000, 6 * time.Second
	var lists atomic.Int32
	client := server.Client(t, unary(func(method string, _ any, call func() error) error {
		if path.Base(method) == "LeaseTimeToLive" {
			lists.Add(1)
		}
		return call()
	}))
	l := lockerOf(t, client, func(o *etcdhold.Options) { o.TTL = ttl })
	began := time.Now()
	held := make([]*holdfast.Lock, locks)
	manytest.Do(locks, func(i int) { held[i] = must.Lock(t, l, fmt.Sprintf("%s-%d", name(t), i)) })
	time.Sleep(ttl) // each is renewed three times
	manytest.Do(locks, func(i int) { must.Unlock(t, held[i]) })
	// A time of n thirds and a part touches n + 2 of them at most.
	if got, most := int(lists.Load()), int(time.Since(began)/(ttl/3))+2; got == 0 || got > most {
		t.Errorf("the keys were listed %d times, want %d at most", got, most)
	}
}

// When the disk quota is reached, held locks are renewed, released, and pass on to those who
// wait already. A new lock is refused, with what to do, until an operator has freed space.
func TestDiskQuota(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	client, ctx := s.Client(t), within(t)
	alarm := func(action etcdserverpb.AlarmRequest_AlarmAction) {
		t.Helper()
		all := etcdserverpb.NewMaintenanceClient(client.ActiveConnection())
		if _, err := all.Alarm(ctx, &etcdserverpb.AlarmRequest{Action: action, Alarm: etcdserverpb.AlarmType_NOSPACE}); err != nil {
			t.Fatal(err)
		}
	}
	l, other := lockerOf(t, client), lockerOf(t, s.Client(t))
	held := must.Lock(t, l, name(t))
	next := make(chan *holdfast.Lock)
	go func() { next <- must.Lock(t, other, name(t)) }()
	waitsOn(t, client, name(t), 2)
	alarm(etcdserverpb.AlarmRequest_ACTIVATE)
	for _, l := range []*holdfast.Locker{l, lockerOf(t, s.Client(t))} { // with a lease, and without
		if _, err := l.Mutex(name(t) + "-new").Lock(ctx); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "disk quota") {
			t.Errorf("a new lock: got error %v, want ErrRefused because of the disk quota", err)
		}
	}
	time.Sleep(2 * shortest) // the TTL: the lease ends unless it is extended
	must.Unlock(t, held)
	lock := <-next
	alarm(etcdserverpb.AlarmRequest_DEACTIVATE)
	must.Unlock(t, must.Lock(t, l, name(t)+"-new"))
	must.Unlock(t, lock)
}

// Data that is no lock is said to be none.
func TestKeyWithoutLease(t *testing.T) {
	t.Parallel()
	if _, err := server.Client(t).Put(within(t), name(t)+"/abcdef", "data"); err != nil {
		t.Fatal(err)
	}
	if _, err := locker(t).TryLock(within(t), name(t)); !errors.Is(err, driver.ErrMismatch) || !strings.Contains(err.Error(), "has no lease") {
		t.Errorf("got error %v, want ErrMismatch that says why", err)
	}
}

// What etcd refuses is not tried again, with what to do where there is a remedy: a server
// that is too old, and a user who may not ask for the version, too. A client that was closed
// is not asked.
func TestRefusals(t *testing.T) {
	t.Parallel()
	version := func(reply any) bool { _, ok := reply.(*etcdserverpb.StatusResponse); return ok }
	txn := func(refusal error) func(string, any, func() error) error {
		return func(method string, _ any, call func() error) error {
			if strings.HasSuffix(method, "/Txn") {
				return refusal
			}
			return call()
		}
	}
	claim := driver.Claim{Name: name(t), Client: "refused", Seq: 1, Owner: "refused:1", TTL: 2 * shortest, Count: 1, Tokens: 1}
	for what, r := range map[string]struct {
		call func(method string, reply any, call func() error) error
		want error
		says []string
	}{
		"permission": {txn(rpctypes.ErrGRPCPermissionDenied), driver.ErrRefused, nil},
		"too many":   {txn(rpctypes.ErrGRPCRequestTooManyRequests), driver.ErrNotExecuted, nil},
		"old": {func(_ string, reply any, call func() error) error {
			err := call()
			if version(reply) {
				reply.(*etcdserverpb.StatusResponse).Version = "3.5.22"
			}
			return err
		}, driver.ErrRefused, []string{"etcd 3.5.22 is too old for locks", "3.5.23"}},
		"version": {func(_ string, reply any, call func() error) error {
			if version(reply) {
				return rpctypes.ErrGRPCPermissionDenied
			}
			return call()
		}, driver.ErrRefused, []string{"other than root", "3.6.12"}},
	} {
		_, err := etcdhold.New(server.Client(t, unary(r.call)), nil).Try(within(t), claim)
		if !errors.Is(err, r.want) {
			t.Errorf("%s: got error %v, want %v", what, err, r.want)
			continue
		}
		for _, text := range r.says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: got error %v, want %q in it", what, err, text)
			}
		}
	}
	client, err := server.Dial()
	if err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	if _, err := etcdhold.New(client, nil).Try(within(t), claim); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("got error %v of a closed client, want ErrClosed", err)
	}
}
