package pgtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/child"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// workerTTL is the lease of worker processes.
const workerTTL = 2 * time.Second

// work is what a worker process does, until its input ends.
func work(job, url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	b := pghold.New(pool, &pghold.Options{Listen: pool.Config().ConnConfig})
	locker := holdfast.New(b, &holdfast.Options{TTL: workerTTL})
	if job == "hold" {
		return hold(ctx, locker)
	}
	return count(ctx, locker, url)
}

// hold holds a lock until it is lost, or the input ends.
func hold(ctx context.Context, locker *holdfast.Locker) error {
	lock, err := locker.Lock(ctx, "job")
	if err != nil {
		return err
	}
	fmt.Println("held")
	<-lock.Context(ctx).Done()
	fmt.Println("lost", lock.Err() != nil)
	return nil
}

// count raises a number that the lock protects, in two statements, and prints how often.
// The first of them also refuses a token that is not larger than the one before.
func count(ctx context.Context, locker *holdfast.Locker, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	raised := 0
	fmt.Println("ready")
	for ctx.Err() == nil {
		lock, err := locker.Lock(ctx, "job")
		if err != nil {
			break // the input has ended
		}
		var n int
		hold := context.WithoutCancel(ctx)
		if err := conn.QueryRow(hold, "UPDATE counters SET token = $1 WHERE token < $1 RETURNING n", int64(lock.Token())).Scan(&n); err != nil {
			return fmt.Errorf("token %d is not larger than the one before: %w", lock.Token(), err)
		}
		if _, err := conn.Exec(hold, "UPDATE counters SET n = $1", n+1); err != nil {
			return err
		}
		raised++
		if err := lock.Unlock(); err != nil {
			return err
		}
	}
	fmt.Println("raised", raised)
	return nil
}

// worker is a process with a job.
type worker struct {
	cmd   *exec.Cmd
	stop  io.Closer // its input
	lines chan string
	done  <-chan struct{}
}

func startWorker(t *testing.T, job, url string) *worker {
	t.Helper()
	w := &worker{cmd: exec.Command(os.Args[0]), lines: make(chan string, 10)}
	w.cmd.Env = append(os.Environ(), workerVar+"="+job, databaseVar+"="+url)
	w.cmd.Stderr = os.Stderr
	in, err := w.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.stop = in
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.done, err = child.Start(w.cmd, func() {
		defer close(w.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.lines <- lines.Text()
		}
		_ = w.cmd.Wait() // what it says counts
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		for range w.lines {
			continue
		}
		<-w.done
	})
	return w
}

// says returns the next line, which must begin with want.
func (w *worker) says(t *testing.T, want string) string {
	t.Helper()
	select {
	case line, ok := <-w.lines:
		if !ok || !strings.HasPrefix(line, want) {
			t.Fatalf("the worker said %q, want %q", line, want)
		}
		return strings.TrimSpace(strings.TrimPrefix(line, want))
	case <-time.After(20 * time.Second):
		t.Fatalf("the worker says nothing, want %q", want)
		return ""
	}
}

// TestProcesses has processes raise a number that a lock protects.
func TestProcesses(t *testing.T) {
	server, admin := start(t)
	url := database(t, server, admin)
	sqltest.Prepared(t, pghold.New(newPool(t, url), nil))
	db := newDB(t, url)
	if _, err := db.Exec("CREATE TABLE counters AS SELECT 0 AS n, 0::bigint AS token"); err != nil {
		t.Fatal(err)
	}
	workers := []*worker{startWorker(t, "count", url), startWorker(t, "count", url), startWorker(t, "count", url)}
	for _, w := range workers {
		w.says(t, "ready")
	}
	await.Until(t, 20*time.Second, "the number is raised 300 times", func() bool {
		var n int
		_ = db.QueryRow("SELECT n FROM counters").Scan(&n)
		return n >= 300
	})
	all := 0
	for i, w := range workers {
		_ = w.stop.Close()
		n, err := strconv.Atoi(w.says(t, "raised"))
		if err != nil || n == 0 {
			t.Errorf("process %d raised the number %d times, error %v", i, n, err)
		}
		all += n
	}
	var n int
	if err := db.QueryRow("SELECT n FROM counters").Scan(&n); err != nil || n != all {
		t.Errorf("the number is %d, error %v; the processes raised it %d times", n, err, all)
	}
}

// TestDeadHolder has a process die, or stand still, while it holds: the name is free
// within its lease and a second, and who stood still knows at once that it is over.
func TestDeadHolder(t *testing.T) {
	server, admin := start(t)
	url := database(t, server, admin)
	b := sqltest.Prepared(t, pghold.New(newPool(t, url), listening(t, url)))
	locker := holdfast.New(b, nil)
	for what, signal := range map[string]syscall.Signal{"dead": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(what, func(t *testing.T) {
			w := startWorker(t, "hold", url)
			w.says(t, "held")
			began := time.Now()
			if err := w.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			lock, err := locker.Lock(await.Context(t, 20*time.Second), "job")
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			t.Logf("free after %v", took.Round(time.Millisecond))
			if took > workerTTL+time.Second {
				t.Errorf("the name was free %v after its holder was %s, want at most %v", took, what, workerTTL+time.Second)
			}
			if signal == syscall.SIGSTOP {
				if err := w.cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				if w.says(t, "lost") != "true" {
					t.Error("who stood still believes that it holds")
				}
			}
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}
