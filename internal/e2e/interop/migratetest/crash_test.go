package migratetest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/mysqlhold"
	"github.com/holdfast-go/holdfast/pghold"
)

// holderVar is the holder that a process is, until its input ends.
const holderVar = "HOLDFAST_E2E_MIGRATE"

// prompt bounds how long after a crash a waiter holds the lock: the server sees the
// connection close, and who polls asks once a second at least. The rest is for a busy
// machine.
const prompt = 5 * time.Second

// holder is a program that holds a lock: a tool, pghold or mysqlhold.
type holder struct {
	who, url string
	key      string // of the lock; the tools know it
}

// start returns the process that holds.
func (h holder) start(t *testing.T) *os.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderVar+"="+strings.Join([]string{h.who, h.url, h.key}, " "))
	if _, err := cmd.StdinPipe(); err != nil { // which keeps it alive
		t.Fatal(err)
	}
	out := sessiontest.StartProgram(t, cmd)
	if said, err := out.ReadString('\n'); err != nil || said != "held\n" {
		rest, _ := io.ReadAll(out)
		t.Fatalf("%s: got %q, %v, want that it holds\n%s", h.who, said, err, rest)
	}
	return cmd.Process
}

// hold is what the process does.
func hold(arg string) error {
	f := strings.SplitN(arg, " ", 3)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	l, err := holder{f[0], f[1], f[2]}.lock(ctx)
	if err != nil {
		return err
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return l.Unlock()
}

func (h holder) lock(ctx context.Context) (unlocker, error) {
	switch h.who {
	case "pghold":
		config, err := pgx.ParseConfig(h.url)
		if err != nil {
			return nil, err
		}
		id, err := strconv.ParseInt(h.key, 10, 64)
		if err != nil {
			return nil, err
		}
		return pghold.LockAdvisory(ctx, config, id)
	case "mysqlhold":
		config, err := mysql.ParseDSN(h.url)
		if err != nil {
			return nil, err
		}
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return nil, err
		}
		return mysqlhold.LockAdvisory(ctx, connector, h.key)
	default:
		return toolOf(h.who, h.url).lock(ctx)
	}
}

// theyDie kills a process of the tool while ours waits.
func theyDie(t *testing.T, s *side) {
	process := s.theirs.start(t)
	s.mustBeBusy(t)
	type outcome struct {
		lock advisoryLock
		err  error
	}
	locked := make(chan outcome, 1)
	go func() {
		l, err := s.lock(await.Context(t, timeout))
		locked <- outcome{l, err}
	}()
	await.Never(t, 300*time.Millisecond, "granted beside theirs", func() bool { return len(locked) > 0 })
	killed := kill(t, process)
	got := <-locked
	if got.err != nil {
		t.Fatal(got.err)
	}
	inTime(t, killed)
	mustUnlock(t, got.lock)
}

// weDie kills a process of ours while a migration waits.
func weDie(t *testing.T, s *side) {
	process := s.ours.start(t)
	migrated := s.migrate("SELECT 1;")
	await.Until(t, timeout, "they ask for the lock", s.asks)
	await.Never(t, 300*time.Millisecond, "they migrate beside ours", func() bool { return len(migrated) > 0 })
	killed := kill(t, process)
	if err := <-migrated; err != nil {
		t.Error(err)
	}
	inTime(t, killed)
}

func kill(t *testing.T, p *os.Process) (killed time.Time) {
	t.Helper()
	killed = time.Now()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	return killed
}

func inTime(t *testing.T, killed time.Time) {
	t.Helper()
	took := time.Since(killed)
	t.Logf("granted after %v", took)
	if took > prompt {
		t.Errorf("granted %v after the crash, want %v at most", took, prompt)
	}
}
