package etcdholdtest

import (
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// A name that is kept, for longer than the session of its holder lives, is free after that
// time, by whatever program somebody waits for it. The session and its key are used again.
func TestAtLeast(t *testing.T) {
	t.Parallel()
	const least = 3 * shortest
	for who, wait := range map[string]func(t *testing.T, l *holdfast.Locker, name string) <-chan error{
		"etcdctl": func(t *testing.T, _ *holdfast.Locker, name string) <-chan error { return waitWithEtcdctl(t, name) },
		"Mutex":   func(t *testing.T, _ *holdfast.Locker, name string) <-chan error { return waitWithMutex(t, name) },
		"ours":    func(t *testing.T, _ *holdfast.Locker, name string) <-chan error { return waitWithOurs(t, name) },
		"itself":  waitWith,
	} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			l := locker(t)
			began, starved := time.Now(), await.NewWatch(t) // before the grant, from which least counts
			lock := must.Lock(t, l, name(t), holdfast.AtLeast(least))
			if who == "itself" { // its own waiters would wait in the process
				must.Unlock(t, lock)
			}
			granted := wait(t, l, name(t))
			waitsIn(t, name(t), 2)
			if who != "itself" {
				must.Unlock(t, lock)
			}
			if err := <-granted; err != nil {
				t.Fatal(err)
			}
			took, most := time.Since(began), least+2*time.Second+starved.Late() // the unlock came later, and is rounded up
			t.Logf("free after %v", took)
			if took < least || took > most {
				t.Errorf("free after %v, want %v to %v", took, least, most)
			}
			if who != "Mutex" { // which holds to its end
				must.Unlock(t, must.Lock(t, l, name(t)))
				empty(t, name(t))
			}
		})
	}
}

// A release that is repeated, as its answer was lost, changes nothing, and leaves no lease.
func TestAtLeastOfALostAnswer(t *testing.T) {
	t.Parallel()
	const least = 3 * shortest
	var counts atomic.Bool
	var grants, revokes atomic.Int32
	l := lockerOf(t, server.Client(t, unary(func(_ string, reply any, call func() error) error {
		err := call()
		if !counts.Load() {
			return err
		}
		switch r := reply.(type) {
		case *etcdserverpb.LeaseGrantResponse:
			grants.Add(1)
		case *etcdserverpb.LeaseRevokeResponse:
			revokes.Add(1)
		case *etcdserverpb.TxnResponse:
			if len(r.Responses) == 1 && r.Responses[0].GetResponsePut() != nil { // no renewal
				return status.Error(codes.Unknown, "the answer is lost")
			}
		}
		return err
	})))
	began, starved := time.Now(), await.NewWatch(t) // before the grant, from which least counts
	lock := must.Lock(t, l, name(t), holdfast.AtLeast(least))
	counts.Store(true)
	must.Unlock(t, lock)
	counts.Store(false)
	if g, r := grants.Load(), revokes.Load(); g != 2 || r != 1 {
		t.Errorf("got %d leases granted and %d revoked, want 2 and 1", g, r)
	}
	next := must.Lock(t, locker(t), name(t))
	if took, most := time.Since(began), least+2*time.Second+starved.Late(); took < least || took > most {
		t.Errorf("free after %v, want %v to %v", took, least, most)
	}
	must.Unlock(t, next)
}
