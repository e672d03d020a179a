package procgroup

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// becomeRootVar makes the test binary a program that becomes another user, as sudo does.
const becomeRootVar = "PROCGROUP_TEST_BECOME_ROOT"

func becomeRoot() int {
	if err := syscall.Setresuid(0, 0, 0); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGUSR1)
	<-ended // SIGTERM and SIGKILL end it, too
	return 0
}

// A command that becomes another user cannot be stopped. The program is notified at the first
// signal, and the guard says so when the program is killed.
func TestCommandOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a program that becomes root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "procgroup") // that of t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, sudo := filepath.Join(dir, "program"), filepath.Join(dir, "sudo")
	for name, mode := range map[string]os.FileMode{program: 0o755, sudo: 0o755 | os.ModeSetuid} {
		content, err := os.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		write(t, name, string(content), 0o755)
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	out := newOutput(t)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "PROCGROUP_TEST_STOP=1",
		"PROCGROUP_TEST_SCRIPT=PROCGROUP_TEST_SCRIPT= "+becomeRootVar+"=1 exec "+sudo)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out.w, out.w, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.await("ready")
	if _, err := io.WriteString(stdin, "\n"); err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`denied: (\d+)\.`).FindStringSubmatch(out.await("."))
	if said == nil {
		t.Fatal("the program was not told")
	}
	pid, _ := strconv.Atoi(said[1])
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if text := out.await("cannot be killed, and goes on"); strings.Count(text, said[1]) != 1 {
		t.Errorf("the guard said %q, want the process %s", text, said[1])
	}
}
