package supervise

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/procgroup"
	"github.com/holdfast-go/holdfast/driver"
)

// Command is a command to run under a lock.
type Command struct {
	Args       []string       // the first is the program
	AtLeast    time.Duration  // the name stays taken for at least this
	Stop       syscall.Signal // asks the command to end
	KillAfter  time.Duration  // between Stop and SIGKILL
	KillChosen bool           // KillAfter is not the default
}

// program returns the name of the command, without its folder.
func (c *Command) program() string { return c.Args[0][strings.LastIndexByte(c.Args[0], '/')+1:] }

// runner runs commands under a lock.
type runner struct {
	session
	*Command

	path     string // of the command
	holder   string // the note that other clients can read
	acquired time.Time
	grace    time.Duration // KillAfter, or less if the lease is too short for it
	ended    bool          // a signal that ends programs was passed on to the command
}

// Run takes the lock and runs c while it holds it. The error has the exit status. It is the
// status of the command if the lock was held to the end.
func Run(ctx context.Context, p Program, l *Lock, c *Command) error {
	s, done := newSession(p, l)
	defer done()
	r := &runner{session: s, Command: c}
	return r.withStore(ctx, func(locker *holdfast.Locker) error {
		lock, err := r.acquire(ctx, locker)
		if err != nil {
			return r.skipped(err)
		}
		return r.hold(ctx, lock)
	})
}

// withStore finds the command, opens the store, and calls work.
func (r *runner) withStore(ctx context.Context, work func(*holdfast.Locker) error) (err error) {
	if r.path, err = procgroup.Find(r.Args[0]); err != nil {
		return &output.ExitError{Code: procgroup.StartCode(err), Err: err}
	}
	r.holder = r.note(r.program())
	return r.session.withStore(ctx, r.holder, func(locker *holdfast.Locker) error {
		r.leaveAtLeast(r.store.Backend)
		return work(locker)
	})
}

// leaveAtLeast makes the store keep the name taken for --at-least, if the store can do that
// for this lock.
func (r *runner) leaveAtLeast(store driver.Backend) {
	switch {
	case r.AtLeast == 0:
	case store.Info().Caps.AtLeast && !r.Fair && !r.Shared && !r.Exclusive && r.Permits == 0:
		r.keep = r.AtLeast
	default:
		r.Report.Detail("this lock cannot stay taken after its release: with --at-least, run waits after its command")
	}
}

// skipped returns nil if another client holds the lock and --skip-ok is given. Otherwise it
// returns err.
func (r *runner) skipped(err error) error {
	if !r.SkipOK || output.StatusOf(err) != output.ExitBusy {
		return err
	}
	r.Report.Detail("%v; skipped", err)
	return nil
}

// listen makes the system deliver to signals those signals that a command must get. It leaves
// out signals that this program was started to ignore, as by nohup.
func listen(signals chan os.Signal) {
	all := procgroup.Forwarded()
	if s := procgroup.Suspending(); s != nil {
		all = append(all, s)
	}
	for _, s := range all {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
}

// hold runs the command, and releases the lock when no process of the command is left.
func (r *runner) hold(ctx context.Context, lock *holdfast.Lock) error {
	r.acquired = time.Now()
	r.Report.Detail("lock %q acquired, token %d", lock.Name(), lock.Token())
	if err := lock.Err(); errors.Is(err, holdfast.ErrLost) {
		return r.release(lock, output.ExitOK, nil)
	}
	lease := r.leaseOf(lock.Remaining())
	if r.grace = r.graceFor(lease); r.KillChosen && r.grace < r.KillAfter {
		r.Report.Warn("--kill-after %s is too long for the lease of %s: the command has %s to end", r.KillAfter, output.Coarse(lease), output.Coarse(r.grace))
	}
	group, err := procgroup.Start(procgroup.Command{
		Path: r.path, Args: r.Args, Env: slices.Concat(r.Env.Environ, r.variables(lock)),
		Stdin: r.Env.Stdin, Stdout: r.Env.Stdout, Stderr: r.Env.Stderr,
		StopSignal: r.Stop, KillAfter: r.grace,
		KillBy:    time.Now().Add(lock.Remaining()),
		Suspended: r.refuseToStop, Stopped: r.stoppedBehind,
	})
	if err != nil {
		_ = r.unlock(lock)
		return &output.ExitError{Code: procgroup.StartCode(err), Err: err}
	}
	s := newSupervisor(r, lock, group)
	stopped := s.watch(ctx)
	status := group.Wait()
	if stopped == nil && r.keep == 0 {
		s.waitAtLeast(ctx)
	}
	return r.release(lock, status, stopped)
}

// graceFor returns how long a command under such a lease has to end: KillAfter, but at most a
// third of the lease, so that a late renewal is still possible.
func (r *runner) graceFor(lease time.Duration) time.Duration {
	if r.KillChosen && r.KillAfter < r.MaxKillAfter(lease) {
		return r.KillAfter
	}
	return min(r.KillAfter, lease/3)
}

// release releases the lock and returns the error with the exit status. The loss of the lock
// counts for more than the status of the command.
func (r *runner) release(lock *holdfast.Lock, status int, stopped error) error {
	err := r.unlock(lock)
	switch {
	case stopped != nil:
		return output.Exit(r.LostCode) // the reason was reported when it happened
	case errors.Is(err, holdfast.ErrLost):
		return &output.ExitError{Code: r.LostCode, Err: err}
	case err != nil:
		r.Report.Warn("%v", err)
	default:
		r.Report.Detail("lock %q released", lock.Name())
	}
	return output.Exit(status)
}

// variables returns the environment variables with which the command can read about its lock.
func (r *runner) variables(lock *holdfast.Lock) []string {
	return []string{
		"HOLDFAST_NAME=" + lock.Name(),
		"HOLDFAST_HOLDER=" + r.holder,
		ownersVariable + "=" + strings.Join(append(outerOwners(r.Env), r.attempts.holder()), " "),
		"HOLDFAST_TOKEN=" + strconv.FormatUint(lock.Token(), 10),
		"HOLDFAST_LEASE_MS=" + strconv.FormatInt(r.TTL.Milliseconds(), 10),
		"HOLDFAST_BACKEND=" + r.store.Backend.Info().Name,
		"HOLDFAST_ACQUIRED_AT=" + r.acquired.Format(time.RFC3339Nano),
	}
}

func (r *runner) stoppedBehind() {
	r.Report.Warn("the command has stopped, and holds the lock: it wants to use the terminal, which it cannot in the background; " +
		"bring it to the foreground (fg), or give it other input (</dev/null)")
}

func (r *runner) refuseToStop() {
	r.Report.Warn("a command cannot be suspended while it holds a lock; it goes on")
}
