package storestest

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// unwell is a store that gives no locks.
type unwell struct {
	store, state, url string
	says              string // a regular expression: what every command says of it
	status            int    // the exit status of a command that asks for a lock
	looks             bool   // commands that only look may succeed
}

// TestUnwell runs every command on stores that give no locks. Each of them says why. With
// -v it prints a table of statuses and texts. It takes three minutes, so it asks for the
// larger form.
func TestUnwell(t *testing.T) {
	if !manytest.Full() {
		t.Skip("asks for HOLDFAST_LOAD=full")
	}
	binary, web := must.Build(t), httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	closing := must.Serve(t, func(net.Conn) {}) // it closes each connection
	all := slices.Concat(unwellRedis(t), unwellEtcd(t), unwellZooKeeper(t), unwellDatabases(t, binary))
	for _, at := range []struct{ store, url string }{
		{"Redis", "redis://%s"},
		{"etcd", "etcd://%s"},
		{"ZooKeeper", "zk://%s"},
		{"PostgreSQL", "postgres://test@%s/postgres?sslmode=disable"},
		{"MySQL", "mysql://test@%s/test"},
	} {
		all = append(
			all,
			unwell{at.store, "down", fmt.Sprintf(at.url, "127.0.0.1:1"), "connection refused", 69, false},
			unwell{at.store, "closed at once", fmt.Sprintf(at.url, closing), "closes it at once|closed", 69, false},
			unwell{at.store, "another protocol", fmt.Sprintf(at.url, strings.TrimPrefix(web.URL, "http://")), `no |not `, 69, false},
		)
	}
	commands := [][]string{
		{"run", "-n", "job", "--", "true"},
		{"run", "-w", "4s", "job", "--", "true"},
		{"hold", "-n", "job"},
		{"elect", "job", "--", "true"},
		{"ls"},
		{"status", "job"},
		{"inspect", "job"},
		{"status"},
		{"tail"},
		{"doctor"},
		{"serve", "--listen", "127.0.0.1:0"},
		{"force-unlock", "--yes", "--token", "1", "--reason", "why", "job"},
	}
	type row struct {
		unwell
		text string
	}
	var rows []row
	var mu sync.Mutex
	var group sync.WaitGroup
	some := make(chan struct{}, 8)
	for _, u := range all {
		for _, command := range commands {
			group.Go(func() {
				some <- struct{}{}
				defer func() { <-some }()
				status, took, said := ask(binary, u.url, command)
				mu.Lock()
				defer mu.Unlock()
				rows = append(rows, row{u, fmt.Sprintf("%s | %d | %.1f s | %s", strings.Join(command, " "), status, took.Seconds(), said)})
				u.check(t, command, status, took, said)
			})
		}
	}
	group.Wait()
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.store, b.store), cmp.Compare(a.state, b.state), cmp.Compare(a.text, b.text))
	})
	for _, r := range rows {
		t.Logf("%s | %s | %s", r.store, r.state, r.text)
	}
}

// check requires that a command has said what is wrong, with the right status and in time.
func (u *unwell) check(t *testing.T, command []string, status int, took time.Duration, said string) {
	t.Helper()
	takes := slices.Contains([]string{"run", "hold", "elect"}, command[0])
	switch {
	case takes && command[0] != "elect" && status != u.status,
		takes && status != -1 && status != u.status, // elect may go on
		!takes && !u.looks && status == 0 && command[0] != "doctor":
		t.Errorf("%s, %s: %s: got status %d after %v, want %d:\n%s", u.store, u.state, command, status, took, u.status, said)
	case (takes || !u.looks) && command[0] != "serve" && !regexp.MustCompile(u.says).MatchString(said):
		t.Errorf("%s, %s: %s: it does not say %q:\n%s", u.store, u.state, command, u.says, said)
	}
	const slow = time.Second // many commands run at the same time
	switch {
	case slices.Contains(command, "-w") && took > 4500*time.Millisecond+slow,
		slices.Contains(command, "-n") && took > 9500*time.Millisecond+slow:
		t.Errorf("%s, %s: %s took %v", u.store, u.state, command, took)
	}
}

// ask runs the tool for at most twelve seconds, which is longer than its own limits, and
// returns its exit status, -1 if it was still at work, and what it said.
func ask(binary, url string, args []string) (status int, took time.Duration, said string) {
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 3 * time.Second
	cmd.Env = append(os.Environ(), "HOLDFAST_URL="+url)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	began := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		status = -1
	case errors.As(err, &exit):
		status = exit.ExitCode()
	}
	return status, time.Since(began), strings.TrimSpace(text.String())
}

func unwellRedis(t *testing.T) []unwell {
	frozen, secret, busy := redistest.Start(t), redistest.Start(t, redistest.Password("secret")), redistest.Start(t)
	pair := redistest.StartDeployment(t, redistest.Replicated)
	cluster := redistest.StartDeployment(t, redistest.Cluster)
	for _, s := range cluster.Servers()[1:] {
		s.Kill()
	}
	frozen.Pause()
	var replica string
	for _, s := range pair.Servers() {
		if strings.Contains(s.String("INFO", "replication"), "role:slave") {
			replica = s.Addr()
		}
	}
	go busy.Do("EVAL", "while true do end", "0")
	full, noSaves, alone, denied := redistest.Start(t), redistest.Start(t), redistest.Start(t), redistest.Start(t)
	full.Do("CONFIG", "SET", "maxmemory", "1")
	noSaves.FailSaves()
	alone.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	denied.Do("ACL", "SETUSER", "default", "-evalsha", "-eval", "-scan", "-info")
	return []unwell{
		{"Redis", "full memory", "redis://" + full.Addr(), "OOM", 69, true},
		{"Redis", "full disk", "redis://" + noSaves.Addr(), "MISCONF", 69, true},
		{"Redis", "no replica", "redis://" + alone.Addr(), "NOREPLICAS", 69, true},
		{"Redis", "missing right", "redis://" + denied.Addr(), "NOPERM", 77, false},
		{"Redis", "no majority", "redis+cluster://" + cluster.Servers()[0].Addr(), "connection refused|CLUSTERDOWN", 69, false},
		{"Redis", "frozen", "redis://" + frozen.Addr(), "not answer|no answer|timeout", 69, false},
		{"Redis", "wrong password", "redis://:wrong@" + secret.Addr(), "WRONGPASS|password", 77, false},
		{"Redis", "read-only", "redis://" + replica, "READONLY|replica", 69, true},
		{"Redis", "busy", "redis://" + busy.Addr(), "BUSY", 69, false},
	}
}

func unwellEtcd(t *testing.T) []unwell {
	frozen, secret, members := etcdtest.Start(t), etcdtest.Start(t), etcdtest.StartCluster(t, 3)
	for _, m := range members[1:] {
		m.Kill()
	}
	if err := frozen.Pause(); err != nil {
		t.Fatal(err)
	}
	client, ctx := secret.Client(t), t.Context()
	_, err := client.UserAdd(ctx, "root", "secret")
	_, granted := client.UserGrantRole(ctx, "root", "root")
	_, enabled := client.AuthEnable(ctx)
	if err := errors.Join(err, granted, enabled); err != nil {
		t.Fatal(err)
	}
	at := func(s *etcdtest.Server) string { return strings.TrimPrefix(s.Addr(), "http://") }
	denied, full := etcdtest.Start(t), etcdtest.Start(t)
	open := denied.Client(t)
	_, first := open.UserAdd(ctx, "root", "secret")
	_, second := open.UserGrantRole(ctx, "root", "root")
	_, third := open.UserAdd(ctx, "app", "secret")
	_, fourth := open.AuthEnable(ctx)
	if err := errors.Join(first, second, third, fourth); err != nil {
		t.Fatal(err)
	}
	alarms := etcdserverpb.NewMaintenanceClient(full.Client(t).ActiveConnection())
	if _, err := alarms.Alarm(ctx, &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_NOSPACE}); err != nil {
		t.Fatal(err)
	}
	return []unwell{
		{"etcd", "full", "etcd://" + at(full), "quota|NOSPACE", 69, true},
		{"etcd", "missing right", "etcd://app:secret@" + at(denied), "permission denied", 77, false},
		{"etcd", "frozen", "etcd://" + at(frozen), "not answer|no answer|timeout", 69, false},
		{"etcd", "wrong password", "etcd://root:wrong@" + at(secret), "password|authentication", 77, false},
		{"etcd", "no majority", "etcd://" + at(members[0]), "majority|leader|not answer|no answer", 69, false},
	}
}

func unwellZooKeeper(t *testing.T) []unwell {
	frozen, members := zktest.Start(t), zktest.StartEnsemble(t, 3)
	for _, m := range members[1:] {
		m.Kill()
	}
	if err := frozen.Pause(); err != nil {
		t.Fatal(err)
	}
	login := zktest.StartWith(t, "enforce.auth.enabled=true", "enforce.auth.schemes=digest")
	denied := zktest.Start(t)
	if _, err := denied.Client(t).Create("/job", nil, 0, zk.DigestACL(zk.PermAll, "admin", "secret")); err != nil {
		t.Fatal(err)
	}
	return []unwell{
		{"ZooKeeper", "wrong password", "zk://" + login.Addr(), "demands a login", 77, false},
		{"ZooKeeper", "missing right", "zk://" + denied.Addr(), "does not let this client", 77, true},
		{"ZooKeeper", "frozen", "zk://" + frozen.Addr(), "not answer|no answer|timeout", 69, false},
		{"ZooKeeper", "no majority", "zk://" + members[0].Addr(), "majority|leader|not answer|no answer", 69, false},
	}
}

func unwellDatabases(t *testing.T, binary string) []unwell {
	pg := sqltest.Start(t, sqltest.RunPostgreSQL)
	ready := func(url string) {
		if status, _, said := ask(binary, url+"create=true", []string{"run", "-n", "job", "--", "true"}); status != 0 {
			t.Fatal(said)
		}
	}
	ready("postgres://test@" + pg.Addr() + "/postgres?sslmode=disable&")
	standby := pg.Standby(t, pg.Addr())
	my := sqltest.Start(t, sqltest.RunMariaDB, "--bind-address=127.0.0.1")
	frozen := []*sqltest.Server{sqltest.Start(t, sqltest.RunPostgreSQL), sqltest.Start(t, sqltest.RunMariaDB)}
	for _, s := range frozen {
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Resume() })
	}
	db, err := sql.Open(my.Driver, my.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{"CREATE USER app IDENTIFIED BY 'secret'", "GRANT ALL ON test.* TO app", "SET GLOBAL read_only = ON"} {
		if strings.HasPrefix(statement, "SET") {
			ready("mysql://app:secret@" + my.Addr() + "/test?")
		}
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	const plain = "?sslmode=disable"
	exec := func(driver, name string, statements ...string) {
		t.Helper()
		db, err := sql.Open(driver, name)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, statement := range statements {
			if _, err := db.Exec(statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	// A trigger answers as a full disk does.
	pgFull, myFull := sqltest.Start(t, sqltest.RunPostgreSQL), sqltest.Start(t, sqltest.RunMariaDB, "--bind-address=127.0.0.1")
	ready("postgres://test@" + pgFull.Addr() + "/postgres?sslmode=disable&")
	exec(pgFull.Driver, pgFull.Name, "CREATE ROLE app LOGIN",
		"CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'could not extend file' USING ERRCODE = '53100'; END $$",
		"CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON holdfast_locks EXECUTE FUNCTION full_disk()")
	ready("mysql://root@" + myFull.Addr() + "/test?")
	exec(myFull.Driver, myFull.Name, "CREATE USER nobody", "GRANT SELECT ON test.* TO nobody",
		"CREATE TRIGGER full_disk BEFORE INSERT ON holdfast_locks FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'",
		"CREATE TRIGGER full_update BEFORE UPDATE ON holdfast_locks FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'")
	down := sqltest.Start(t, sqltest.RunPostgreSQL)
	_, pooled := sqltest.StartPgBouncer(t, down.Name)
	down.Kill()
	return []unwell{
		{"PostgreSQL", "full", "postgres://test@" + pgFull.Addr() + "/postgres" + plain, "could not extend file", 69, true},
		{"PostgreSQL", "missing right", "postgres://app@" + pgFull.Addr() + "/postgres" + plain, "permission denied", 77, false},
		{"PostgreSQL", "a pooler without its server", pooled, "server login|timeout", 69, false},
		{"MySQL", "full", "mysql://root@" + myFull.Addr() + "/test", "is full", 69, true},
		{"MySQL", "missing right", "mysql://nobody@" + myFull.Addr() + "/test", "denied", 77, true},
		{"PostgreSQL", "frozen", "postgres://test@" + frozen[0].Addr() + "/postgres" + plain, "not answer|no answer|timeout", 69, false},
		{"PostgreSQL", "unknown user", "postgres://nobody@" + pg.Addr() + "/postgres" + plain, `role "nobody" does not exist`, 77, false},
		{"PostgreSQL", "read-only", "postgres://test@" + standby.Addr() + "/postgres" + plain, "read-only|standby|replica", 69, true},
		{"MySQL", "frozen", "mysql://test@" + frozen[1].Addr() + "/test", "not answer|no answer|timeout", 69, false},
		{"MySQL", "wrong password", "mysql://app:wrong@" + my.Addr() + "/test", "Access denied", 77, false},
		{"MySQL", "read-only", "mysql://app:secret@" + my.Addr() + "/test", "read-only", 69, true},
	}
}
