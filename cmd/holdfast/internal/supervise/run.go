package supervise

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/procgroup"
)

// Command is a command to run under a lock.
type Command struct {
	Args       []string       // the first is the program
	AtLeast    time.Duration  // how long the name stays taken at least
	Stop       syscall.Signal // asks the command to end
	KillAfter  time.Duration  // the time between Stop and SIGKILL
	KillChosen bool           // the user has chosen KillAfter
}

// runner runs commands under a lock.
type runner struct {
	session
	*Command

	file     string // the file of the command
	acquired time.Time
	grace    time.Duration // KillAfter, or less if the lease is too short for it
	ended    bool          // a signal that ends programs was passed on to the command

	stepDownOn syscall.Signal // asks the command to end, as Command.Stop does; 0 for no signal
}

// Run takes the lock, and runs the command while it holds the lock. The error has the exit
// status: that of the command, if the lock was held until the command had ended.
func Run(ctx context.Context, p Program, l *Lock, c *Command) error {
	return withRunner(ctx, p, l, c, func(r *runner, locker *holdfast.Locker) error {
		r.leaveAtLeast()
		lock, err := r.acquire(ctx, locker)
		if err != nil {
			return r.skipped(err)
		}
		return r.hold(ctx, locker, lock)
	})
}

// withRunner finds the command, opens the store, and calls work.
func withRunner(ctx context.Context, p Program, l *Lock, c *Command, work func(*runner, *holdfast.Locker) error) error {
	if isKeeper, err := keep(ctx, p, l); isKeeper {
		return err
	}
	file, err := procgroup.Find(c.Args[0])
	if err != nil {
		return &output.ExitError{Code: procgroup.StartCode(err), Err: err}
	}
	r := &runner{session: session{Program: p, Lock: l, holder: l.note(path.Base(c.Args[0])), without: "was not run"}, Command: c, file: file}
	return r.withStore(ctx, func(locker *holdfast.Locker) error { return work(r, locker) })
}

// leaveAtLeast makes the store keep the name taken for --at-least, if the store can do that
// for this lock.
func (r *runner) leaveAtLeast() {
	switch {
	case r.AtLeast == 0:
	case r.store.Backend.Info().Caps.AtLeast && !r.Fair && !r.Shared && !r.Exclusive && r.Permits == 0:
		r.keep = r.AtLeast
	default:
		r.Report.Detail("the store cannot keep the name of this lock after a release, so run holds the lock until the time of --at-least is over")
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

// hold runs the command, and releases the lock when no process of the command is left.
func (r *runner) hold(ctx context.Context, locker *holdfast.Locker, lock *holdfast.Lock) error {
	r.acquired = time.Now()
	r.Report.Detail("lock %q acquired, token %d", lock.Name(), lock.Token())
	if err := lock.Err(); errors.Is(err, holdfast.ErrLost) {
		return r.release(lock, output.ExitOK, nil)
	}
	lease := r.leaseOf(lock.Remaining())
	if r.grace = r.graceFor(lease); r.KillChosen && r.grace < r.KillAfter {
		r.Report.Warn("--kill-after %s is too long for the lease of %s: the command has %s to end", r.KillAfter, output.Coarse(lease), output.Coarse(r.grace))
	}
	deadline := time.Now().Add(lock.Remaining())
	group, err := procgroup.Start(procgroup.Command{
		Path: r.file, Args: r.Args, Env: slices.Concat(r.Env.Environ, r.variables(lock)),
		Stdin: r.Env.Stdin, Stdout: r.Env.Stdout, Stderr: r.Env.Stderr,
		StopSignal: r.Stop, KillAfter: r.grace, KillBy: deadline, Suspended: r.warnOfStop, Denied: r.warnOfUser,
	})
	if err != nil {
		_ = r.unlock(lock)
		return &output.ExitError{Code: procgroup.StartCode(err), Err: err}
	}
	s := &supervisor{runner: r, lock: lock, locker: locker, group: group, deadline: deadline}
	stopped := s.watch(ctx)
	status := group.Wait()
	s.guardian.end()
	if left := time.Until(r.acquired.Add(r.AtLeast)); left > 0 && stopped == nil && r.keep == 0 {
		r.Report.Line(output.LevelNotice, fmt.Sprintf("the command has ended; keeping the lock for another %s (--at-least)", left.Round(time.Millisecond)))
		_ = r.pause(lock.Context(ctx), left) // the status of the command counts, also after a signal
	}
	return r.release(lock, status, stopped)
}

// graceFor returns how long a command has to end under a lease of this length: KillAfter, but at
// most a third of the lease, so that a late renewal is still possible. If the user has chosen
// KillAfter, it only has to be shorter than MaxKillAfter.
func (r *runner) graceFor(lease time.Duration) time.Duration {
	if r.KillChosen && r.KillAfter < r.MaxKillAfter(lease) {
		return r.KillAfter
	}
	return min(r.KillAfter, lease/3)
}

// release releases the lock, and returns an error with the exit status. The exit status is
// LostCode if the lock was lost, and the status of the command if it was not.
func (r *runner) release(lock *holdfast.Lock, status int, stopped error) error {
	err := r.unlock(lock)
	switch {
	case stopped != nil:
		return output.Exit(r.LostCode) // the reason was reported when it happened
	case errors.Is(err, holdfast.ErrLost):
		return &output.ExitError{Code: r.LostCode, Err: lossOf(err)}
	case err == nil: // drain reports a release that the store has not confirmed
		r.Report.Detail("lock %q released", lock.Name())
	}
	return output.Exit(status)
}

// variables returns the environment variables that describe the lock to the command.
func (r *runner) variables(lock *holdfast.Lock) []string {
	owner, _ := r.attempts.last()
	return []string{
		"HOLDFAST_NAME=" + lock.Name(),
		"HOLDFAST_HOLDER=" + r.holder,
		ownersVariable + "=" + strings.Join(append(outerOwners(r.Env), owner), " "),
		"HOLDFAST_TOKEN=" + strconv.FormatUint(lock.Token(), 10),
		"HOLDFAST_LEASE_MS=" + strconv.FormatInt(r.TTL.Milliseconds(), 10),
		"HOLDFAST_BACKEND=" + r.store.Backend.Info().Name,
		"HOLDFAST_ACQUIRED_AT=" + r.acquired.Format(time.RFC3339Nano),
	}
}

// warnOfUser is the function Denied of the procgroup.Command.
func (r *runner) warnOfUser(pid int) {
	r.Report.Warn("the command (pid %d) runs as another user, so run cannot stop it: it goes on, and run keeps the lock for it, or takes it again, as far as the store allows; "+
		"start holdfast as that user instead, for example: sudo holdfast run", pid)
}

// warnOfStop is the function Suspended of the procgroup.Command.
func (r *runner) warnOfStop(behind bool) {
	if behind {
		r.Report.Warn("the command has stopped while the lock is held: it needs the terminal, but it runs in the background; " +
			"bring it to the foreground (fg), or give it another input (</dev/null)")
		return
	}
	r.Report.Warn("run cannot be suspended while it holds a lock, so its command continues")
}
