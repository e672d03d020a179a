package etcdholdtest

import (
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// ofThree is a lease that outlives an election.
const ofThree = 4 * time.Second

// attentive has a client give up a link that is silent.
func attentive(c *clientv3.Config) {
	c.DialKeepAliveTime, c.DialKeepAliveTimeout = time.Second, 500*time.Millisecond
}

// among returns a Locker that knows all members of a cluster.
func among(t *testing.T, members []*etcdtest.Server, change ...func(*clientv3.Config)) *holdfast.Locker {
	t.Helper()
	client := etcdtest.ClusterClient(t, members, change...)
	return lockerOf(t, client, func(o *etcdhold.Options) { o.TTL = ofThree })
}

// waiter is a waiter for a lock.
type waiter struct {
	granted chan struct{} // closed then
	at      time.Time
	lock    *holdfast.Lock
}

func wait(t *testing.T, l *holdfast.Locker) *waiter {
	t.Helper()
	w := &waiter{granted: make(chan struct{})}
	go func() {
		defer close(w.granted)
		var err error
		if w.lock, err = l.Lock(within(t), name(t)); err != nil {
			t.Error(err)
		}
		w.at = time.Now()
	}()
	return w
}

// next waits until w has the lock, with a larger token than the one before, and returns
// when that was.
func (w *waiter) next(t *testing.T, before *holdfast.Lock) time.Time {
	t.Helper()
	<-w.granted
	if w.lock == nil {
		t.FailNow()
	}
	if w.lock.Token() <= before.Token() {
		t.Errorf("token %d after %d", w.lock.Token(), before.Token())
	}
	must.Unlock(t, w.lock)
	return w.at
}

// A cluster whose leader is killed, or stands still for longer than a lease, keeps locks
// and places in the queue: the holder holds, or is notified before the next grant,
// and tokens rise. How a client finds that a member is silent makes no difference to that.
//
// A leader that comes back is another matter. For a moment it considers itself the leader, and
// that the leases have ended which another leader has renewed since; what it sends to end
// them is passed on, now and then, to the one that leads (etcd's ensureLeadership does not
// ask while the member has ticked, up to 3.7.3 at least). Such a lease is over as if
// somebody had revoked it, and the holder learns of that at its next renewal.
func TestLeaderIsGone(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		harm   func(*etcdtest.Server) error
		mend   func(*etcdtest.Server) error
		change []func(*clientv3.Config)
	}{
		"killed":           {func(s *etcdtest.Server) error { s.Kill(); return nil }, (*etcdtest.Server).Restart, nil},
		"paused":           {(*etcdtest.Server).Pause, (*etcdtest.Server).Resume, nil},
		"paused, attended": {(*etcdtest.Server).Pause, (*etcdtest.Server).Resume, []func(*clientv3.Config){attentive}},
	} {
		t.Run(what, func(t *testing.T) {
			members := etcdtest.StartCluster(t, 3)
			lock := must.Lock(t, among(t, members, test.change...), name(t))
			w := wait(t, among(t, members, test.change...))
			awaitKeys(t, members, 2)
			harmed := time.Now()
			if err := test.harm(members[0]); err != nil {
				t.Fatal(err)
			}
			await.Until(t, patience, "another one leads", func() bool { return slices.ContainsFunc(members[1:], (*etcdtest.Server).Leads) })
			t.Logf("another member led after %v", time.Since(harmed).Round(time.Millisecond))
			keptOrTold(t, lock, w, 2*ofThree)
			if err := test.mend(members[0]); err != nil {
				t.Fatal(err)
			}
			select {
			case <-w.granted:
				if lock.Err() == nil {
					endedByTheFormerLeader(t, members, lock)
				}
			case <-lock.Context(t.Context()).Done():
			case <-time.After(ofThree):
			}
			released := time.Now()
			if err := lock.Unlock(); err != nil {
				t.Logf("lost: %v", err)
			}
			t.Logf("the next grant came %v after the release", w.next(t, lock).Sub(released).Round(time.Millisecond))
		})
	}
}

// endedByTheFormerLeader fails t unless it was members[0] that ended the lease of lock, as
// it says itself, and the holder is notified at its next renewal.
func endedByTheFormerLeader(t *testing.T, members []*etcdtest.Server, lock *holdfast.Lock) {
	t.Helper()
	began := time.Now()
	var ended []int
	for _, m := range members {
		n, err := m.LeasesEnded(within(t))
		if err != nil {
			t.Fatal(err)
		}
		ended = append(ended, n)
	}
	if ended[0] == 0 || ended[1]+ended[2] > 0 {
		t.Errorf("granted to another while the holder believes that it holds; the members ended %v leases, the former leader first", ended)
	}
	<-lock.Context(within(t)).Done()
	if late := time.Since(began); late > ofThree/2 {
		t.Errorf("the holder was told after %v, want at its next renewal", late)
	}
	t.Logf("the former leader ended the lease: two held for %v", time.Since(began).Round(time.Millisecond))
}

// keptOrTold watches a lock for d: it stays held, or the holder is notified before w gets it.
func keptOrTold(t *testing.T, lock *holdfast.Lock, w *waiter, d time.Duration) {
	t.Helper()
	select {
	case <-lock.Context(t.Context()).Done():
		t.Log("the holder was told of a loss")
	case <-w.granted:
		if lock.Err() == nil {
			t.Fatal("granted to another while the holder believes that it holds")
		}
	case <-time.After(d):
	}
}

// awaitKeys waits until n claims of the test's name are in the cluster.
func awaitKeys(t *testing.T, members []*etcdtest.Server, n int64) {
	t.Helper()
	client := members[1].Client(t)
	await.Until(t, patience, "all wait", func() bool {
		r, err := client.Get(t.Context(), name(t)+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && r.Count == n
	})
}

// The name of a holder that is cut off while the leader dies is free after a lease that the
// new leader counts again, and the holder is notified before.
func TestHolderAndLeaderAreGone(t *testing.T) {
	t.Parallel()
	members := etcdtest.StartCluster(t, 3)
	var link etcdtest.Link
	defer link.Heal()
	lock := must.Lock(t, among(t, members, func(c *clientv3.Config) { c.DialOptions = append(c.DialOptions, link.Option()) }), name(t))
	held := lock.Context(t.Context())
	w := wait(t, among(t, members))
	awaitKeys(t, members, 2)
	link.Cut()
	members[0].Kill()
	gone := time.Now()
	<-held.Done()
	told := time.Now()
	at := w.next(t, lock)
	t.Logf("told after %v, the next grant came after %v, with a TTL of %v", told.Sub(gone).Round(time.Millisecond), at.Sub(gone).Round(time.Millisecond), ofThree)
	if !at.After(told) {
		t.Errorf("the next was granted the lock %v before the holder was told", told.Sub(at))
	}
	if most := 2*ofThree + 2*time.Second; at.Sub(gone) > most {
		t.Errorf("the next grant came after %v, want %v at most", at.Sub(gone), most)
	}
	link.Heal()
	_ = lock.Unlock()
}
