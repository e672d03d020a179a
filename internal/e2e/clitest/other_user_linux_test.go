package clitest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// becomesRoot is a program that becomes root, as sudo does. Its argument is a file for its process
// ID. It runs until it is killed.
const becomesRoot = `package main

import (
	"os"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if err := syscall.Setresuid(0, 0, 0); err != nil {
		panic(err)
	}
	if err := os.WriteFile(os.Args[1]+".new", []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		panic(err)
	}
	if err := os.Rename(os.Args[1]+".new", os.Args[1]); err != nil {
		panic(err)
	}
	time.Sleep(time.Hour)
}
`

// A command that runs as another user cannot be stopped. Its lock is kept until it ends, also if
// holdfast is killed, or if the lock was lost.
func TestLockOfACommandOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a program that becomes root")
	}
	dir, err := os.MkdirTemp("", "holdfast") // that of t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // the other user writes there
		t.Fatal(err)
	}
	sudo := filepath.Join(dir, "sudo")
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(becomesRoot), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", sudo, source)
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GO111MODULE=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build a program that becomes root: %v: %s", err, out)
	}
	holdfast := filepath.Join(dir, "holdfast")
	content, err := os.ReadFile(must.Build(t))
	if err == nil {
		err = os.WriteFile(holdfast, content, 0o600)
	}
	for file, mode := range map[string]os.FileMode{holdfast: 0o755, sudo: 0o755 | os.ModeSetuid} {
		if err == nil {
			err = os.Chmod(file, mode)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t)
	for name, test := range map[string]func(*foreign, *testing.T){
		"Killed": (*foreign).killed, "Lost": (*foreign).lost, "NotRenewed": (*foreign).notRenewed,
	} {
		t.Run(name, func(t *testing.T) {
			s := &foreign{server: server.Bind(t), name: "job-" + name, holdfast: holdfast, stderr: filepath.Join(dir, name+".stderr")}
			if name == "NotRenewed" {
				s.flags = []string{"--no-renew", "-t", "4s"}
			}
			s.start(t, sudo, filepath.Join(dir, name+".pid"))
			test(s, t)
		})
	}
}

// foreign is "holdfast run" with a command of another user.
type foreign struct {
	server   *redistest.Server
	name     string // of the lock
	holdfast string // the program
	flags    []string
	stderr   string // the file to which it writes
	run      *exec.Cmd
	command  int // the process ID of the command
}

// start starts the program as an ordinary user, and waits until its command has become root.
func (s *foreign) start(t *testing.T, sudo, pidFile string) {
	t.Helper()
	stderr, err := os.Create(s.stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	s.run = exec.Command(s.holdfast, slices.Concat([]string{"run", "-t", "2s"}, s.flags, []string{s.name, "--", sudo, pidFile})...)
	s.run.Env, s.run.Dir, s.run.Stderr = append(os.Environ(), "HOLDFAST_URL=redis://"+s.server.Addr()), "/", stderr
	s.run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := s.run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.run.Process.Kill()
		_ = s.run.Wait()
	})
	await.Until(t, 20*time.Second, "the command has become root", func() bool {
		text, err := os.ReadFile(pidFile)
		s.command, _ = strconv.Atoi(string(text))
		return err == nil
	})
	t.Cleanup(s.end)
}

// kept waits until the program has a keeper.
func (s *foreign) kept(t *testing.T) {
	t.Helper()
	await.Until(t, 20*time.Second, "a guard, the command and a keeper run", func() bool { return len(childrenOf(s.run.Process.Pid)) == 3 })
}

// end kills the command.
func (s *foreign) end() { _ = syscall.Kill(s.command, syscall.SIGKILL) }

// childrenOf returns the process IDs of the children of a process.
func childrenOf(pid int) []string {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var all []string
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		all = append(all, strings.Fields(string(text))...)
	}
	return all
}

// says waits until the program, or what it started, has written a text.
func (s *foreign) says(t *testing.T, text string) {
	t.Helper()
	await.Until(t, 20*time.Second, text, func() bool {
		written, _ := os.ReadFile(s.stderr)
		return strings.Contains(string(written), text)
	})
}

// renewed waits until the lock was renewed twice.
func (s *foreign) renewed(t *testing.T) {
	t.Helper()
	renewals, last := 0, int64(0)
	await.Until(t, 20*time.Second, "two renewals", func() bool {
		left := s.server.Int("PTTL", s.name)
		if left > last {
			renewals++
		}
		last = left
		return renewals > 2 // the first is the one before the first look
	})
}

// next starts another program that wants the lock. It fails if the command runs beside it.
func (s *foreign) next(t *testing.T) func() {
	t.Helper()
	cmd := exec.Command(s.holdfast, "run", "-t", "2s", "-w", "60s", s.name, "--", "sh", "-c", fmt.Sprintf("! kill -0 %d", s.command))
	cmd.Env, cmd.Dir = append(os.Environ(), "HOLDFAST_URL=redis://"+s.server.Addr()), "/"
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the next holder: %v; %s", err, out.String())
		}
	}
}

// killed kills the program with SIGKILL. A keeper renews its lock until the command has ended.
func (s *foreign) killed(t *testing.T) {
	s.kept(t)
	owner := s.server.Strings("HKEYS", s.name)
	_ = s.run.Process.Kill()
	_ = s.run.Wait()
	s.says(t, "is kept until the command has ended")
	next := s.next(t)
	s.renewed(t)
	if now := s.server.Strings("HKEYS", s.name); len(now) != 1 || now[0] != owner[0] {
		t.Errorf("the lock has the owner %q, want %q", now, owner)
	}
	s.end()
	next()
}

// notRenewed kills a program that must not renew its lock. The lock ends with its lease, although
// the command goes on.
func (s *foreign) notRenewed(t *testing.T) {
	// The program looks at its command once a second, and at first the command is not yet root.
	await.Until(t, 20*time.Second, "the program has looked at its command", func() bool { return s.server.Int("PTTL", s.name) < 2500 })
	if children := childrenOf(s.run.Process.Pid); len(children) != 2 {
		t.Errorf("%d children run, want a guard and the command", len(children))
	}
	_ = s.run.Process.Kill()
	_ = s.run.Wait()
	await.Until(t, 20*time.Second, "the lease ends", func() bool { return s.server.Int("EXISTS", s.name) == 0 })
	if err := syscall.Kill(s.command, 0); err != nil {
		t.Errorf("the command: %v, want that it goes on", err)
	}
}

// lost deletes the lock. The program takes it again, and ends with the status of a loss.
func (s *foreign) lost(t *testing.T) {
	s.kept(t)
	s.server.Int("DEL", s.name)
	s.says(t, "runs as another user, so run cannot stop it")
	s.says(t, "is held again for the command that cannot be stopped")
	next := s.next(t)
	s.renewed(t)
	s.end()
	_ = s.run.Wait()
	if got := s.run.ProcessState.ExitCode(); got != 79 {
		t.Errorf("got status %d, want that of a loss", got)
	}
	next()
	if left := childrenOf(s.run.Process.Pid); len(left) > 0 {
		t.Errorf("the processes %q are left", left)
	}
}
