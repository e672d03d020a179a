package storestest

import (
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
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
	adapters, kinds := dial.Adapters()[:1], anystore.Unlike()
	if manytest.Full() {
		locks, ttl = 5_000, 6*time.Second
		adapters, kinds = dial.Adapters(), anystore.All()
	}
	each := func(name string, start func(*testing.T, time.Duration) harmed, ttl time.Duration) {
		t.Run(name, func(t *testing.T) {
			if !manytest.Full() { // the figures are of one store
				t.Parallel()
			}
			h := start(t, ttl)
			manytest.Outage(t, h.backend, locks, ttl, h.harm)
		})
	}
	for _, adapter := range adapters {
		each("redis/"+adapter, frozenRedis(adapter, 1), ttl)
	}
	for _, k := range kinds {
		each(k.Name, frozenStore(k), k.Session(ttl))
		if manytest.Full() && k.Cluster != nil {
			each(k.Name+"/leader", withoutLeader(k), k.Session(ttl))
		}
	}
	if manytest.Full() {
		each("quorum", frozenRedis(adapters[0], 3), ttl)
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

func frozenStore(k *anystore.Kind) func(*testing.T, time.Duration) harmed {
	return func(t *testing.T, ttl time.Duration) harmed {
		server := k.Start(t)
		return harmed{dialed(t, k.Dial, server.Addr, ttl), func() {
			err := server.Pause()
			time.Sleep(frozenFor)
			if err != nil || server.Resume() != nil {
				t.Errorf("the server was not frozen: %v", err)
			}
		}}
	}
}

func withoutLeader(k *anystore.Kind) func(*testing.T, time.Duration) harmed {
	return func(t *testing.T, ttl time.Duration) harmed {
		servers := k.Cluster(t)
		return harmed{dialed(t, k.Dial, servers.Addr, ttl), func() {
			if err := servers.KillLeader(); err != nil {
				t.Error(err)
			}
		}}
	}
}

// A program that takes a processor costs a process no lock of ten thousand in etcd.
func TestManyLocksBesideABusyProgram(t *testing.T) {
	if !manytest.Full() {
		t.Skip("only in the larger form")
	}
	const ttl = 15 * time.Second
	k := anystore.Etcd()
	b := dialed(t, k.Default, k.Start(t).Addr, ttl)
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
