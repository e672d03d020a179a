// Package procgroup runs a command so that no process of the command is left at the end.
//
// The command gets a process group of its own, which all its descendants share. The leader of
// that group is not the command but a guard: the calling program, executed a second time with a
// hidden argument. The guard starts before the command. It reads from a pipe whose writing end
// only the calling program has. When the calling program ends, also by SIGKILL or a crash, the
// pipe closes, and the guard kills the whole group. When the calling program is stopped and can
// no longer act, the guard kills the group at the last deadline that it got. The command is in
// the group from its first instruction, so every descendant starts in the group.
//
// A program that imports this package becomes a guard when it is started with the hidden
// argument: see package guard.
//
// # What is not promised
//
// A descendant that leaves the group on purpose, with setsid or setpgid (a daemon, or a job of
// an interactive shell), is not killed. A command or a descendant that runs as another user, as
// with sudo, is not killed either, because the system does not allow that. For the command
// itself, Command.Denied and the guard say so. If somebody kills both the guard and the
// calling program with SIGKILL, only the command itself is killed, and only on Linux: there the
// system kills it when its parent ends.
package procgroup

import (
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"syscall"
	"time"
)

// Command is what to run.
type Command struct {
	Path string   // the file to execute, as Find returned it
	Args []string // with the name of the command first, as exec.Cmd has it
	Env  []string // "NAME=value"; of several values for one name the last counts

	// The command gets an *os.File as it is. Any other stream is copied through a pipe. After
	// the end of the command the copying goes on for at most a second.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// When the command itself has ended, the processes that are left in its group get
	// StopSignal, and SIGKILL after KillAfter.
	StopSignal syscall.Signal
	KillAfter  time.Duration

	// KillBy is the time at which the guard kills the group, until Group.KillBy replaces it.
	KillBy time.Time

	// Denied is called when the command, whose process id it gets, runs as another user, so that
	// the system does not allow to signal it. It is called once, at the first signal.
	Denied func(pid int)

	// Suspended is called when the command was stopped. If `behind` is false, the reason was
	// Ctrl-Z, and the command has been continued, because it must not keep a lock while it is
	// stopped. If `behind` is true, the command wants to use a terminal that another program
	// has. The command is continued when the calling program is in the foreground.
	Suspended func(behind bool)
}

// Find returns the file of the command `name`. It searches PATH as a shell does. For an error of
// Find, StartCode returns the exit status.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) { // the user put "." into PATH, which shells accept
		err = nil
	}
	return path, err
}

// StartCode returns the status with which shells report that a command could not be started:
// 127 if it was not found, 126 if it cannot be executed, and 125 if the command is not the
// cause.
func StartCode(err error) int {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return 127
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOEXEC),
		errors.Is(err, syscall.E2BIG), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ETXTBSY):
		return 126
	default:
		return 125
	}
}
