package deploytest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// A node of a cluster that stands still costs no lock of another node, also
// where every renewal has to reach the replicas.
func TestFrozenNodeCostsOnlyItsLocks(t *testing.T) {
	// Not beside others: what takes replicas too long to acknowledge ends strict locks.
	d := redistest.StartDeployment(t, redistest.Cluster, redistest.NodeTimeout(15*time.Second)) // no fail-over meanwhile
	frozen := d.Masters()[0]
	var locks []*holdfast.Lock
	for client, w := range ways() {
		for _, o := range []redishold.Options{{}, {Replicas: redishold.AllReplicas}} {
			l := open(t, w, at(d), o)
			for i := range 40 {
				k, err := l.Lock(within(t, 10*time.Second), fmt.Sprintf("frozen:%s:%d:%d", client, o.Replicas, i))
				if err != nil {
					t.Fatalf("%s, replicas %d: %v", client, o.Replicas, err)
				}
				locks = append(locks, k)
			}
		}
	}
	theirs := map[*holdfast.Lock]bool{}
	for _, k := range locks {
		theirs[k] = d.Master(k.Name()).Addr() == frozen.Addr()
	}
	slowest := map[string]func() time.Duration{}
	for _, k := range locks {
		if addr := d.Master(k.Name()).Addr(); !theirs[k] && slowest[addr] == nil {
			slowest[addr] = watchReplicas(t, addr, "{"+k.Name()+"}:control")
		}
	}
	frozen.Pause()
	time.Sleep(6 * time.Second) // more than the TTL
	lost, kept, excused := 0, 0, 0
	for _, k := range locks {
		switch err := k.Err(); {
		case theirs[k] && err != nil:
			lost++
		case theirs[k]:
			t.Errorf("%q is still believed in", k.Name())
		case err != nil:
			ack := slowest[d.Master(k.Name()).Addr()]()
			if strings.Contains(err.Error(), "not replicated") && ack > 150*time.Millisecond {
				t.Logf("%q: its replica was slow by itself, %v: %v", k.Name(), ack, err)
				excused++
				continue
			}
			t.Errorf("%q, which is on another node, whose replica acknowledges within %v: %v", k.Name(), ack, err)
		default:
			kept++
		}
	}
	if excused > 10 {
		t.Errorf("%d locks of other nodes lost: more than a slow moment explains", excused)
	}
	if lost < 30 || kept < 100 {
		t.Errorf("%d locks lost, %d kept: too few to judge", lost, kept)
	}
	frozen.Resume()
	for _, k := range locks {
		_ = k.Unlock() // those of the frozen node are lost, as was seen
	}
}

// watchReplicas has writes of a key acknowledged by a replica, one after the other,
// until the test ends. It returns what tells how long that took at most.
func watchReplicas(t *testing.T, addr, key string) (slowest func() time.Duration) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var most time.Duration
	var watching sync.WaitGroup
	watching.Go(func() {
		conn := client.Conn()
		defer func() { _ = conn.Close() }()
		conn.Set(ctx, key, "", time.Minute) // connects
		for ctx.Err() == nil {
			began := time.Now()
			conn.Set(ctx, key, "", time.Minute)
			conn.Wait(ctx, 1, 2*time.Second)
			mu.Lock()
			most = max(most, time.Since(began))
			mu.Unlock()
			time.Sleep(5 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		watching.Wait()
		_ = client.Close()
	})
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return most
	}
}
