package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/pghold"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// want fails unless findings say exactly these, as "id severity", in any order; what is
// in order is left out. Whatever is not in order has a reason and a remedy, or is unknown.
func want(t *testing.T, findings []doctor.Finding, wanted ...string) {
	t.Helper()
	var got []string
	for _, f := range findings {
		if f.Saw == "" || f.Severity > doctor.Unknown && (f.Why == "" || f.Remedy == "") {
			t.Errorf("got %+v, want what was seen, why it matters and what to do", f)
		}
		if f.Severity > doctor.OK {
			got = append(got, f.ID+" "+f.Severity.String())
		}
	}
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("got %q\nwant %q", got, wanted)
	}
}

func TestEtcd(t *testing.T) {
	for _, test := range []struct {
		change func(*clientv3.StatusResponse)
		want   []string
	}{
		{func(*clientv3.StatusResponse) {}, nil},
		{func(r *clientv3.StatusResponse) { r.Leader = 0 }, []string{"quorum danger"}},
		{func(r *clientv3.StatusResponse) { r.Errors = []string{"memberID:1 alarm:NOSPACE"} }, []string{"alarm danger"}},
		{func(r *clientv3.StatusResponse) { r.IsLearner = true }, []string{"learner warning"}},
		{func(r *clientv3.StatusResponse) { r.DbSize = etcdQuota * 85 / 100 }, []string{"space warning"}},
		{func(r *clientv3.StatusResponse) { r.DbSize, r.DbSizeQuota = 31<<20, 32<<20 }, []string{"space danger"}},
		{func(r *clientv3.StatusResponse) { r.DbSize, r.DbSizeQuota = 3<<30, 8<<30 }, nil},
	} {
		r := &clientv3.StatusResponse{Leader: 1, DbSize: 1 << 20}
		test.change(r)
		want(t, etcdServer(r), test.want...)
	}
	want(t, []doctor.Finding{etcdMembers(3, 0, nil)})
	want(t, []doctor.Finding{etcdMembers(1, 0, nil)}, "members note")
	want(t, []doctor.Finding{etcdMembers(4, 0, nil)}, "members note")
	want(t, []doctor.Finding{etcdMembers(0, 0, errors.New("no"))}, "members unknown")
}

func TestZooKeeper(t *testing.T) {
	const version = "Zookeeper version: 3.9.4-7246445ec281f3dbf53dc54e970c914f39713903, built on 2025-08-19 19:53 UTC\nOutstanding: %d\nMode: %s\n"
	const conf = "clientPort=2181\nminSessionTimeout=4000\nmaxSessionTimeout=40000\n"
	for _, test := range []struct {
		said, conf string
		want       []string
	}{
		{fmt.Sprintf(version, 0, "leader"), conf, nil},
		{fmt.Sprintf(version, 2000, "follower"), conf, []string{"state warning"}},
		{fmt.Sprintf(version, 0, "standalone"), conf, []string{"state note"}},
		{fmt.Sprintf(version, 0, "read-only"), conf, []string{"state danger"}},
		{"srvr is not executed because it is not in the whitelist.\n", "conf is not executed because it is not in the whitelist.\n", []string{"session unknown", "state unknown"}},
		{"This ZooKeeper instance is not currently serving requests\n", conf, []string{"state danger"}},
		{fmt.Sprintf(version, 0, "leader"), "minSessionTimeout=20000\nmaxSessionTimeout=40000\n", []string{"session warning"}},
		{fmt.Sprintf(version, 0, "leader"), "minSessionTimeout=100\nmaxSessionTimeout=4000\n", []string{"session warning"}},
	} {
		var f examined
		f.deployment = "ensemble"
		f.addZooKeeper("a:2181", test.said, test.conf, 10*time.Second)
		want(t, f.findings, test.want...)
		if strings.HasPrefix(test.said, "Zoo") && f.servers[0].Version != "ZooKeeper 3.9.4" {
			t.Errorf("got version %q", f.servers[0].Version)
		}
	}
}

func TestPostgres(t *testing.T) {
	listening := &pghold.Options{Listen: &pgx.ConnConfig{}}
	good := postgresSettings{Commit: "on", Fsync: "on", Autovacuum: "on", Most: 100, Now: 10}
	for _, test := range []struct {
		change func(*postgresSettings)
		want   []string
	}{
		{func(*postgresSettings) {}, nil},
		{func(s *postgresSettings) { s.Standby = true }, []string{"writes danger"}},
		{func(s *postgresSettings) { s.ReadOnly = true }, []string{"writes danger"}},
		{func(s *postgresSettings) { s.Replicas = 1 }, []string{"replication warning"}},
		{func(s *postgresSettings) { s.Replicas, s.Synchronous = 1, "ANY 1 (*)" }, nil},
		{func(s *postgresSettings) { s.Replicas, s.Synchronous, s.Commit = 1, "ANY 1 (*)", "local" }, []string{"replication warning"}},
		{func(s *postgresSettings) { s.Commit = "off" }, []string{"durability warning"}},
		{func(s *postgresSettings) { s.Fsync = "off" }, []string{"durability danger"}},
		{func(s *postgresSettings) { s.Autovacuum = "off" }, []string{"autovacuum warning"}},
		{func(s *postgresSettings) { s.Now = 81 }, []string{"connections warning"}},
		{func(s *postgresSettings) { s.Now = 96 }, []string{"connections danger"}},
		{func(s *postgresSettings) { s.Behind = true }, nil},
		{func(s *postgresSettings) { s.Pooled = true }, nil},
		{func(s *postgresSettings) { s.Pooled, s.Behind = true, true }, []string{"notifications note"}},
	} {
		s := good
		test.change(&s)
		want(t, s.findings(listening), test.want...)
	}
	want(t, good.findings(&pghold.Options{}), "notifications note")
	shed := good.findings(&pghold.Options{Layout: pghold.ShedLock})
	want(t, shed)
	if slices.ContainsFunc(shed, func(f doctor.Finding) bool { return f.ID == "notifications" }) {
		t.Error("got a finding about notifications, which nobody sends in the table of ShedLock")
	}
}

// A finding about an open transaction names it, and says how it is ended.
func TestOpenTransactions(t *testing.T) {
	session := openTransaction{
		Kind: "session", ID: "123", Application: "psql\n", Role: `o"k`, State: "idle in transaction", Seconds: 312, Behind: 1, Total: 5,
	}
	for _, test := range []struct {
		oldest []openTransaction
		hidden int
		err    error
		want   string
		says   []string
	}{
		{want: "", says: []string{"60 s or longer", "100000 newer"}},
		{hidden: 2, want: "transactions unknown", says: []string{"2 sessions", "GRANT pg_read_all_stats"}},
		{err: errors.New("permission denied"), want: "transactions unknown", says: []string{"permission denied"}},
		{
			oldest: []openTransaction{session, {Kind: "slot", ID: "s", Behind: 200_000, Total: 5}}, want: "transactions warning",
			says: []string{`pid 123 (application "psql\n"`, "idle in transaction), open for 5m12s, 1 newer transaction;", `slot "s", 200000 newer transactions`, "and 3 more", "pg_terminate_backend(123)", `ALTER ROLE "o""k" SET idle_in_`},
		},
		{oldest: []openTransaction{{Kind: "prepared", ID: "it's", Total: 1}}, want: "transactions note", says: []string{"ROLLBACK PREPARED 'it''s'"}},
		{oldest: []openTransaction{{Kind: "slot", ID: "s", Total: 1}}, want: "transactions note", says: []string{"pg_drop_replication_slot('s')"}},
		{oldest: []openTransaction{{Kind: "standby", ID: "7", Total: 1}}, want: "transactions note", says: []string{"standby of pid 7", "hot_standby_feedback"}},
	} {
		f := judgeOpen(test.oldest, test.hidden, test.err)
		var wanted []string
		if test.want != "" {
			wanted = []string{test.want}
		}
		want(t, []doctor.Finding{f}, wanted...)
		for _, text := range test.says {
			if !strings.Contains(f.Saw+f.Remedy, text) {
				t.Errorf("got %q, %q, want that it says %q", f.Saw, f.Remedy, text)
			}
		}
	}
}

func TestMySQL(t *testing.T) {
	for change, wanted := range map[string][]string{
		"":                                 nil,
		"read_only=ON":                     {"writes danger"},
		"innodb_flush_log_at_trx_commit=2": {"durability warning"},
		"Threads_connected=140":            {"connections warning"},
		"sync_binlog=0":                    nil,
		"log_bin=ON sync_binlog=0":         {"durability warning", "replication note"},
		"log_bin=ON":                       {"replication note"},
		"log_bin=ON Rpl_semi_sync_source_status=ON":                          nil,
		"wsrep_on=ON wsrep_cluster_size=3 wsrep_cluster_status=Primary":      {"galera warning"},
		"wsrep_on=ON wsrep_cluster_size=1 wsrep_cluster_status=Disconnected": {"galera danger"},
	} {
		said := map[string]string{"read_only": "OFF", "innodb_flush_log_at_trx_commit": "1", "Threads_connected": "3", "max_connections": "151", "log_bin": "OFF", "sync_binlog": "1"}
		for pair := range strings.FieldsSeq(change) {
			name, value, _ := strings.Cut(pair, "=")
			said[name] = value
		}
		t.Run(cmp.Or(change, "good"), func(t *testing.T) { want(t, mysqlFindings(said), wanted...) })
	}
}

// A clock counts as wrong only if that is certain, however long the answer took.
func TestClock(t *testing.T) {
	for _, test := range []struct {
		ahead, takes time.Duration
		want         string
	}{
		{0, 0, ""},
		{900 * time.Millisecond, 0, ""},
		{-900 * time.Millisecond, 100 * time.Millisecond, ""},
		{1100 * time.Millisecond, 0, "clock warning"},
		{-90 * time.Second, 0, "clock warning"},
		{1400 * time.Millisecond, time.Second, ""}, // 1.4 s ± 0.5 s
		{1600 * time.Millisecond, time.Second, "clock warning"},
	} {
		synctest.Test(t, func(t *testing.T) {
			trips := 0
			f := clock(t.Context(), func(context.Context) (time.Time, error) {
				trips++
				takes := test.takes
				if trips != 3 {
					takes += 10 * time.Second // the quickest trip counts
				}
				time.Sleep(takes / 2)
				now := time.Now().Add(test.ahead)
				time.Sleep(takes / 2)
				return now, nil
			})
			var wanted []string
			if test.want != "" {
				wanted = []string{test.want}
			}
			want(t, []doctor.Finding{f}, wanted...)
			if text := fmt.Sprintf("the clock of the server is %v ", test.ahead.Abs()); !strings.HasPrefix(f.Saw, text) {
				t.Errorf("got %q, want %q", f.Saw, text)
			}
			if behind := strings.Contains(f.Saw, "behind the clock of this machine"); behind != (test.ahead < 0) {
				t.Errorf("got %q of a clock that is %v ahead", f.Saw, test.ahead)
			}
		})
	}
	want(t, []doctor.Finding{clock(t.Context(), func(context.Context) (time.Time, error) { return time.Time{}, errors.New("no") })}, "clock unknown")
}

func TestFencing(t *testing.T) {
	want(t, []doctor.Finding{fencing(true)})
	want(t, []doctor.Finding{fencing(false)}, "fencing note")
}

func TestLatency(t *testing.T) {
	o := &doctor.Options{TTL: 30 * time.Second, Margin: 3 * time.Second}
	want(t, []doctor.Finding{latency(10*time.Millisecond, o)})
	want(t, []doctor.Finding{latency(time.Second, o)}, "latency note")
	want(t, []doctor.Finding{latency(3*time.Second, o)}, "latency warning")
}

// docs/doctor.md has a row for each finding, and for no other.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Other stores")
	section, _, _ = strings.Cut(section, "## Findings")
	var documented, made []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, row[1])
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, id := range regexp.MustCompile(`(?:saw\(|members\(|const id = )"([a-z]+)"`).FindAllStringSubmatch(string(source), -1) {
			made = append(made, id[1])
		}
	}
	slices.Sort(documented)
	slices.Sort(made)
	if made = slices.Compact(made); !slices.Equal(documented, made) || len(made) < 15 {
		t.Errorf("got rows for %q\nwant rows for %q", documented, made)
	}
}

// A server that refuses to answer is no server that must be started.
func TestNoAnswer(t *testing.T) {
	for _, test := range []struct {
		err         error
		saw, remedy string
	}{
		{context.DeadlineExceeded, "does not answer", "start the server"},
		{rpctypes.ErrPermissionDenied, "refuses this user", "grant the permission"},
	} {
		if f := noAnswer(test.err); !strings.Contains(f.Saw, test.saw) || !strings.Contains(f.Remedy, test.remedy) || f.Severity != doctor.Warning {
			t.Errorf("%v: got %+v, want that it %s, and to %s", test.err, f, test.saw, test.remedy)
		}
	}
}
