//go:build unix

package procgroup

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the controlling terminal while a group may be in its foreground. A nil
// *terminal means that there is no terminal.
type terminal struct {
	file   *os.File
	fd     int
	pgid   int            // of the group
	signal chan os.Signal // the command was stopped, or this program continued
}

// takeTerminal puts the group into the foreground if stdin is a terminal and this program is
// in the foreground. Only in the foreground can the command read the terminal and get Ctrl-C.
// takeTerminal must be called before the command starts, while this program can still do it
// without being stopped.
func takeTerminal(stdin io.Reader, pgid int) *terminal {
	file, ok := stdin.(*os.File)
	if !ok {
		return nil
	}
	fd := int(file.Fd())
	if !term.IsTerminal(fd) {
		return nil
	}
	if _, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil {
		return nil // not our controlling terminal
	}
	t := &terminal{file: file, fd: fd, pgid: pgid, signal: make(chan os.Signal, 1)}
	signal.Notify(t.signal, syscall.SIGCHLD, syscall.SIGCONT)
	t.passOn()
	return t
}

func (t *terminal) changes() <-chan os.Signal {
	if t == nil {
		return nil
	}
	return t.signal
}

// passOn puts the group into the foreground if this program is there.
func (t *terminal) passOn() {
	own := syscall.Getpgrp()
	if current, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err != nil || current != own {
		return
	}
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.pgid)
}

// giveBack puts this program into the foreground again if the group is there.
func (t *terminal) giveBack() {
	if t == nil {
		return
	}
	signal.Stop(t.signal)
	if current, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err != nil || current != t.pgid {
		return
	}
	// A program in the background is stopped when it does this, unless it
	// ignores the signal.
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, syscall.Getpgrp())
}

// foreground reports whether the group is in the foreground.
func (t *terminal) foreground() bool {
	current, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && current == t.pgid
}
