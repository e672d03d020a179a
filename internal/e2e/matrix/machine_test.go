package matrix

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// Faults of machines: several processes are gone at once, open connections stay
// silent, and new ones are not made.

// afterMachine is how long locks may take to work again once there is a master
// in place of one whose machine is lost.
const afterMachine = 5 * time.Second

// machine returns what runs on one machine with the master of the lock: with
// Sentinels one of them, in a cluster a replica of another master.
func (s *scenario) machine() []*redistest.Server {
	master := s.deployed.Master(s.name)
	if watchers := s.deployed.Sentinels(); len(watchers) > 0 {
		return []*redistest.Server{master, watchers[0]}
	}
	for _, other := range s.deployed.Masters() {
		if other.Addr() != master.Addr() {
			return append([]*redistest.Server{master}, s.deployed.ReplicasOf(other)...)
		}
	}
	return []*redistest.Server{master}
}

// nearby starts a program without anything in between. It learns of the deployment
// from the Sentinel that is on the machine; go-redis stays with that one.
func (s *scenario) nearby() *client {
	s.Helper()
	c := s.dialAs(nil, func(t *dial.Target) {
		t.Documented = true
		if t.Topology == redistest.Sentinel {
			t.Seeds = []string{s.deployed.Sentinels()[0].Addr()}
		}
	})
	c.warm()
	return c
}

// lostMachine: the machine of the master is gone, and a replica takes over.
func lostMachine(s *scenario) {
	c, o := s.nearby(), s.nearby()
	k := c.take()
	w := o.queue(s.kind)
	s.broke()
	machine := s.machine()
	lost := time.Now()
	for _, server := range machine { // the master first: it takes renewals until it is silent
		server.Silence()
	}
	k.lost(lost, s.ttl)
	s.deployed.Master(s.name)
	changed := time.Now()
	next := w.served()
	s.within("the waiter got the lock", time.Since(changed), afterMachine)
	s.waited(time.Since(lost), s.ttl/2) // it was renewed a third of its TTL ago at most
	next.stays(s.ttl / 2)
	next.mustUnlock()
}

// machineBack: the machine of the only server is gone, and comes back as it was.
func machineBack(s *scenario) {
	c, o := s.nearby(), s.nearby()
	server := s.keepers(s.name)[0]
	s.silent(server.Silence, server.Resume, c, o, afterMachine)
}

// silent has the only server not answer for longer than the lease that c has taken. o,
// which waits, gets it within limit of its first answer.
func (s *scenario) silent(silence, resume func(), c, o *client, limit time.Duration) {
	s.Helper()
	k := c.take()
	w := o.queue(s.kind)
	silence()
	lost := time.Now()
	k.lost(lost, s.ttl)
	time.Sleep(time.Until(lost.Add(s.ttl + s.ttl/3)))
	resume()
	back := time.Now()
	next := w.served()
	s.within("the waiter got the lock", time.Since(back), limit)
	s.waited(time.Since(lost), s.ttl)
	next.mustUnlock()
}

// lostMinority: the machines of two servers of five.
func lostMinority(s *scenario) {
	s.minority((*redistest.Server).Silence, (*redistest.Server).Resume)
}

// strictly starts a program in the same place that wants all replicas to have its
// locks.
func (c *client) strictly() *client {
	c.Helper()
	way := c.route(c.adapter, c.mesh)
	way.On = strict
	other := c.connect(way, c.mesh)
	other.warm()
	return other
}

// splitCluster: the nodes of a cluster and its replicas leave a master, and the
// holder stays with it. A master that is alone takes no more writes once it has
// noticed, so its holder is notified when the lease has passed.
func splitCluster(s *scenario) {
	s.deployed = redistest.StartDeployment(s, redistest.Cluster, redistest.CuttableBus())
	s.ttl = 6 * time.Second // longer than the failover takes
	old := s.deployed.Master(s.name)
	c, o := s.client(), s.client()
	sure := c.strictly()
	s.deployed.Isolate(old)
	for _, addr := range s.addrs() {
		c.mesh.Proxy(addr).Blackhole(addr != old.Addr())
	}
	k := c.take()
	taken := time.Now()
	if _, err := sure.locker.Lock(s.lasting(500*time.Millisecond), "{"+s.name+"}-strict"); !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("a lock that no replica has: got %v, want the context's error", err)
	}
	o.mesh.Proxy(old.Addr()).Blackhole(true)
	w := o.queue(s.kind)
	if !s.until(patience, func() bool { return s.deployed.Master(s.name).Addr() != old.Addr() }) {
		s.Fatal("no failover")
	}
	next := w.served()
	k.lost(taken, s.ttl+1500*time.Millisecond) // the old master may take a renewal until it notices, after 1 s
	s.deployed.Rejoin(old)
	c.mesh.Blackhole(false)
	o.mesh.Blackhole(false)
	next.stays(s.ttl / 3)
	next.mustUnlock()
}
