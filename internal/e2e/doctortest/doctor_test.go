// Package doctortest provokes the findings of package doctor on real servers.
package doctortest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/doctor"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

var (
	_ doctor.Asker = (*rueidisconn.Conn)(nil)
	_ doctor.Asker = (*rueidisconn.Sentinels)(nil)
	_ doctor.Asker = (*goredisconn.Conn)(nil)
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, dial.Sleepers()...) }

// examine connects to a target and has it examined.
func examine(t *testing.T, target dial.Target, o doctor.Options) *doctor.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, closeConn, err := dial.Open(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn()
	r, err := doctor.Examine(ctx, conn, &o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// show is a finding in a line.
func show(f doctor.Finding) string {
	return fmt.Sprintf("%s %s %v: %s -> %s", f.Severity, f.ID, f.Servers, f.Saw, f.Remedy)
}

// expect fails t unless the worst finding of the check id is as severe as that.
func expect(t *testing.T, r *doctor.Report, id string, severity doctor.Severity) doctor.Finding {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.ID == id })
	if i < 0 {
		t.Fatalf("nothing was found about %q", id)
	}
	f := r.Findings[i]
	if f.Severity != severity {
		t.Fatalf("got %q, want severity %s", show(f), severity)
	}
	if f.Severity > doctor.Unknown && (f.Why == "" || f.Remedy == "") {
		t.Fatalf("got %+v, want the reason and a remedy", f)
	}
	return f
}

// expectNothingWorse fails t if anything is worse than severity.
func expectNothingWorse(t *testing.T, r *doctor.Report, severity doctor.Severity) {
	t.Helper()
	for _, f := range r.Findings {
		if f.Severity > severity {
			t.Errorf("got %s", show(f))
		}
	}
}

// A server that is set up as docs/redis.md says has nothing to warn of, with
// either client, and every question is answered.
func TestCleanServer(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Standalone, redistest.AOF(), redistest.Password("s3cret"))
	for _, adapter := range dial.Adapters() {
		t.Run(adapter, func(t *testing.T) {
			r := examine(t, dial.To(adapter, d), doctor.Options{})
			expectNothingWorse(t, r, doctor.Note)
			for _, f := range r.Findings {
				if f.Severity == doctor.Unknown {
					t.Errorf("got %s", show(f))
				}
			}
			if len(r.Findings) < 20 || r.Deployment != "standalone" || len(r.Servers) != 1 || r.Servers[0].Role != "master" {
				t.Errorf("got %+v", r)
			}
			text, err := json.Marshal(r)
			if err != nil || strings.Contains(string(text), "s3cret") {
				t.Errorf("got %s, %v", text, err)
			}
		})
	}
	left := d.Servers()[0].Bind(t).KeysWithoutTTL(func(key string) bool { return strings.HasPrefix(key, "holdfast:token:") })
	if len(left) > 0 || len(d.Servers()[0].Bind(t).Keys()) > 4 {
		t.Errorf("left behind: %q", d.Servers()[0].Bind(t).Keys())
	}
}

// Each setting that endangers locks is found.
func TestSettings(t *testing.T) {
	t.Parallel()
	opts := []redistest.Option{redistest.AOF()}
	if redistest.Has(t, redistest.Debugging) {
		opts = append(opts, redistest.Conf("enable-debug-command yes"))
	}
	d := redistest.StartDeployment(t, redistest.Standalone, opts...)
	s := d.Servers()[0].Bind(t)
	lease := func(d time.Duration) doctor.Options { return doctor.Options{TTL: d} }
	for _, test := range []struct {
		set      [][]string // CONFIG SET, or another command
		options  doctor.Options
		id       string
		severity doctor.Severity
	}{
		{[][]string{{"maxmemory-policy", "allkeys-lru"}}, doctor.Options{}, "eviction", doctor.Note},
		{[][]string{{"maxmemory-policy", "volatile-ttl"}, {"maxmemory", "100mb"}}, doctor.Options{}, "eviction", doctor.Danger},
		{[][]string{{"maxmemory", "900kb"}}, doctor.Options{}, "rights-mutex", doctor.Danger},
		{[][]string{{"appendfsync", "everysec"}}, doctor.Options{}, "persistence", doctor.Note},
		{[][]string{{"appendfsync", "no"}}, doctor.Options{}, "persistence", doctor.Warning},
		{[][]string{{"appendonly", "no"}, {"save", "3600 1"}}, doctor.Options{}, "persistence", doctor.Warning},
		{[][]string{{"appendonly", "no"}, {"save", ""}}, doctor.Options{}, "persistence", doctor.Warning},
		{[][]string{{"client-output-buffer-limit", "pubsub 200000 0 0"}}, doctor.Options{}, "pubsub-buffer", doctor.Warning},
		{[][]string{{"client-output-buffer-limit", "pubsub 0 0 0"}}, doctor.Options{}, "pubsub-buffer", doctor.OK},
		{[][]string{{"lua-time-limit", "0"}}, doctor.Options{}, "script-limit", doctor.Note},
		{nil, lease(5 * time.Second), "script-limit", doctor.Note},
		{nil, lease(time.Microsecond), "latency", doctor.Warning},
		{nil, lease(time.Microsecond), "fork", doctor.Warning},
		{[][]string{{"DEBUG", "SLEEP", "0.02"}}, lease(150 * time.Millisecond), "slow-commands", doctor.Warning},
		{nil, lease(time.Minute), "slow-commands", doctor.OK},
		{[][]string{{"HSET", "orders", "cb8b3a68-6c50-4d9d-a6cf-8a4ad1ee2d8b:7", "1"}}, doctor.Options{}, "endless-locks", doctor.Warning},
		{[][]string{{"HSET", "orders", "mode", "write", "cb8b3a68-6c50-4d9d-a6cf-8a4ad1ee2d8b:7:write", "1", "cb8b3a68-6c50-4d9d-a6cf-8a4ad1ee2d8c:8", "1"}, {"PEXPIRE", "orders", "60000"}}, doctor.Options{}, "two-kinds", doctor.Note},
		{[][]string{{"SET", "orders", "17"}}, doctor.Options{Redis: redishold.Options{Layout: redishold.Plain}}, "endless-locks", doctor.Note},
		{nil, doctor.Options{Redis: redishold.Options{Replicas: redishold.AllReplicas}}, "replicas", doctor.Danger},
	} {
		t.Run(fmt.Sprintf("%s is %s", test.id, test.severity), func(t *testing.T) {
			s := s.Bind(t)
			before := configured(s)
			defer func() {
				restore(t, s, before)
				s.Do("DEL", "orders")
			}()
			for _, words := range test.set {
				command := words
				if strings.ToUpper(words[0]) != words[0] {
					command = append([]string{"CONFIG", "SET"}, words...)
				}
				if err, failed := s.Do(command...).(error); failed {
					t.Fatal(err)
				}
			}
			expect(t, examine(t, dial.To("rueidis", d), test.options), test.id, test.severity)
		})
	}
}

func configured(s *redistest.Server) map[string]string {
	before := map[string]string{}
	for _, name := range []string{
		"maxmemory-policy", "maxmemory", "appendfsync", "appendonly", "save", "client-output-buffer-limit", "lua-time-limit",
	} {
		before[name] = s.Map("CONFIG", "GET", name)[name]
	}
	return before
}

func restore(t *testing.T, s *redistest.Server, before map[string]string) {
	t.Helper()
	for name, value := range before {
		if err, failed := s.Do("CONFIG", "SET", name, value).(error); failed {
			t.Fatal(err)
		}
	}
}

// A server that cannot write its snapshot refuses locks, and says why.
func TestCannotSave(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Standalone, redistest.AOF())
	s := d.Servers()[0].Bind(t)
	s.FailSaves()
	r := examine(t, dial.To("rueidis", d), doctor.Options{})
	expect(t, r, "writes", doctor.Danger)
	expect(t, r, "rights-mutex", doctor.Danger)
}

// What the user may not ask is not known, and what the user may not do is said
// with the right that is missing.
func TestRights(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Standalone, redistest.AOF())
	s := d.Servers()[0].Bind(t)
	unseen := "" // without ACL DRYRUN: what is tried only where all before it is allowed
	if redistest.Has(t, redistest.Debugging) {
		unseen = " +zadd"
	}
	for name, test := range map[string]struct {
		rules   string
		options doctor.Options
		want    map[string]doctor.Severity
		remedy  map[string]string
	}{
		"nothing to ask": {
			rules: "~* &* +@all -config -info -time -slowlog -pubsub -scan",
			want: map[string]doctor.Severity{
				"info": doctor.Unknown, "script-limit": doctor.Unknown, "clock": doctor.Unknown, "slow-commands": doctor.Unknown,
				"endless-locks": doctor.Unknown, "rights-mutex": doctor.Danger,
			},
			remedy: map[string]string{"rights-mutex": "+time"},
		},
		"no configuration": {
			rules:  "~* &* +@all -config",
			want:   map[string]doctor.Severity{"eviction": doctor.OK, "persistence": doctor.Unknown, "script-limit": doctor.Unknown, "rights-mutex": doctor.OK},
			remedy: map[string]string{"script-limit": "+config|get"},
		},
		"no channels": {
			rules:  "~* resetchannels +@all",
			want:   map[string]doctor.Severity{"pubsub": doctor.Warning, "rights-mutex": doctor.Danger},
			remedy: map[string]string{"pubsub": "&redisson_lock__channel:*", "rights-mutex": "&redisson_lock__channel:*"},
		},
		"only mutexes": {
			rules: "~app:* &redisson_lock__channel:* +evalsha +eval +subscribe +unsubscribe +publish +info +hello +ping +client " +
				"+exists +del +pexpire +pttl +get +set +hget +hset +hdel +hexists +hlen +hkeys +hgetall +time",
			options: doctor.Options{Redis: redishold.Options{KeyPrefix: "app:"}},
			want: map[string]doctor.Severity{
				"rights-mutex": doctor.OK, "rights-fair": doctor.Note, "rights-read-write": doctor.Note,
				"rights-semaphore": doctor.Note, "rights-latch": doctor.Note, "pubsub": doctor.OK,
			},
			remedy: map[string]string{"rights-latch": "ACL SETUSER <user>"},
		},
		"nothing by digest": {
			rules: "~* &* +@all -evalsha -hset -lpos -zadd",
			want:  map[string]doctor.Severity{"rights-mutex": doctor.Danger, "rights-fair": doctor.Note, "endless-locks": doctor.Unknown},
			remedy: map[string]string{
				"rights-mutex": "SETUSER <user> +evalsha +hset", "rights-fair": "+evalsha +hset +lpos" + unseen,
				"endless-locks": "SETUSER <user> +evalsha +scan +type",
			},
		},
		"no list": {
			rules:  "~* &* +@all -scan",
			want:   map[string]doctor.Severity{"endless-locks": doctor.Unknown},
			remedy: map[string]string{"endless-locks": "SETUSER <user> +scan +type +cluster|slots"},
		},
		"only some names": {
			rules:   "~stock:* ~holdfast:* &* +@all",
			options: doctor.Options{Name: "stock:"},
			want:    map[string]doctor.Severity{"rights-mutex": doctor.OK, "pubsub": doctor.OK},
		},
		"other names": {
			rules:  "~stock:* ~holdfast:* &* +@all",
			want:   map[string]doctor.Severity{"rights-mutex": doctor.Danger},
			remedy: map[string]string{"rights-mutex": "~holdfast-doctor*"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.Bind(t)
			args := append([]string{"ACL", "SETUSER", "app", "reset", "resetchannels", "on", ">s3cret"}, strings.Fields(test.rules)...)
			if err, failed := s.Do(args...).(error); failed {
				t.Fatal(err)
			}
			for _, adapter := range dial.Adapters() {
				target := dial.To(adapter, d)
				target.Username, target.Password = "app", "s3cret"
				r := examine(t, target, test.options)
				for id, severity := range test.want {
					f := expect(t, r, id, severity)
					if !strings.Contains(f.Remedy, test.remedy[id]) {
						t.Errorf("%s: got remedy %q, want %q in it", id, f.Remedy, test.remedy[id])
					}
				}
			}
		})
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Standalone, redistest.AOF(), redistest.ShiftableClock())
	d.Servers()[0].Bind(t).ShiftClock(time.Minute)
	f := expect(t, examine(t, dial.To("rueidis", d), doctor.Options{}), "clock", doctor.Warning)
	if !strings.Contains(f.Saw, "1m0s ahead of the clock of this machine") {
		t.Errorf("got %q", f.Saw)
	}
}

func TestReplicated(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Replicated, redistest.AOF())
	target := dial.To("rueidis", d)
	r := examine(t, target, doctor.Options{})
	expectNothingWorse(t, r, doctor.Note)
	expect(t, r, "replicas", doctor.Note)
	if r.Deployment != "replicated" {
		t.Errorf("got %q", r.Deployment)
	}
	all := doctor.Options{Redis: redishold.Options{Replicas: redishold.AllReplicas}}
	expect(t, examine(t, target, all), "replicas", doctor.OK)

	master := d.Master("any").Bind(t)
	master.Do("CONFIG", "SET", "min-replicas-to-write", "2")
	master.Do("CONFIG", "SET", "min-replicas-max-lag", "60")
	expect(t, examine(t, target, doctor.Options{}), "min-replicas", doctor.Note)
	master.Do("CONFIG", "SET", "min-replicas-max-lag", "3")
	expect(t, examine(t, target, doctor.Options{}), "min-replicas", doctor.OK)
	master.Do("CONFIG", "SET", "min-replicas-to-write", "3")
	r = examine(t, target, doctor.Options{})
	expect(t, r, "min-replicas", doctor.Danger)
	expect(t, r, "rights-mutex", doctor.Danger)

	target.Seeds = []string{d.ReplicasOf(master)[0].Addr()}
	r = examine(t, target, doctor.Options{})
	expect(t, r, "role", doctor.Danger)
	expect(t, r, "rights-mutex", doctor.Danger)
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Sentinel, redistest.AOF(), redistest.SentinelPassword("watch"),
		redistest.Conf("min-replicas-to-write 1", "min-replicas-max-lag 3"))
	look := func() *doctor.Report {
		t.Helper()
		sentinels, err := rueidisconn.NewSentinels("redis+sentinel://"+strings.Join(d.Seeds(), ",")+"/"+redistest.MasterName,
			&rueidisconn.Options{SentinelPassword: "watch"})
		if err != nil || sentinels.Master() != redistest.MasterName {
			t.Fatalf("got %+v, %v", sentinels, err)
		}
		target := dial.To("goredis", d)
		target.Documented = true
		return examine(t, target, doctor.Options{Sentinels: sentinels, Master: sentinels.Master()})
	}
	expect(t, examine(t, dial.To("goredis", d), doctor.Options{}), "client-settings", doctor.Warning)
	r := look()
	expectNothingWorse(t, r, doctor.Note)
	if r.Deployment != "sentinel" || len(r.Servers) != 4 {
		t.Errorf("got %+v", r)
	}
	expect(t, r, "sentinel-quorum", doctor.OK)

	direct := dial.To("rueidis", d)
	direct.Topology, direct.Seeds = redistest.Standalone, []string{d.Master("any").Addr()}
	expect(t, examine(t, direct, doctor.Options{}), "sentinel-use", doctor.Warning)

	watch := d.Sentinels()
	set := func(name, value string) {
		for _, s := range watch {
			s.Do("SENTINEL", "SET", redistest.MasterName, name, value)
		}
	}
	set("quorum", "3")
	expect(t, look(), "sentinel-quorum", doctor.Warning)
	set("quorum", "4")
	expect(t, look(), "sentinel-quorum", doctor.Danger)
	set("quorum", "1")
	expect(t, look(), "sentinel-quorum", doctor.Note)
	set("quorum", "2")
	set("down-after-milliseconds", "60000")
	expect(t, look(), "sentinel-timeout", doctor.Note)

	master := d.Master("any")
	master.Do("CONFIG", "SET", "min-replicas-to-write", "0")
	expect(t, look(), "min-replicas", doctor.Warning)

	watch[0].Kill()
	r = look()
	if f := expect(t, r, "sentinels-answer", doctor.Warning); len(f.Servers) != 1 || f.Servers[0] != watch[0].Addr() {
		t.Errorf("got %s", show(f))
	}
	text, _ := json.Marshal(r)
	if strings.Contains(string(text), "watch") {
		t.Errorf("the report shows the password: %s", text)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Cluster, redistest.AOF(), redistest.Conf("cluster-require-full-coverage no"))
	showReplicas(t, d)
	for _, adapter := range dial.Adapters() {
		r := examine(t, dial.To(adapter, d), doctor.Options{TTL: time.Minute})
		expectNothingWorse(t, r, doctor.Note)
		for _, f := range r.Findings {
			if f.Severity == doctor.Unknown {
				t.Errorf("got %s", show(f))
			}
		}
		expect(t, r, "cluster-coverage", doctor.OK)
		expect(t, r, "cluster-timeout", doctor.OK)
		if redistest.Has(t, redistest.ShardedChannels) {
			expect(t, r, "pubsub-sharded", doctor.OK)
		}
		if r.Deployment != "cluster" || len(r.Servers) != 6 {
			t.Errorf("%s: got %+v", adapter, r.Servers)
		}
	}
	target := dial.To("rueidis", d)
	expect(t, examine(t, target, doctor.Options{TTL: time.Second}), "cluster-timeout", doctor.Note)

	servers := d.Servers()
	for _, s := range servers {
		s.Do("CONFIG", "SET", "cluster-require-full-coverage", "yes")
	}
	expect(t, examine(t, target, doctor.Options{}), "cluster-coverage", doctor.Note)
	for _, s := range servers {
		s.Do("CONFIG", "SET", "cluster-require-full-coverage", "no")
	}

	slot := redistest.Slot("moving")
	to := servers[0]
	if to.Addr() == d.Master("moving").Addr() {
		to = servers[1]
	}
	m, err := d.MigrateSlot(slot, to)
	if err != nil {
		t.Fatal(err)
	}
	if f := expect(t, examine(t, target, doctor.Options{}), "cluster-migration", doctor.Warning); len(f.Servers) == 0 {
		t.Errorf("got %s", show(f))
	}
	if err := m.Finish(); err != nil {
		t.Fatal(err)
	}

	replica := d.ReplicasOf(servers[0])[0]
	replica.Kill()
	r := examine(t, target, doctor.Options{})
	expect(t, r, "replicas", doctor.Warning)

	for _, s := range servers {
		s.Do("CLUSTER", "DELSLOTS", strconv.Itoa(slot))
	}
	expect(t, examine(t, target, doctor.Options{}), "cluster-slots", doctor.Danger)
}

// showReplicas makes the nodes tell clients of replicas, which they do after the
// first write.
func showReplicas(t *testing.T, d *redistest.Deployment) {
	t.Helper()
	for _, key := range []string{"a", "b", "c"} { // of three masters
		d.Master(key).Do("SET", key, "1", "PX", "1")
	}
	end := time.Now().Add(10 * time.Second)
	for _, s := range d.Servers() {
		for strings.Count(fmt.Sprint(s.Do("CLUSTER", "SLOTS")), "127.0.0.1") < 6 {
			if time.Now().After(end) {
				t.Fatalf("%s does not tell of its replicas", s.Addr())
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// A server that stops responding is a finding, and holds nothing up for long.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Standalone, redistest.AOF())
	target := dial.To("goredis", d)
	conn, closeConn, err := dial.Open(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn()
	s := d.Servers()[0].Bind(t)
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if r, err := doctor.Examine(ctx, conn, nil); err == nil {
		t.Fatalf("got %+v of a server that stands still", r)
	}
	s.Resume()
}
