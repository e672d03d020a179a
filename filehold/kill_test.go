//go:build linux

package filehold_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/filehold"
	"github.com/holdfast-go/holdfast/internal/await"
)

// workIn is the variable of the environment that makes this program a worker in a folder.
const workIn = "HOLDFAST_TEST_FOLDER"

// lease is the TTL of the workers: so long does a killed one keep the lock.
const lease = 300 * time.Millisecond

// holdIn is the variable that makes this program take one lock, with a long lease, and say so.
const holdIn = "HOLDFAST_TEST_HOLD"

func TestMain(m *testing.M) {
	if folder := os.Getenv(holdIn); folder != "" {
		if err := hold(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		select {}
	}
	if folder := os.Getenv(workIn); folder != "" {
		if err := work(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// work takes the lock again and again, until the process is killed. With the lock it writes two lines to
// a log: its token when it begins, and when it ends.
func work(folder string) error {
	b, err := filehold.Open(folder, filehold.Options{})
	if err != nil {
		return err
	}
	log, err := os.OpenFile(folder+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	mutex := holdfast.New(b, &holdfast.Options{TTL: lease}).Mutex("job")
	for {
		lock, err := mutex.Lock(context.Background())
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(log, "begin %d\n", lock.Token()); err != nil {
			return err
		}
		if lock.Err() == nil {
			if _, err := fmt.Fprintf(log, "end %d\n", lock.Token()); err != nil {
				return err
			}
		}
		if err := lock.Unlock(); err != nil && !errors.Is(err, holdfast.ErrLost) {
			return err
		}
	}
}

// workFor starts a process that works, and kills it after some time. It returns what the process has
// written as an error.
func workFor(folder string, d time.Duration) (string, error) {
	var text strings.Builder
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), workIn+"="+folder)
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		return "", err
	}
	time.Sleep(d)
	err := cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	return text.String(), err
}

// Processes that are killed at any instruction leave a folder that works. Tokens rise, no turn begins
// while another one goes on, and no file is left over but of the last kills.
func TestKilledProcesses(t *testing.T) {
	const processes = 4
	kills := 60
	if testing.Short() {
		kills = 15
	}
	folder := filepath.Join(t.TempDir(), "locks")
	if _, err := filehold.Open(folder, filehold.Options{}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			for range kills / processes {
				text, err := workFor(folder, 20*time.Millisecond+rand.N(200*time.Millisecond))
				if err != nil || text != "" {
					t.Errorf("a worker: %v %s", err, text)
				}
			}
		})
	}
	all.Wait()
	checkTurns(t, folder+".log")
	mutex := holdfast.New(openAt(t, folder), nil).Mutex("job")
	for range 20 {
		lock, err := mutex.Lock(await.Context(t, time.Minute))
		if err != nil {
			t.Fatalf("after all: %v", err)
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	}
	left, err := os.ReadDir(filepath.Join(folder, "new"))
	if err != nil || len(left) > kills {
		t.Errorf("got %d files left and error %v", len(left), err)
	}
}

// checkTurns checks the log of the workers: a turn may lack its end, because its process was killed,
// but nobody else has a turn within it.
func checkTurns(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	turns, highest, open := 0, uint64(0), uint64(0)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		what, text, _ := strings.Cut(lines.Text(), " ")
		token, err := strconv.ParseUint(text, 10, 64)
		switch {
		case err != nil:
			t.Errorf("line %q: %v", lines.Text(), err)
		case what == "begin" && token <= highest:
			t.Errorf("token %d after %d", token, highest)
		case what == "begin":
			highest, open = token, token
			turns++
		case token != open:
			t.Errorf("the turn with token %d ends within that of %d", token, open)
		}
	}
	t.Logf("%d turns", turns)
	if turns == 0 {
		t.Error("no process got the lock")
	}
}

// hold takes a mutex, a permit and a place in a queue, with a long lease.
func hold(folder string) error {
	b, err := filehold.Open(folder, filehold.Options{})
	if err != nil {
		return err
	}
	locker := holdfast.New(b, &holdfast.Options{TTL: time.Hour})
	if _, err := locker.Mutex("mutex").Lock(context.Background()); err != nil {
		return err
	}
	if _, err := locker.Semaphore("permit", 1).Acquire(context.Background()); err != nil {
		return err
	}
	_, err = fmt.Println("holds")
	return err
}

// The locks of a process that was killed are free at once, although their leases last for an hour. A
// process that is stopped keeps them.
func TestKilledHolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "locks")
	b := openAt(t, folder)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), holdIn+"="+folder)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it was killed before, unless the test has failed
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "holds\n" {
		t.Fatalf("got %q and error %v", line, err)
	}
	locker := holdfast.New(b, nil)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := locker.Mutex("mutex").TryLock(t.Context()); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("beside a holder that is stopped: got %v, want ErrBusy", err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := locker.Semaphore("permit", 1).Acquire(await.Context(t, time.Minute))
		waited <- err
	}()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	if err := <-waited; err != nil {
		t.Errorf("a waiter: %v after %v", err, time.Since(killed))
	}
	if _, err := locker.Mutex("mutex").TryLock(t.Context()); err != nil {
		t.Errorf("TryLock after the end of the holder: %v", err)
	}
}
