package etcdholdtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
)

// mutexVar makes a process one that holds a Mutex until it is killed: the address of the
// server, and the name.
const mutexVar = "HOLDFAST_TEST_MUTEX"

// holdMutex is what that process does.
func holdMutex(addr, name string) error {
	client, err := dialQuietly(addr)
	if err != nil {
		return err
	}
	s, err := concurrency.NewSession(client, concurrency.WithTTL(2))
	if err != nil {
		return err
	}
	if err := concurrency.NewMutex(s, name).Lock(context.Background()); err != nil {
		return err
	}
	fmt.Println("held")
	<-s.Done()
	return errors.New("the session is over")
}

// What a killed program holds goes to a program that waits when its lease ends: from ours
// to one of another library, or the other way.
func TestCrashFrees(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		start func(t *testing.T, name string) *exec.Cmd // returns a process that holds
		wait  func(t *testing.T, name string) <-chan error
	}{
		{"ours for a Mutex", startOurs, waitWithMutex},
		{"ours for etcdctl", startOurs, waitWithEtcdctl},
		{"a Mutex for ours", startMutex, waitWithOurs},
		{"etcdctl for ours", startEtcdctl, waitWithOurs},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			holder := c.start(t, name(t))
			granted := c.wait(t, name(t))
			waitsIn(t, name(t), 2)
			await.Never(t, 100*time.Millisecond, "granted beside the holder", func() bool { return len(granted) > 0 })
			killed := time.Now()
			if err := holder.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := <-granted; err != nil {
				t.Fatal(err)
			}
			took, most := time.Since(killed), 2*shortest+time.Second
			t.Logf("free after %v", took)
			if took > most {
				t.Errorf("free after %v, want %v at most", took, most)
			}
		})
	}
}

func startOurs(t *testing.T, name string) *exec.Cmd {
	return sessiontest.StartHolder(t, sessiontest.Mutex, name)
}

func startMutex(t *testing.T, name string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), mutexVar+"="+server.Addr()+" "+name)
	return said(t, cmd, "held")
}

func startEtcdctl(t *testing.T, name string) *exec.Cmd {
	return said(t, server.Control(t, "lock", "--ttl=2", name), name+"/")
}

// said starts cmd, and returns it when it has printed a line that begins so.
func said(t *testing.T, cmd *exec.Cmd, begin string) *exec.Cmd {
	t.Helper()
	line, err := sessiontest.StartProgram(t, cmd).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, begin) {
		t.Fatalf("%s: got %q, %v, want %q", cmd.Path, line, err, begin)
	}
	return cmd
}

func waitWithOurs(t *testing.T, name string) <-chan error { return waitWith(t, locker(t), name) }

func waitWith(t *testing.T, l *holdfast.Locker, name string) <-chan error {
	ctx, granted := within(t), make(chan error, 1)
	go func() {
		lock, err := l.Lock(ctx, name)
		if err == nil {
			err = lock.Unlock()
		}
		granted <- err
	}()
	return granted
}

func waitWithMutex(t *testing.T, name string) <-chan error {
	m, _ := mutex(t, name, 5)
	ctx, granted := within(t), make(chan error, 1)
	go func() { granted <- m.Lock(ctx) }()
	return granted
}

func waitWithEtcdctl(t *testing.T, name string) <-chan error {
	ctl := server.Control(t, "lock", "--ttl=5", name, "echo", "it runs")
	out, granted := sessiontest.StartProgram(t, ctl), make(chan error, 1)
	go func() {
		line, err := out.ReadString('\n')
		if err == nil && !strings.Contains(line, "it runs") {
			err = fmt.Errorf("etcdctl lock: got %q, want that it runs", line)
		}
		granted <- err
	}()
	return granted
}
