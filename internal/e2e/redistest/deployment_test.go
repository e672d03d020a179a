package redistest_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// TestDeployments puts one deployment of each kind through the faults that Heal ends. What
// else a deployment does, the tests that use it show.
func TestDeployments(t *testing.T) {
	t.Parallel()
	for _, top := range redistest.Topologies() {
		t.Run(string(top), func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			d := deploy(t, top)
			t.Logf("ready after %v", time.Since(begin).Round(time.Millisecond))
			run := func(name string, test func(*testing.T, *redistest.Deployment)) {
				if t.Failed() { // the next would only fail for the same reason
					return
				}
				t.Run(name, func(t *testing.T) {
					d := d.Bind(t)
					test(t, d)
					heal(t, d)
				})
			}
			run("kill and heal", testKillAndHeal)
			run("pause and heal", testPauseAndHeal)
			run("fill and heal", testFillAndHeal)
			if top != redistest.Standalone {
				run("lossy failover", testLossyFailOver)
				run("replicas restart", testReplicaRestarts)
				run("everything dies", testEverythingDies)
			}
		})
	}
}

func testKillAndHeal(t *testing.T, d *redistest.Deployment) {
	old := d.Master("k")
	write(t, d, "k", "kept")
	replicas := d.ReplicasOf(old)
	old.Kill()
	heal(t, d)
	if old.PID() == 0 {
		t.Fatal("the killed server does not run")
	}
	if got := d.Master("k").Do("GET", "k"); got != any("kept") && len(replicas) > 0 {
		t.Fatalf("got %v, want kept", got)
	}
	if home := d.Topology() == redistest.Replicated; home && d.Master("k") != d.Servers()[0] {
		t.Fatal("the first server is not master again")
	}
}

func testPauseAndHeal(t *testing.T, d *redistest.Deployment) {
	write(t, d, "k", "v")
	old := d.Master("k")
	old.Pause()
	if top := d.Topology(); top == redistest.Sentinel || top == redistest.Cluster {
		begin := time.Now()
		if d.Master("k") == old {
			t.Fatal("the paused server is still master")
		}
		t.Logf("another master after %v", time.Since(begin).Round(time.Millisecond))
	}
	begin := time.Now()
	heal(t, d)
	tuned := redistest.ReleaseOf(t).Redis.Since(7, 0) // a Sentinel of Redis 6.2 cannot be made to look more often
	if got := time.Since(begin); got > 7*time.Second && (tuned || d.Topology() != redistest.Sentinel) {
		t.Errorf("healed after %v: it left to the sentinels what they do after 8 s", got)
	}
	if got := d.Master("k").Do("GET", "k"); got != any("v") {
		t.Fatalf("got %v, want v", got)
	}
}

func testFillAndHeal(t *testing.T, d *redistest.Deployment) {
	m := d.Master("k")
	m.FillMemory()
	m.FillMemory()
	want(t, m.Do("SET", "k", "v"), "OOM")
	heal(t, d)
	write(t, d, "k", "v")
}

func testLossyFailOver(t *testing.T, d *redistest.Deployment) {
	write(t, d, "before", "kept")
	old := d.Master("before")
	// a name in the same slot
	d.CutReplication(old)
	if got := old.Do("SET", "{before}after", "lost"); got != any("OK") {
		t.Fatalf("got %v from the master that was cut off, want OK", got)
	}
	if got := d.ReplicasOf(old); len(got) == 0 {
		t.Fatal("a replica that is cut off is still a replica")
	}
	old.Kill()
	begin := time.Now()
	if d.Topology() == redistest.Replicated {
		heal(t, d)
	}
	now := d.Master("before")
	t.Logf("another master after %v", time.Since(begin).Round(time.Millisecond))
	if got := now.Strings("MGET", "before", "{before}after"); got[0] != "kept" || got[1] != "" {
		t.Fatalf("got %q, want the first only", got)
	}
}

func testReplicaRestarts(t *testing.T, d *redistest.Deployment) {
	write(t, d, "k", "kept")
	m := d.Master("k")
	replicas := d.ReplicasOf(m)
	for _, r := range replicas {
		r.Restart()
	}
	if err := d.AwaitReady(); err != nil {
		t.Fatal(err)
	}
	if got := d.ReplicasOf(m); !slices.Equal(got, replicas) || d.Master("k") != m || m.Do("GET", "k") != any("kept") {
		t.Fatalf("got %d replicas of the same master, want %d", len(got), len(replicas))
	}
}

func testEverythingDies(t *testing.T, d *redistest.Deployment) {
	for _, s := range append(d.Servers(), d.Sentinels()...) {
		s.Kill()
	}
	heal(t, d)
	write(t, d, "k", "v")
}

// A node from Redis 7.2 on, and of Valkey, that does not know its shard leaves
// itself out of CLUSTER SHARDS, and clients miss its slots.
func TestNodesKnowTheirShards(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ShardedChannels) // as old as CLUSTER SHARDS
	d := deploy(t, redistest.Cluster)
	for _, s := range d.Servers() {
		shards, _ := s.Do("CLUSTER", "SHARDS").([]any)
		_, port, _ := net.SplitHostPort(s.Addr())
		if text := fmt.Sprint(shards); len(shards) != 3 || !strings.Contains(text, "port "+port+" ") {
			t.Errorf("%s: got shards %v, want three, itself among them", s.Addr(), text)
		}
	}
}

func TestSlot(t *testing.T) {
	for key, want := range map[string]int{"foo": 12182, "{foo}bar": 12182, "a{foo}{bar}": 12182, "{}foo": 9500, "123456789": 12739, "": 0} {
		if got := redistest.Slot(key); got != want {
			t.Errorf("%q: got %d, want %d", key, got, want)
		}
	}
}

func deploy(t *testing.T, top redistest.Topology, opts ...redistest.Option) *redistest.Deployment {
	t.Helper()
	return redistest.StartDeployment(t, top, opts...)
}

func heal(t *testing.T, d *redistest.Deployment) {
	t.Helper()
	begin := time.Now()
	if err := d.Heal(); err != nil {
		t.Fatal(err)
	}
	t.Logf("healed after %v", time.Since(begin).Round(time.Millisecond))
}

func write(t *testing.T, d *redistest.Deployment, key, value string) {
	t.Helper()
	if got := d.Master(key).Do("SET", key, value); got != any("OK") {
		t.Fatalf("got %v, want OK", got)
	}
}

// want checks that reply is an error with one of codes.
func want(t *testing.T, reply any, codes ...string) {
	t.Helper()
	if err, ok := reply.(error); ok {
		for _, code := range codes {
			if strings.HasPrefix(err.Error(), code) {
				return
			}
		}
	}
	t.Fatalf("got %v, want %v", reply, codes)
}
