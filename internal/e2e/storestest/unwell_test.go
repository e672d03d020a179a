package storestest

import (
	"bytes"
	"cmp"
	"context"
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

	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// unwell is a store that gives no locks.
type unwell struct {
	store string
	anystore.Unwell
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
	var all []unwell
	add := func(store string, url func(addr string) string, states ...anystore.Unwell) {
		states = append(
			states,
			anystore.Unwell{State: "down", URL: url("127.0.0.1:1"), Says: "connection refused", Status: 69},
			anystore.Unwell{State: "closed at once", URL: url(closing), Says: "closes it at once|closed", Status: 69},
			anystore.Unwell{State: "another protocol", URL: url(strings.TrimPrefix(web.URL, "http://")), Says: `no |not `, Status: 69},
		)
		for _, s := range states {
			all = append(all, unwell{store, s})
		}
	}
	add("Redis", func(addr string) string { return "redis://" + addr }, unwellRedis(t)...)
	for _, k := range anystore.Unlike() {
		if k.Unwell == nil {
			continue
		}
		add(k.Command, k.URL, k.Unwell(t, func(url string) {
			if status, _, said := ask(binary, url, []string{"run", "-n", "job", "--", "true"}); status != 0 {
				t.Fatal(said)
			}
		})...)
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
				status, took, said := ask(binary, u.URL, command)
				mu.Lock()
				defer mu.Unlock()
				rows = append(rows, row{u, fmt.Sprintf("%s | %d | %.1f s | %s", strings.Join(command, " "), status, took.Seconds(), said)})
				u.check(t, command, status, took, said)
			})
		}
	}
	group.Wait()
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.store, b.store), cmp.Compare(a.State, b.State), cmp.Compare(a.text, b.text))
	})
	for _, r := range rows {
		t.Logf("%s | %s | %s", r.store, r.State, r.text)
	}
}

// check requires that a command has said what is wrong, with the right status and in time.
func (u *unwell) check(t *testing.T, command []string, status int, took time.Duration, said string) {
	t.Helper()
	takes := slices.Contains([]string{"run", "hold", "elect"}, command[0])
	switch {
	case takes && command[0] != "elect" && status != u.Status,
		takes && status != -1 && status != u.Status, // elect may go on
		!takes && !u.Looks && status == 0 && command[0] != "doctor":
		t.Errorf("%s, %s: %s: got status %d after %v, want %d:\n%s", u.store, u.State, command, status, took, u.Status, said)
	case (takes || !u.Looks) && command[0] != "serve" && !regexp.MustCompile(u.Says).MatchString(said):
		t.Errorf("%s, %s: %s: it does not say %q:\n%s", u.store, u.State, command, u.Says, said)
	}
	const slow = time.Second // many commands run at the same time
	switch {
	case slices.Contains(command, "-w") && took > 4500*time.Millisecond+slow,
		slices.Contains(command, "-n") && took > 9500*time.Millisecond+slow:
		t.Errorf("%s, %s: %s took %v", u.store, u.State, command, took)
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

func unwellRedis(t *testing.T) []anystore.Unwell {
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
	return []anystore.Unwell{
		{State: "full memory", URL: "redis://" + full.Addr(), Says: "OOM", Status: 69, Looks: true},
		{State: "full disk", URL: "redis://" + noSaves.Addr(), Says: "MISCONF", Status: 69, Looks: true},
		{State: "no replica", URL: "redis://" + alone.Addr(), Says: "NOREPLICAS", Status: 69, Looks: true},
		{State: "missing right", URL: "redis://" + denied.Addr(), Says: "NOPERM", Status: 77},
		{State: "no majority", URL: "redis+cluster://" + cluster.Servers()[0].Addr(), Says: "connection refused|CLUSTERDOWN", Status: 69},
		{State: "frozen", URL: "redis://" + frozen.Addr(), Says: "not answer|no answer|timeout", Status: 69},
		{State: "wrong password", URL: "redis://:wrong@" + secret.Addr(), Says: "WRONGPASS|password", Status: 77},
		{State: "read-only", URL: "redis://" + replica, Says: "READONLY|replica", Status: 69, Looks: true},
		{State: "busy", URL: "redis://" + busy.Addr(), Says: "BUSY", Status: 69},
	}
}
