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
	// Cmd is the program, which is running.
	Cmd *exec.Cmd

	t    testing.TB
	side *os.File // the person's
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
	c := &Console{Cmd: cmd, t: t, side: side}
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
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { _ = side.Close() })
	number := 0
	control(t, side, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	})
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return side, tty
}

// control calls do with the descriptor of f. It does not use f.Fd, which would disable the
// read deadlines.
func control(t testing.TB, f *os.File, do func(fd int) error) {
	t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
}

// Resize sets the width of the terminal.
func (c *Console) Resize(columns uint16) {
	c.t.Helper()
	control(c.t, c.side, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	})
}

// Await reads until text was shown, and returns all that was shown until then and
// was not returned before. After 20 s it fails t.
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
