package procgroup

import (
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"syscall"
	"time"
)

// ErrUnsupported says that this system has no process groups.
var ErrUnsupported = errors.New("running a command under a lock is not supported on this system")

// Command is what to run.
type Command struct {
	Path string   // the file to execute, as Find returned it
	Args []string // with the name of the command first, as exec.Cmd has it
	Env  []string // "NAME=value"; of several values for one name the last counts

	// The command gets an *os.File as it is. Any other stream is copied through a pipe. After
	// the end of the command that goes on for at most a second.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// When the command itself has ended, the processes that are left in its group get
	// StopSignal, and SIGKILL after KillAfter.
	StopSignal syscall.Signal
	KillAfter  time.Duration

	// KillBy, if not zero, is the time at which the guard kills the group; see
	// Group.KillBy.
	KillBy time.Time

	// Suspended is called, if it is not nil, when the command was stopped from
	// the terminal (Ctrl-Z). It is continued at once in any case: a lock that
	// nobody renews is no lock.
	Suspended func()

	// Stopped is called, if it is not nil, when the command was stopped while another
	// program has the terminal, which the command wants to use. It goes on when the
	// calling program is in the foreground.
	Stopped func()
}

// Find returns the file of the command name, which it searches in PATH as a shell does.
// StartCode returns the exit status for its error.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) { // the user put "." into PATH; a shell obeys
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
