package storestest

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
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
			unwell{at.store, "down", fmt.Sprintf(at.url, "127.0.0.1:1"), "connection refused"},
			unwell{at.store, "another protocol", fmt.Sprintf(at.url, strings.TrimPrefix(web.URL, "http://")), `no |not `},
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
				if looks := u.state == "read-only" && !slices.Contains([]string{"run", "hold", "elect"}, command[0]); !looks && (status == 0 || !regexp.MustCompile(u.says).MatchString(said)) {
					t.Errorf("%s, %s: %s: got status %d after %v, want another and %q:\n%s", u.store, u.state, command, status, took, u.says, said)
				}
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
	cluster.Servers()[0].Kill()
	frozen.Pause()
	var replica string
	for _, s := range pair.Servers() {
		if strings.Contains(s.String("INFO", "replication"), "role:slave") {
			replica = s.Addr()
		}
	}
	go busy.Do("EVAL", "while true do end", "0")
	return []unwell{
		{"Redis", "frozen", "redis://" + frozen.Addr(), "not answer|no answer|timeout"},
		{"Redis", "wrong password", "redis://:wrong@" + secret.Addr(), "WRONGPASS|password"},
		{"Redis", "read-only", "redis://" + replica, "READONLY|replica"},
		{"Redis", "busy", "redis://" + busy.Addr(), "BUSY"},
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
	return []unwell{
		{"etcd", "frozen", "etcd://" + at(frozen), "not answer|no answer|timeout"},
		{"etcd", "wrong password", "etcd://root:wrong@" + at(secret), "password|authentication"},
		{"etcd", "no majority", "etcd://" + at(members[0]), "majority|leader|not answer|no answer"},
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
	return []unwell{
		{"ZooKeeper", "frozen", "zk://" + frozen.Addr(), "not answer|no answer|timeout"},
		{"ZooKeeper", "no majority", "zk://" + members[0].Addr(), "majority|leader|not answer|no answer"},
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
	return []unwell{
		{"PostgreSQL", "frozen", "postgres://test@" + frozen[0].Addr() + "/postgres" + plain, "not answer|no answer|timeout"},
		{"PostgreSQL", "unknown user", "postgres://nobody@" + pg.Addr() + "/postgres" + plain, `role "nobody" does not exist`},
		{"PostgreSQL", "read-only", "postgres://test@" + standby.Addr() + "/postgres" + plain, "read-only|standby|replica"},
		{"MySQL", "frozen", "mysql://test@" + frozen[1].Addr() + "/test", "not answer|no answer|timeout"},
		{"MySQL", "wrong password", "mysql://app:wrong@" + my.Addr() + "/test", "Access denied"},
		{"MySQL", "read-only", "mysql://app:secret@" + my.Addr() + "/test", "read-only"},
	}
}
