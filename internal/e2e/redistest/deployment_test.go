package redistest_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// TestDeployments puts one deployment of each kind through everything, because a
// cluster takes seconds to start.
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
			run("shape", testShape)
			run("kill and heal", testKillAndHeal)
			run("pause and heal", testPauseAndHeal)
			run("fill and heal", testFillAndHeal)
			run("fail over", testFailOver)
			if top != redistest.Standalone {
				run("lossy failover", testLossyFailOver)
				run("replication heals", testReplicationHeals)
				run("replicas restart", testReplicaRestarts)
				run("add and remove a node", testAddAndRemove)
				run("everything dies", testEverythingDies)
			}
			if top == redistest.Cluster {
				run("finish a migration", testFinishMigration)
				run("abort a migration", testAbortMigration)
			}
		})
	}
}

func testShape(t *testing.T, d *redistest.Deployment) {
	servers := map[redistest.Topology]int{redistest.Standalone: 1, redistest.Replicated: 3, redistest.Sentinel: 3, redistest.Cluster: 6}[d.Topology()]
	masters, sentinels, seeds := 1, 0, 1
	switch d.Topology() {
	case redistest.Sentinel:
		sentinels, seeds = 3, 3
	case redistest.Cluster:
		masters, seeds = 3, 6
	}
	if got := [...]int{len(d.Servers()), len(d.Masters()), len(d.Sentinels()), len(d.Seeds()), len(d.Addrs())}; got != [...]int{servers, masters, sentinels, seeds, servers + sentinels} {
		t.Fatalf("got %v servers, masters, sentinels, seeds, addresses", got)
	}
	m := d.Master("k")
	if m != d.Master("k") || (len(d.ReplicasOf(m)) == 0) != (d.Topology() == redistest.Standalone) {
		t.Fatalf("got master %s and replicas %v", m.Addr(), d.ReplicasOf(m))
	}
	for _, r := range d.ReplicasOf(m) {
		want(t, r.Do("SET", "k", "v"), "READONLY", "MOVED")
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

func testFailOver(t *testing.T, d *redistest.Deployment) {
	if d.Topology() == redistest.Standalone {
		if err := d.FailOver("k"); !errors.Is(err, errors.ErrUnsupported) {
			t.Fatalf("got %v, want ErrUnsupported", err)
		}
		return
	}
	write(t, d, "k", "kept")
	for range 2 {
		old, begin := d.Master("k"), time.Now()
		if err := d.FailOver("k"); err != nil {
			t.Fatal(err)
		}
		t.Logf("failover took %v", time.Since(begin).Round(time.Millisecond))
		now := d.Master("k")
		if now == old || now.Do("GET", "k") != any("kept") {
			t.Fatalf("got %s with %v after %s, want another one with the key", now.Addr(), now.Do("GET", "k"), old.Addr())
		}
		if d.Topology() != redistest.Sentinel {
			want(t, old.Do("SET", "k", "v"), "READONLY", "MOVED")
		}
	}
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

func testReplicationHeals(t *testing.T, d *redistest.Deployment) {
	m := d.Master("k")
	d.CutReplication(m)
	write(t, d, "k", "late")
	m.Do("ACL", "LOG", "RESET")
	await.Until(t, 10*time.Second, "a replica is refused", func() bool {
		refused, _ := m.Do("ACL", "LOG").([]any)
		return len(refused) > 0
	})
	for _, r := range d.ReplicasOf(m) {
		if !strings.Contains(r.String("INFO", "replication"), "master_link_status:down") {
			t.Fatalf("%s came back", r.Addr())
		}
	}
	d.HealReplication(m)
	if err := d.AwaitReady(); err != nil {
		t.Fatal(err)
	}
	if d.Master("k") != m || m.Do("GET", "k") != any("late") {
		t.Fatal("the master changed, or forgot the write")
	}
	if got := m.Int("WAIT", "1", "1000"); got == 0 {
		t.Fatal("no replica is back")
	}
}

func testAddAndRemove(t *testing.T, d *redistest.Deployment) {
	before := len(d.Servers())
	s, err := d.AddNode()
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Servers()) != before+1 {
		t.Fatalf("got %d servers, want %d", len(d.Servers()), before+1)
	}
	if d.Topology() == redistest.Cluster {
		for _, key := range []string{"a", "b"} {
			write(t, d, key, "moved")
			migration, err := d.MigrateSlot(redistest.Slot(key), s)
			if err != nil {
				t.Fatal(err)
			}
			if err := migration.Finish(); err != nil {
				t.Fatal(err)
			}
			if d.Master(key) != s {
				t.Fatalf("%s is not at the new node", key)
			}
		}
	}
	if err := d.RemoveNode(s); err != nil {
		t.Fatal(err)
	}
	if s.PID() != 0 || len(d.Servers()) != before {
		t.Fatalf("got process %d and %d servers, want none and %d", s.PID(), len(d.Servers()), before)
	}
	if d.Topology() == redistest.Cluster {
		if got := d.Master("a").Do("GET", "a"); got != any("moved") {
			t.Fatalf("got %v, want the key back", got)
		}
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

func testFinishMigration(t *testing.T, d *redistest.Deployment) {
	m, from, to := split(t, d)
	if err := m.Finish(); err != nil {
		t.Fatal(err)
	}
	if d.Master("{s}") != to {
		t.Fatal("the slot is not at its new master")
	}
	if got := to.Strings("MGET", "{s}a", "{s}b"); got[0] != "1" || got[1] != "2" {
		t.Fatalf("got %q, want 1 and 2", got)
	}
	want(t, from.Do("GET", "{s}a"), "MOVED")
	if m.Finish() == nil || m.Abort() == nil {
		t.Fatal("a migration ended twice")
	}
}

func testAbortMigration(t *testing.T, d *redistest.Deployment) {
	m, from, to := split(t, d)
	if err := m.Abort(); err != nil {
		t.Fatal(err)
	}
	if d.Master("{s}") != from {
		t.Fatal("the slot is not where it was")
	}
	if got := from.Strings("MGET", "{s}a", "{s}b"); got[0] != "1" || got[1] != "2" {
		t.Fatalf("got %q, want 1 and 2", got)
	}
	m, err := d.MigrateSlot(redistest.Slot("{s}"), to)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Abort(); err != nil { // nothing moved
		t.Fatal(err)
	}
	if got := from.Strings("MGET", "{s}a", "{s}none"); got[0] != "1" { // ASK while it is open
		t.Fatalf("got %q, want 1", got)
	}
}

// split opens the migration of a slot with two keys, one of which has moved.
func split(t *testing.T, d *redistest.Deployment) (m *redistest.Migration, from, to *redistest.Server) {
	t.Helper()
	write(t, d, "{s}a", "1")
	write(t, d, "{s}b", "2")
	from = d.Master("{s}")
	for _, s := range d.Masters() {
		if s != from {
			to = s
		}
	}
	m, err := d.MigrateSlot(redistest.Slot("{s}"), to)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Move("{s}a", "{s}none"); err != nil {
		t.Fatal(err)
	}
	want(t, from.Do("GET", "{s}a"), "ASK")
	torn := "TRYAGAIN"
	if !redistest.ReleaseOf(t).Redis.Since(7, 0) {
		torn = "ASK" // Redis 6.2 sends one on although only the new master says TRYAGAIN
	}
	want(t, from.Do("MGET", "{s}a", "{s}b"), torn)
	want(t, to.Do("GET", "{s}a"), "MOVED")
	if got := from.Do("GET", "{s}b"); got != any("2") {
		t.Fatalf("got %v, want 2", got)
	}
	return m, from, to
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
