// Package console runs programs in a pseudo-terminal, for tests of what a person does at a
// terminal. It is for Linux.
package console

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

// timeout is how long Await waits.
const timeout = 20 * time.Second

// Console is a pseudo-terminal with a program in its foreground. The methods do what a person
// at the terminal does.
type Console struct {
	t    testing.TB
	side *os.File // the side of the person
	seen strings.Builder
}

// Start starts cmd in a new terminal of the given width, as the leader of its session. The
// standard streams of cmd must not be set. cmd is killed when t ends. If the system has no
// pseudo-terminals, t is skipped.
//
// To test a program as it runs under a login shell, let cmd be a shell that runs it: when the
// leader of a session ends, the system closes the terminal for all processes.
func Start(t testing.TB, columns uint16, cmd *exec.Cmd) *Console {
	t.Helper()
	side, tty := Open(t)
	defer func() { _ = tty.Close() }()
	c := &Console{t: t, side: side}
	c.Resize(columns)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return c
}

// Open returns both sides of a terminal: that of the person and that of the program. They are
// closed when t ends. If the system has no pseudo-terminals, t is skipped.
func Open(t testing.TB) (side, tty *os.File) {
	t.Helper()
	// After a call of Fd, a file of os.OpenFile would have no read deadlines any more.
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	side = os.NewFile(uintptr(fd), "/dev/ptmx")
	t.Cleanup(func() { _ = side.Close() })
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return side, tty
}

// Resize sets the width of the terminal.
func (c *Console) Resize(columns uint16) {
	c.t.Helper()
	size := &unix.Winsize{Row: 24, Col: columns}
	if err := unix.IoctlSetWinsize(int(c.side.Fd()), unix.TIOCSWINSZ, size); err != nil {
		c.t.Fatal(err)
	}
}

// Await reads until the terminal has shown `text`. It returns what the terminal has shown since
// the last Await, up to the end of `text`. If that takes more than 20 s, the test fails.
func (c *Console) Await(text string) string {
	c.t.Helper()
	_ = c.side.SetReadDeadline(time.Now().Add(timeout))
	for {
		all := c.seen.String()
		if at := strings.Index(all, text); at >= 0 {
			end := at + len(text)
			c.seen.Reset()
			c.seen.WriteString(all[end:])
			return all[:end]
		}
		var b [256]byte
		n, err := c.side.Read(b[:])
		c.seen.Write(b[:n])
		if err != nil {
			c.t.Fatalf("waiting for %q: %v; saw %q", text, err, c.seen.String())
		}
	}
}

// Press types keys, which may be control characters.
func (c *Console) Press(keys string) {
	c.t.Helper()
	if _, err := c.side.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}
