package matrix

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// Faults of deployments with replicas.

// afterFailOver is how long locks may take to work again once there is a new
// master.
const afterFailOver = 2 * time.Second

// hungDials is how long a rueidis client may be deaf to the news of a new master
// while the old one hangs: it connects to that one twice without an answer, each
// time for ConnWriteTimeout, and keeps its mutex meanwhile.
const hungDials = 2 * 1500 * time.Millisecond

// callAfterFailOver is what the first call to a new master may take.
const callAfterFailOver = time.Second

// replicated waits until the replicas have what the master has.
func (s *scenario) replicated() {
	s.Helper()
	for _, master := range s.deployed.Masters() {
		want := int64(len(s.deployed.ReplicasOf(master)))
		if got := s.acknowledged(master, want); got != want {
			s.Fatalf("%d of %d replicas have the lock", got, want)
		}
	}
}

// acknowledged counts the replicas that have what a master has, once they are n
// or a second has passed. WAIT would count only what its own connection wrote.
func (s *scenario) acknowledged(master *redistest.Server, n int64) (have int64) {
	s.until(time.Second, func() bool {
		want := infoField(master.String("INFO", "replication"), "master_repl_offset")
		have = 0
		for _, r := range s.deployed.ReplicasOf(master) {
			if infoField(r.String("INFO", "replication"), "slave_repl_offset") >= want {
				have++
			}
		}
		return have >= n
	})
	return have
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (s *scenario) cutReplication() {
	s.broke()
	for _, master := range s.deployed.Masters() {
		s.deployed.CutReplication(master)
	}
}

func (s *scenario) killMaster() {
	s.broke()
	s.deployed.Master(s.name).Kill()
	s.deployed.Master(s.name) // waits for the next
}

// hungMaster: a replica takes over.
func hungMaster(s *scenario) {
	c, o := s.client(), s.client()
	k := c.take()
	w := o.queue(s.kind)
	s.broke()
	hung := time.Now()
	s.deployed.Master(s.name).Pause()
	k.lost(hung, s.ttl)
	s.deployed.Master(s.name)
	changed := time.Now()
	next := w.served()
	bound := afterFailOver
	if s.adapter == "rueidis" {
		bound += hungDials
	}
	s.within("the waiter got the lock", time.Since(changed), bound)
	s.waited(time.Since(hung), s.ttl/2) // it was renewed a third of its TTL ago at most
	next.stays(s.ttl / 2)
	next.mustUnlock()
}

// gracefulFailOver: nobody notices.
func gracefulFailOver(s *scenario) {
	s.ttl = 6 * time.Second
	if s.on == strict {
		s.ttl = 18 * time.Second // the first renewal comes later than the moment in which a master has no replicas
	}
	s.forgotten = s.ttl // Sentinel lets the old master take an unlock for some seconds more, and drops it
	c, o := s.client(), s.client()
	k := c.take()
	if err := s.deployed.FailOver(s.name); err != nil {
		s.Fatal(err)
	}
	s.worksAgain(c, o, k)
}

// crashReplicated: the master dies, the replica knows the lock.
func crashReplicated(s *scenario) {
	s.ttl = 9 * time.Second
	if s.on == strict {
		s.ttl = 36 * time.Second // the first renewal comes later than the moment in which a master has no replicas
	}
	c, o := s.client(), s.client()
	k := c.take()
	s.replicated()
	s.killMaster()
	s.worksAgain(c, o, k)
}

// worksAgain checks after a failover that a held lock stays held, by the new
// master too, and that others can be taken.
func (s *scenario) worksAgain(c, o *client, k *grip) {
	s.Helper()
	changed := time.Now()
	other, err := o.locker.Lock(s.bounded(), s.name+"-other")
	if err != nil {
		s.Fatal(err)
	}
	s.within("another lock", time.Since(changed), afterFailOver)
	// Sentinel lets the old master grant it for some seconds more.
	if err := other.Unlock(); err != nil && (s.forgotten == 0 || !errors.Is(err, holdfast.ErrLost)) {
		s.Errorf("Unlock of another: %v", err)
	}
	c.renewed(k, 1)
	k.mustBeHeld()
	s.wantHeld()
	o.wantBusyWithin(afterFailOver)
	k.mustUnlock()
}

// crashLost: the master dies with a lock that no replica knows.
func crashLost(s *scenario) {
	s.ttl = 45 * time.Second // the failover is over before the next renewal, a tenth of that after the grant at the earliest
	c, o := s.client(), s.other()
	s.replicated()
	s.together(s.cutReplication)
	k := c.take()
	taken := time.Now()
	s.together(s.killMaster)
	next := o.takeRival()
	if k.ctx == nil { // a plain semaphore publishes nothing
		next.mustUnlock()
		k.mustUnlock()
		return
	}
	k.lost(taken, s.ttl/3+callAfterFailOver)
	next.stays(200 * time.Millisecond)
	next.mustUnlock()
}

// crashLostStrict: the lock that no replica knows is not granted.
func crashLostStrict(s *scenario) {
	c, o := s.client(), s.client()
	s.cutReplication()
	if _, err := c.try(s.lasting(500 * time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("got %v, want the context's error", err)
	} else {
		s.Log(err)
	}
	s.wantGone(time.Second)
	s.killMaster()
	changed := time.Now()
	next := o.take()
	s.within("the lock", time.Since(changed), afterFailOver+time.Second) // the other replica follows a second later
	next.mustUnlock()
}

// crashAcknowledged: the master dies, and the only replica that had the lock.
func crashAcknowledged(s *scenario) {
	s.ttl = 45 * time.Second // as in crashLost
	c, o := s.client(), s.client()
	master := s.deployed.Master(s.name)
	replicas := s.deployed.ReplicasOf(master)
	s.broke()
	password := replicas[1].Map("CONFIG", "GET", "masterauth")["masterauth"]
	replicas[1].Do("CONFIG", "SET", "masterauth", "wrong")
	replicas[1].Do("CLIENT", "KILL", "TYPE", "master")
	k := c.take()
	taken := time.Now()
	if got := s.acknowledged(master, 1); got < 1 {
		s.Fatal("no replica has the lock")
	}
	replicas[0].Kill()
	master.Kill()
	replicas[1].Do("CONFIG", "SET", "masterauth", password)
	s.deployed.Master(s.name)
	if s.on == strict { // the last one has nobody to acknowledge: nobody gets the lock
		if _, err := o.try(s.lasting(2 * time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("got %v, want the context's error", err)
		}
		k.lost(taken, s.ttl/3+callAfterFailOver)
		return
	}
	next := o.take()
	k.lost(taken, s.ttl/3+callAfterFailOver)
	next.stays(200 * time.Millisecond)
	next.mustUnlock()
}

// emptyMaster: the master dies and is back, empty, before anybody replaces it;
// its replicas forget with it.
func emptyMaster(s *scenario) {
	s.ttl = 9 * time.Second
	if s.on == cluster {
		s.ttl = 15 * time.Second // a node takes no writes in its first two seconds
	}
	c, o := s.client(), s.other()
	s.broke()
	k := c.take()
	s.replicated()
	c.renewed(k, 1) // there is time until the next
	killed := time.Now()
	master := s.deployed.Master(s.name)
	master.Kill()
	master.Restart()
	next := o.take()
	k.lost(killed, time.Since(killed)+s.ttl/3+call)
	next.stays(200 * time.Millisecond)
	next.mustUnlock()
}

// splitBrain: the sentinels and the replicas leave the master, and its clients
// stay.
func splitBrain(s *scenario) {
	s.broke()
	old := s.deployed.Master(s.name)
	s.logins("app", "monitor")
	s.monitorAs("monitor")
	c, o := s.clientAs("app"), s.clientAs("app")
	k := c.take()
	for _, addr := range s.addrs() {
		c.mesh.Proxy(addr).Blackhole(addr != old.Addr())
	}
	w := o.queue(s.kind)
	end := s.abandon(old, "monitor")
	defer end()
	if !s.until(patience, func() bool { return s.deployed.Master(s.name).Addr() != old.Addr() }) {
		s.Fatal("no failover")
	}
	switched := time.Now()
	if s.on == strict {
		k.lost(switched, s.ttl/3+s.ttl/10+call)
		next := w.served()
		end()
		c.mesh.Blackhole(false)
		next.stays(s.ttl)
		next.mustUnlock()
		return
	}
	next := w.served()
	k.stays(2 * s.ttl) // nothing bounds it
	end()
	healed := time.Now()
	c.mesh.Blackhole(false)
	k.lost(healed, 5*time.Second)
	next.stays(s.ttl / 3)
	next.mustUnlock()
}

// logins makes users with all rights, whose password is their name.
func (s *scenario) logins(users ...string) {
	for _, server := range s.servers() {
		for _, user := range users {
			server.Do("ACL", "SETUSER", user, "on", ">"+user, "~*", "&*", "+@all")
		}
	}
}

// monitorAs lets the sentinels log in as a user of their own.
func (s *scenario) monitorAs(user string) {
	s.Helper()
	for _, watcher := range s.deployed.Sentinels() {
		watcher.Do("SENTINEL", "SET", redistest.MasterName, "auth-user", user)
		watcher.Do("SENTINEL", "SET", redistest.MasterName, "auth-pass", user)
	}
	// Up to Redis 6.2 a sentinel logs in on new connections only.
	for _, server := range s.servers() {
		server.Do("CLIENT", "KILL", "USER", "default", "TYPE", "normal", "SKIPME", "yes")
		server.Do("CLIENT", "KILL", "USER", "default", "TYPE", "pubsub")
	}
	watched := func() bool {
		list := s.deployed.Master(s.name).String("CLIENT", "LIST", "TYPE", "normal")
		return strings.Count(list, " user="+user+" ") >= 3
	}
	if !s.until(patience, watched) {
		s.Fatal("the sentinels do not log in")
	}
}

// abandon keeps the sentinels out of a server: they hold it to be down, and
// everybody else goes on there. end lets them in again, and may be called twice.
func (s *scenario) abandon(server *redistest.Server, monitor string) (end func()) {
	const password = "for nobody"
	server.Do("ACL", "SETUSER", "default", "resetpass", ">"+password) // else they would come in as that one
	admin := redistest.At(server.Addr(), password)
	admin.Do("ACL", "SETUSER", monitor, "off")
	admin.Do("CLIENT", "KILL", "USER", monitor)
	return func() {
		admin.Do("ACL", "SETUSER", monitor, "on")
		admin.Do("ACL", "SETUSER", "default", "nopass")
	}
}

// staleTopology: READONLY and MASTERDOWN by a proxy, then a slot that has moved.
func staleTopology(s *scenario) {
	notReady(staleWords()...)(s)
	c := s.client()
	k := c.take()
	m := s.migrate()
	if err := m.Finish(); err != nil {
		s.Fatal(err)
	}
	k.stays(s.ttl)
	k.mustUnlock()
	k = c.take()
	s.wantHeld()
	k.mustUnlock()
}

func staleWords() []string {
	return []string{
		"READONLY You can't write against a read only replica.",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	}
}

// migrate begins to move the lock's slot to another master.
func (s *scenario) migrate() *redistest.Migration {
	s.Helper()
	from := s.deployed.Master(s.name)
	masters := s.deployed.Masters()
	to := masters[slices.IndexFunc(masters, func(m *redistest.Server) bool { return m.Addr() != from.Addr() })]
	m, err := s.deployed.MigrateSlot(redistest.Slot(s.name), to)
	if err != nil {
		s.Fatal(err)
	}
	return m
}

// movingSlot: the lock's slot is being moved, and its key has gone ahead.
func movingSlot(s *scenario) {
	c, o := s.client(), s.other()
	k := c.take()
	asked, again := s.said("ASK"), s.said("TRYAGAIN")
	m := s.migrate()
	if err := m.Move(s.name); err != nil {
		s.Fatal(err)
	}
	k.stays(s.ttl)
	if s.said("ASK") == asked {
		s.Error("no renewal was answered ASK")
	}
	ctx := s.bounded()
	got := make(chan error, 1)
	go func() { // its keys are at neither master, or at both
		lock, err := o.locker.Lock(ctx, "{"+s.name+"}-other")
		if err == nil {
			err = lock.Unlock()
		}
		got <- err
	}()
	if !s.until(patience, func() bool { return s.said("TRYAGAIN") > again }) {
		s.Error("no acquire was answered TRYAGAIN")
	}
	k.mustUnlock()
	select {
	case err := <-got:
		s.Fatalf("another lock of the slot was granted, or refused, before the move ended: %v", err)
	default:
	}
	if err := m.Finish(); err != nil {
		s.Fatal(err)
	}
	if err := <-got; err != nil {
		s.Errorf("another lock of the slot: %v", err)
	}
	k = c.take()
	k.mustUnlock()
}

// unplaceable: a cluster could not keep the lock together with its other keys.
func unplaceable(s *scenario) {
	c := s.client()
	name := s.name
	for _, odd := range []string{"a}b{c", "{}x", "x{y"} {
		s.name = name + odd
		asked := time.Now()
		if _, err := c.try(s.bounded()); !errors.Is(err, driver.ErrRefused) {
			s.Errorf("%q: got %v, want ErrRefused", s.name, err)
		}
		s.within("refused", time.Since(asked), call)
		s.wantGone(0)
	}
	s.name = name
}

// clusterDown: another master dies with its replica, and the cluster refuses
// everybody.
func clusterDown(s *scenario) {
	s.broke()
	own := s.deployed.Master(s.name)
	masters := s.deployed.Masters()
	lost := masters[slices.IndexFunc(masters, func(m *redistest.Server) bool { return m.Addr() != own.Addr() })]
	s.neverReady("CLUSTERDOWN ", func() {
		for _, server := range append(s.deployed.ReplicasOf(lost), lost) {
			server.Kill()
		}
		down := func() bool { return infoField(own.String("CLUSTER", "INFO"), "cluster_state") == "fail" }
		if !s.until(patience, down) {
			s.Fatal("the cluster is not down")
		}
	}, func() {
		if err := s.deployed.Heal(); err != nil {
			s.Fatal(err)
		}
	})
}

// nobodyLeft: the sentinels die, which nobody notices; then the master.
func nobodyLeft(s *scenario) {
	c := s.client()
	s.broke()
	for _, watcher := range s.deployed.Sentinels() {
		watcher.Kill()
	}
	k := c.take()
	k.stays(s.ttl)
	s.deployed.Master(s.name).Kill()
	killed := time.Now()
	k.lost(killed, s.ttl)
	if _, err := c.try(s.lasting(300 * time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("got %v, want the context's error", err)
	}
}
