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
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
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

// A cluster whose leader is killed keeps locks and places in the queue, and tokens rise.
func TestLeaderDies(t *testing.T) {
	t.Parallel()
	c := ofMembers(t)
	c.members[0].Kill()
	c.anotherLeads(t)
	await.Never(t, 2*ofThree, "granted while the name is held", c.granted)
	if err := c.members[0].Restart(); err != nil {
		t.Fatal(err)
	}
	await.Never(t, ofThree/2, "granted while the name is held", c.granted)
	if err := c.lock.Err(); err != nil {
		t.Errorf("got error %v, want that the lock is held", err)
	}
	must.Unlock(t, c.lock)
	if !sessiontest.Serve(t, c.lock.Token(), c.waiters...) {
		t.Error("the waiters were not granted in their order")
	}
}

// A cluster whose leader stands still for longer than a lease keeps locks and places in the
// queue. How a client finds that a member is silent makes no difference to that.
//
// A leader that comes back is another matter. For a moment it considers itself the leader, and
// that the leases have ended which another leader has renewed since; what it sends to end
// them is passed on, now and then, to the one that leads (etcd's "ensureLeadership" does not
// ask while the member has ticked, up to 3.7.3 at least). Such a lease is over as if
// somebody had revoked it, and the holder learns of that at its next renewal. A waiter
// takes a new place. Tokens rise all the same.
func TestLeaderStandsStill(t *testing.T) {
	t.Parallel()
	for what, change := range map[string][]func(*clientv3.Config){"unnoticed": nil, "noticed": {attentive}} {
		t.Run(what, func(t *testing.T) {
			c := ofMembers(t, change...)
			if err := c.members[0].Pause(); err != nil {
				t.Fatal(err)
			}
			c.anotherLeads(t)
			await.Never(t, 2*ofThree, "granted while the name is held", c.granted)
			if err := c.lock.Err(); err != nil {
				t.Errorf("got error %v, want that the lock is held", err)
			}
			if err := c.members[0].Resume(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-c.waiters[0].Granted:
			case <-c.waiters[1].Granted:
			case <-c.lock.Context(t.Context()).Done():
			case <-time.After(ofThree):
			}
			began := await.NewWatch(t)
			if c.granted() && c.lock.Err() == nil {
				<-c.lock.Context(within(t)).Done()
				t.Logf("two held for %v", began.Took().Round(time.Millisecond))
			}
			if late := began.Took(); late > ofThree/2 {
				t.Errorf("the holder was notified after %v, want at its next renewal", late)
			}
			lost := c.lock.Unlock()
			inOrder := sessiontest.Serve(t, c.lock.Token(), c.waiters...)
			if lost != nil || !inOrder {
				t.Logf("the waiters were granted in their order: %v; Unlock: %v", inOrder, lost)
				endedByTheFormerLeader(t, c.members)
			}
		})
	}
}

// A follower that stands still, which no client notices, costs no lock and no place in
// the queue.
func TestFollowerStandsStill(t *testing.T) {
	t.Parallel()
	c := ofMembers(t)
	if err := c.members[2].Pause(); err != nil {
		t.Fatal(err)
	}
	await.Never(t, 3*ofThree, "granted while the name is held", c.granted)
	if err := c.lock.Err(); err != nil {
		t.Errorf("got error %v, want that the lock is held", err)
	}
	must.Unlock(t, c.lock)
	if !sessiontest.Serve(t, c.lock.Token(), c.waiters...) {
		t.Error("the waiters were not granted in their order")
	}
	if err := c.members[2].Resume(); err != nil {
		t.Fatal(err)
	}
}

// cluster is three members, the leader first, with a holder and two waiters of one name,
// each of which has a client of its own.
type cluster struct {
	members []*etcdtest.Server
	lock    *holdfast.Lock
	waiters []*sessiontest.Waiter
}

func ofMembers(t *testing.T, change ...func(*clientv3.Config)) *cluster {
	t.Helper()
	c := &cluster{members: etcdtest.StartCluster(t, 3)}
	c.lock = must.Lock(t, among(t, c.members, change...), name(t))
	for i := range int64(2) {
		c.waiters = append(c.waiters, sessiontest.Wait(within(t), t, among(t, c.members, change...), name(t)))
		awaitKeys(t, c.members, 2+i)
	}
	return c
}

func (c *cluster) granted() bool { return slices.ContainsFunc(c.waiters, (*sessiontest.Waiter).Has) }

// anotherLeads waits until there is another leader.
func (c *cluster) anotherLeads(t *testing.T) {
	t.Helper()
	harmed := time.Now()
	await.Until(t, timeout, "another one leads", func() bool { return slices.ContainsFunc(c.members[1:], (*etcdtest.Server).Leads) })
	t.Logf("another member led after %v", time.Since(harmed).Round(time.Millisecond))
}

// endedByTheFormerLeader fails t unless members[0] has ended a lease, as it says itself,
// and no other has.
func endedByTheFormerLeader(t *testing.T, members []*etcdtest.Server) {
	t.Helper()
	var ended []int
	for _, m := range members {
		n, err := m.LeasesEnded(within(t))
		if err != nil {
			t.Fatal(err)
		}
		ended = append(ended, n)
	}
	if ended[0] == 0 || ended[1]+ended[2] > 0 {
		t.Errorf("the members ended %v leases, the former leader first, want that it ended some and the others none", ended)
	}
}

// awaitKeys waits until n claims of the test's name are in the cluster.
func awaitKeys(t *testing.T, members []*etcdtest.Server, n int64) {
	t.Helper()
	client := members[1].Client(t)
	await.Until(t, timeout, "all wait", func() bool {
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
	w := sessiontest.Wait(within(t), t, among(t, members), name(t))
	awaitKeys(t, members, 2)
	link.Cut()
	members[0].Kill()
	gone := time.Now()
	<-held.Done()
	told := time.Now()
	sessiontest.Serve(t, lock.Token(), w)
	at := w.At
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
