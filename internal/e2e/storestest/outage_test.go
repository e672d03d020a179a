package storestest

import (
	"os/exec"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/zkhold"
)

// frozenFor is for how long a server is frozen.
const frozenFor = 2 * time.Second

// harmed is a store, and what harms it for a while.
type harmed struct {
	backend driver.Backend
	harm    func()
}

// A store that is frozen for two seconds, or whose leader is killed, costs no lock of a
// process that holds many, and few calls.
func TestOutageCostsNoLock(t *testing.T) {
	t.Parallel()
	locks, ttl := 300, 9*time.Second
	adapters, names := dial.Adapters()[:1], []string{anystore.Etcd, anystore.ZooKeeper, anystore.PostgreSQL}
	if manytest.Full() {
		locks, ttl = 5_000, 6*time.Second
		adapters, names = dial.Adapters(), anystore.Names()
	}
	run := func(name string, start func(*testing.T, time.Duration) harmed, ttl time.Duration) {
		t.Run(name, func(t *testing.T) {
			h := start(t, ttl)
			manytest.Outage(t, h.backend, locks, ttl, h.harm)
		})
	}
	var all sync.WaitGroup
	defer all.Wait()
	each := func(name string, start func(*testing.T, time.Duration) harmed, ttl time.Duration) {
		if manytest.Full() { // one after the other: the figures are of one store
			run(name, start, ttl)
		} else {
			all.Go(func() { run(name, start, ttl) })
		}
	}
	for _, adapter := range adapters {
		each("redis/"+adapter, frozenRedis(adapter, 1), ttl)
	}
	for _, name := range names {
		if name == anystore.ZooKeeper { // locks are held for two thirds of a session
			each(name, frozenStore(name), ttl*3/2)
			continue
		}
		each(name, frozenStore(name), ttl)
	}
	if manytest.Full() {
		each("quorum", frozenRedis(adapters[0], 3), ttl)
		each("etcd/leader", etcdWithoutLeader, ttl)
		each("zookeeper/leader", zooKeeperWithoutLeader, ttl*3/2)
	}
}

func frozenRedis(adapter string, servers int) func(*testing.T, time.Duration) harmed {
	return func(t *testing.T, _ time.Duration) (h harmed) {
		var members []driver.Backend
		var all []*redistest.Server
		for range servers {
			server := redistest.Start(t)
			conn, closeConn, err := dial.Server(adapter, server.Addr(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(closeConn)
			members, all = append(members, redishold.New(conn, nil)), append(all, server)
		}
		if h.backend = members[0]; servers > 1 {
			h.backend = of(t, members...)
		}
		h.harm = func() {
			for _, server := range all {
				server.Pause()
			}
			time.Sleep(frozenFor)
			for _, server := range all {
				server.Resume()
			}
		}
		return h
	}
}

func frozenStore(name string) func(*testing.T, time.Duration) harmed {
	return func(t *testing.T, ttl time.Duration) harmed {
		store, err := anystore.Run(name, t.TempDir())
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(store.Close)
		b, shut, err := anystore.Dial(name, store.Addr, ttl)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(shut)
		return harmed{b, func() {
			err := store.Pause()
			time.Sleep(frozenFor)
			if err != nil || store.Resume() != nil {
				t.Errorf("the server was not frozen: %v", err)
			}
		}}
	}
}

func etcdWithoutLeader(t *testing.T, ttl time.Duration) harmed {
	members := etcdtest.StartCluster(t, 3)
	client := etcdtest.ClusterClient(t, members, func(c *clientv3.Config) {
		c.DialKeepAliveTime, c.DialKeepAliveTimeout = time.Second, time.Second
	})
	return harmed{etcdhold.New(client, &etcdhold.Options{TTL: ttl}), members[0].Kill}
}

func zooKeeperWithoutLeader(t *testing.T, ttl time.Duration) harmed {
	servers := zktest.StartEnsemble(t, 3)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	b := zkhold.New(addrs, &zkhold.Options{TTL: ttl})
	t.Cleanup(b.Close)
	return harmed{b, func() {
		for _, s := range servers {
			if s.Leads() {
				s.Kill()
				return
			}
		}
		t.Error("no server leads")
	}}
}

// A program that takes a processor costs a process no lock of ten thousand in etcd.
func TestManyLocksBesideABusyProgram(t *testing.T) {
	if !manytest.Full() {
		t.Skip("only in the larger form")
	}
	const ttl = 15 * time.Second
	b := etcdhold.New(etcdtest.Start(t).Client(t), &etcdhold.Options{TTL: ttl})
	manytest.Outage(t, b, 10_000, ttl, func() {
		busy := exec.Command("sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * ttl)
		_ = busy.Process.Kill()
		_ = busy.Wait()
	})
}
