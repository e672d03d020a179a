//go:build unix

package procgroup

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal while a group may be in its foreground.
type terminal struct {
	fd     int            // -1 if there is no terminal
	pgid   int            // of the group
	signal chan os.Signal // gets SIGCHLD when the command was stopped, and SIGCONT when this program continues
}

// takeTerminal puts the group into the foreground if stdin is a terminal and this program is
// in the foreground. A command can read the terminal and get Ctrl-C only in the foreground.
// takeTerminal must be called before the command starts, when this program can still change the
// foreground without being stopped.
func takeTerminal(stdin io.Reader, pgid int) *terminal {
	t := &terminal{fd: -1, pgid: pgid, signal: make(chan os.Signal, 1)}
	file, ok := stdin.(*os.File)
	if !ok {
		return t
	}
	fd := int(file.Fd())
	if _, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil {
		return t // no terminal, or not our controlling terminal
	}
	t.fd = fd
	signal.Notify(t.signal, syscall.SIGCHLD, syscall.SIGCONT)
	t.passOn()
	return t
}

// passOn puts the group into the foreground if this program is in the foreground.
func (t *terminal) passOn() {
	if t.isFront(syscall.Getpgrp()) {
		t.putFront(t.pgid)
	}
}

// giveBack puts this program into the foreground again if the group is in the foreground. It
// also closes the channel t.signal.
func (t *terminal) giveBack() {
	signal.Stop(t.signal)
	close(t.signal)
	if !t.isFront(t.pgid) {
		return
	}
	// A program in the background is stopped when it calls putFront, unless it ignores SIGTTOU.
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	t.putFront(syscall.Getpgrp())
}

// isFront reports whether the process group is in the foreground. Without a terminal, it
// returns false.
func (t *terminal) isFront(group int) bool {
	current, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && current == group
}

func (t *terminal) putFront(group int) { _ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) }
