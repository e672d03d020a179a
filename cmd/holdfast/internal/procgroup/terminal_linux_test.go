package procgroup

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// console is a pseudo-terminal with a program in its foreground.
type console struct {
	t    *testing.T
	side *os.File // the person's
	cmd  *exec.Cmd
	seen strings.Builder
}

// startOnConsole starts a program that runs script, in the foreground of a
// terminal of its own.
func startOnConsole(t *testing.T, script string) *console {
	t.Helper()
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { side.Close() })
	number := unlock(t, side)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	// The program shall not be the leader of the session, as it is none under a
	// login shell: the end of a leader hangs up the terminal for everybody.
	cmd := exec.Command("sh", "-c", `"$0"; echo "status $?"; read line; echo "shell read <$line>"`, os.Args[0])
	cmd.Env = append(os.Environ(), "PROCGROUP_TEST_SCRIPT="+script, "GORACE=atexit_sleep_ms=0")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &console{t: t, side: side, cmd: cmd}
}

// unlock makes the terminal's other side usable and returns its number. Method
// Fd would take the read deadlines away.
func unlock(t *testing.T, side *os.File) (number int) {
	t.Helper()
	raw, err := side.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed == nil {
			number, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return number
}

func (c *console) await(text string) {
	c.t.Helper()
	_ = c.side.SetReadDeadline(time.Now().Add(20 * time.Second))
	for !strings.Contains(c.seen.String(), text) {
		var b [256]byte
		n, err := c.side.Read(b[:])
		c.seen.Write(b[:n])
		if err != nil {
			c.t.Fatalf("waiting for %q: %v; saw %q", text, err, c.seen.String())
		}
	}
}

func (c *console) press(keys string) {
	c.t.Helper()
	if _, err := c.side.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

func TestCommandReadsTheTerminal(t *testing.T) {
	c := startOnConsole(t, `echo ready; read line; echo "read <$line>"; exit 3`)
	c.await("ready")
	c.press("hello\n")
	c.await("read <hello>")
	c.await("status 3")
	c.press("again\n")
	c.await("shell read <again>")
}

func TestInterruptKeyEndsTheCommand(t *testing.T) {
	c := startOnConsole(t, `trap 'echo interrupted; exit 4' INT; echo ready; while :; do sleep 0.02; done`)
	c.await("ready")
	c.press("\x03")
	c.await("interrupted")
	c.await("status 4")
	c.press("again\n")
	c.await("shell read <again>")
}

func TestSuspendKeyDoesNotStopTheCommand(t *testing.T) {
	c := startOnConsole(t, `echo ready; read line; echo "read <$line>"`)
	c.await("ready")
	c.press("\x1a")
	c.await("suspended")
	c.press("on\n")
	c.await("read <on>")
	c.await("status 0")
}
