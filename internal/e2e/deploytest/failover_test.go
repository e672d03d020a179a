package deploytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// How much later than the deployment itself locks may work again after a
// failover. rueidis may be connecting to the old master just then. One that hangs it
// tries twice, for a second each, then asks a Sentinel that may be lost for another
// second, and again the old master if the next Sentinel does not know the new one.
const (
	graceAfterFailOver = 2 * time.Second
	graceAfterFreeze   = 5 * time.Second
)

// sharedNames is how many locks all clients of a load want.
const sharedNames = 3

// disaster is what makes a deployment fail over.
type disaster struct {
	grace   time.Duration
	strike  func(t *testing.T, d *redistest.Deployment, name string)
	machine bool // more than the master is gone
}

func disasters() map[string]disaster {
	return map[string]disaster{
		"graceful": {grace: graceAfterFailOver, strike: func(t *testing.T, d *redistest.Deployment, name string) {
			if err := d.FailOver(name); err != nil {
				t.Fatal(err)
			}
		}},
		"killed": {grace: graceAfterFailOver, strike: func(_ *testing.T, d *redistest.Deployment, name string) { d.Master(name).Kill() }},
		"frozen": {grace: graceAfterFreeze, strike: func(_ *testing.T, d *redistest.Deployment, name string) { d.Master(name).Pause() }},
		"machine frozen": {grace: graceAfterFreeze, machine: true, strike: func(_ *testing.T, d *redistest.Deployment, name string) {
			for _, s := range machine(d, name) {
				s.Pause()
			}
		}},
		"machine lost": {grace: graceAfterFreeze, machine: true, strike: func(_ *testing.T, d *redistest.Deployment, name string) {
			for _, s := range machine(d, name) {
				s.Silence()
			}
		}},
	}
}

// machine returns what runs on one machine with the master: with Sentinels the one
// that the clients know first, in a cluster a replica of another master.
func machine(d *redistest.Deployment, name string) []*redistest.Server {
	master := d.Master(name)
	if d.Topology() == redistest.Sentinel {
		return []*redistest.Server{master, d.Sentinels()[0]}
	}
	for _, other := range d.Masters() {
		if other.Addr() != master.Addr() {
			return append([]*redistest.Server{master}, d.ReplicasOf(other)...)
		}
	}
	return []*redistest.Server{master}
}

// doomed is the place of d for clients that learn of the deployment from the
// Sentinel that goes down with the master. go-redis stays with that one.
func doomed(d *redistest.Deployment) place {
	p := at(d)
	if p.topology == redistest.Sentinel {
		first := d.Sentinels()[0].Addr()
		p.addrs, p.url = []string{first}, "redis+sentinel://"+first+"/"+redistest.MasterName
	}
	return p
}

// After a failover locks work again soon, with every client, and tokens go on
// rising, whatever the old master took with it. (That no client considers a lock held
// for longer than its lease is judged by the histories of package soak.)
func TestFailOverUnderLoad(t *testing.T) {
	for _, topology := range []redistest.Topology{redistest.Sentinel, redistest.Cluster} {
		t.Run(string(topology), func(t *testing.T) {
			t.Parallel()
			d := redistest.StartDeployment(t, topology)
			for name, fault := range disasters() {
				t.Run(name, func(t *testing.T) { failOver(t, d, fault) })
			}
		})
	}
}

// failOver runs all clients at once through one failover.
func failOver(t *testing.T, d *redistest.Deployment, fault disaster) {
	const name = "failover:{one}" // all names in the slot whose master fails
	clients, p, grace := ways(), at(d), fault.grace
	if fault.machine {
		p = doomed(d)
	}
	if !fault.machine || d.Topology() == redistest.Cluster {
		clients["go-redis client with its defaults"] = byGoRedisWithDefaults // with Sentinels it is warned of
	}
	loads := map[string]*load{}
	for client, w := range clients {
		loads[client] = start(open(t, w, p, redishold.Options{}), name)
	}
	for client, l := range loads {
		l.await(t, client, 20)
	}
	await.Until(t, 10*time.Second, "locks of all names", func() bool { return allGranted(loads, time.Time{}) })
	before := d.Master(name).Addr()
	struck := time.Now()
	fault.strike(t, d, name)
	writable := awaitNewMaster(t, d, name, before)
	// An unlock that the failover forgot leaves its lock to the end of the lease.
	await.Eventually(time.Until(writable.Add(ttl+grace)), func() bool { return allGranted(loads, writable) })
	var grants []granted
	for client, l := range loads {
		l.stop()
		grants = append(grants, l.grants...)
		first := l.firstAfter(writable)
		if first.IsZero() || first.Sub(writable) > grace {
			t.Errorf("%s: no lock within %v of the failover, which took %v; last error: %v",
				client, grace, writable.Sub(struck), l.lastErr)
			continue
		}
		t.Logf("%s: failover after %v, the first lock %v later; %d losses", client, writable.Sub(struck).Round(time.Millisecond),
			first.Sub(writable).Round(time.Millisecond), l.lost)
	}
	wantShared(t, grants, name, struck, writable, grace)
	if n := tokensRise(t, grants); n < 10 {
		t.Errorf("only %d pairs of grants could be compared", n)
	}
	if err := d.Heal(); err != nil {
		t.Fatal(err)
	}
}

// allGranted says whether each load has had a lock of its own since at, and somebody
// each of those that all want.
func allGranted(loads map[string]*load, at time.Time) bool {
	granted := map[string]bool{} // clients, and names that all want
	for client, l := range loads {
		l.mu.Lock()
		for _, g := range slices.Backward(l.grants) {
			if !g.at.After(at) {
				break
			}
			if g.own() {
				granted[client] = true
			} else {
				granted[g.name] = true
			}
		}
		l.mu.Unlock()
	}
	return len(granted) == len(loads)+sharedNames
}

// awaitNewMaster returns when another server than before takes writes.
func awaitNewMaster(t *testing.T, d *redistest.Deployment, name, before string) time.Time {
	t.Helper()
	await.Until(t, 30*time.Second, "the failover", func() bool {
		s, err := d.FindMaster(name)
		return err == nil && s.Addr() != before
	})
	return time.Now()
}

// wantShared wants each lock that all want to have been granted before the
// failover, and again soon after it, once what it forgot has ended.
func wantShared(t *testing.T, grants []granted, name string, struck, writable time.Time, grace time.Duration) {
	t.Helper()
	for i := range sharedNames {
		shared := fmt.Sprintf("%s:%d", name, i)
		was := slices.ContainsFunc(grants, func(g granted) bool { return g.name == shared && g.at.Before(struck) })
		is := slices.ContainsFunc(grants, func(g granted) bool {
			return g.name == shared && g.at.After(writable) && g.at.Sub(writable) <= ttl+grace
		})
		if !was || !is {
			t.Errorf("%q: granted before the failover: %v, within %v of it: %v", shared, was, ttl+grace, is)
		}
	}
}

// tokensRise wants every grant that was asked for after another was there to have
// the larger token, and returns how many it compared.
func tokensRise(t *testing.T, grants []granted) (compared int) {
	t.Helper()
	slices.SortFunc(grants, func(a, b granted) int { return a.at.Compare(b.at) })
	largest := map[string][]granted{} // by name: those whose token was the largest so far
	for _, g := range grants {
		for _, before := range slices.Backward(largest[g.name]) {
			if before.at.Before(g.asked) {
				compared++
				if g.token <= before.token {
					t.Errorf("%q: token %d was granted, later %d", g.name, before.token, g.token)
				}
				break
			}
		}
		if n := len(largest[g.name]); n == 0 || largest[g.name][n-1].token < g.token {
			largest[g.name] = append(largest[g.name], g)
		}
	}
	return compared
}

// granted is one lock that was taken.
type granted struct {
	name      string
	token     uint64
	asked, at time.Time
}

// own says whether no other load wants that lock.
func (g granted) own() bool { return strings.Contains(g.name, ":0x") }

// load takes locks over and over.
type load struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	grants  []granted
	lost    int
	lastErr error
}

// start takes three locks that others want too, and one after another that
// nobody has had: an unlock that a failover forgets leaves its lock to the end
// of the lease, which must not hide that locks work.
func start(l *holdfast.Locker, name string) *load {
	ctx, cancel := context.WithCancel(context.Background())
	o := &load{cancel: cancel}
	o.wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			o.hold(ctx, l, fmt.Sprintf("%s:%p:%d", name, o, i))
		}
	})
	for i := range sharedNames {
		o.wg.Go(func() {
			for ctx.Err() == nil {
				o.hold(ctx, l, fmt.Sprintf("%s:%d", name, i))
				time.Sleep(10 * time.Millisecond) // who takes a lock in a tight loop leaves little to others
			}
		})
	}
	return o
}

// hold takes the lock for a moment.
func (o *load) hold(ctx context.Context, l *holdfast.Locker, name string) {
	asked := time.Now()
	k, err := l.Lock(ctx, name)
	if err != nil {
		o.note(func() {
			if ctx.Err() == nil {
				o.lastErr = err
			}
		})
		return
	}
	got := granted{name, k.Token(), asked, time.Now()}
	o.note(func() { o.grants = append(o.grants, got) })
	time.Sleep(time.Millisecond)
	if err := k.Unlock(); errors.Is(err, holdfast.ErrLost) {
		o.note(func() { o.lost++ })
	}
}

func (o *load) note(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

func (o *load) stop() {
	o.cancel()
	o.wg.Wait()
}

// await returns after n grants.
func (o *load) await(t *testing.T, client string, n int) {
	t.Helper()
	await.Until(t, 10*time.Second, fmt.Sprintf("%d locks of %s", n, client), func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.grants) >= n
	})
}

// firstAfter returns the first grant, later than at, of a lock that nobody had before.
func (o *load) firstAfter(at time.Time) time.Time {
	for _, g := range o.grants {
		if g.at.After(at) && g.own() {
			return g.at
		}
	}
	return time.Time{}
}
