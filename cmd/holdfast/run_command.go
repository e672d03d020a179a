package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/procgroup"
	"github.com/holdfast-go/holdfast/driver"
)

const runLong = `Run waits for the lock NAME, runs CMD while it holds the lock, and releases it when nothing
of CMD is left. Processes that CMD leaves behind when it ends, as in the background of a
shell, get --signal, and SIGKILL after --kill-after: if they are to finish, let CMD wait for
them.

Run renews the lock as long as CMD runs. The lock may be lost all the same, because the
store was unreachable for too long or the lock was deleted. Then CMD gets --signal and
later SIGKILL, before another client can get the lock. If holdfast itself is killed, CMD
is killed, too. A process that leaves the process group of CMD on purpose, as a daemon
does with setsid, is not killed.

CMD also gets the signals INT, TERM, HUP, QUIT, USR1 and USR2. CMD does not run in a
shell, unless --shell is given. Flags stand before CMD: arguments behind it belong to it.

Windows has neither run nor elect, because it has no process groups: they end there with
status 64. All other commands work.

The environment of CMD has:
  HOLDFAST_NAME         the name of the lock, without --prefix
  HOLDFAST_TOKEN        the fencing token: send it with each write, and let the
                        resource refuse smaller ones
  HOLDFAST_HOLDER       the holder of the lock, as inspect shows it
  HOLDFAST_OWNERS       the owner of the lock, and of those that run itself runs
                        under: to wait for one of these is an error (125)
  HOLDFAST_LEASE_MS     --ttl in milliseconds
  HOLDFAST_ACQUIRED_AT  when the lock was taken (RFC 3339)
  HOLDFAST_BACKEND      the kind of store

Exit status:
  that of CMD, or 128+n if signal n ended it, if the lock was held to the end
  64   the command line is invalid
  69   the store is unreachable
  75   another client holds the lock, and the wait has ended
  77   the store refused: a password, a permission or a missing table
  79   the lock was lost while CMD ran
  125  holdfast itself failed, or the store lacks a feature
  126  CMD cannot be executed
  127  CMD was not found

"holdfast help urls" describes the URLs of stores, and where a password comes from.`

const runExample = `  # a cron job on many machines: one of them runs it, the others skip it
  0 3 * * *  holdfast run nightly -n --skip-ok --at-least 1m -- ./report.sh

  # one deployment at a time; a waiter sees which one it is
  holdfast run deploy/prod -w 10m --reason "$CI_JOB_URL" -- ./deploy.sh

  # the token keeps a machine that was suspended from writing late
  holdfast run stock --shell 'psql -v token="$HOLDFAST_TOKEN" -f ship.sql'`

func newRunCommand(env output.Environment) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:                   "run [flags] NAME [flags] [--] CMD [ARG...]",
		Short:                 "Run a command while holding a lock",
		Long:                  runLong,
		Example:               runExample,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeLock(env, &o.lockOptions),
		RunE: func(cmd *cobra.Command, args []string) error {
			if helped, err := o.read(cmd, args, env); helped || err != nil {
				return err
			}
			r := &runner{runOptions: o, env: env, report: output.NewReporter(env, o.verbose)}
			return r.run(cmd.Context())
		},
	}
	o.addTo(cmd.Flags())
	return cmd
}

// runner runs commands under a lock.
type runner struct {
	*runOptions
	env     output.Environment
	report  *output.Reporter
	signals chan os.Signal

	path     string // of the command
	holder   string // what others see of us
	backend  string
	acquired time.Time
	grace    time.Duration // killAfter, as far as the lease allows it
	ended    bool          // a signal that ends programs was passed on to the command
}

func (r *runner) run(ctx context.Context) error {
	return r.within(ctx, func(locker *holdfast.Locker) error {
		waiting, done := interruptible(ctx, r.signals)
		defer done()
		lock, err := r.acquire(waiting, locker, r.env, r.report)
		if err != nil {
			return r.skipped(r.notAcquired(waiting, err))
		}
		done()
		if interrupt := interruptOf(waiting); interrupt != nil {
			_ = r.unlock(lock)
			return output.Exit(interrupt.status())
		}
		return r.hold(ctx, lock)
	})
}

// within finds the command, and does work with an open store.
func (r *runner) within(ctx context.Context, work func(*holdfast.Locker) error) (err error) {
	if r.path, err = procgroup.Find(r.command[0]); err != nil {
		return &output.ExitError{Code: procgroup.StartCode(err), Err: err}
	}
	r.signals = make(chan os.Signal, 16)
	listen(r.signals)
	defer signal.Stop(r.signals)
	r.holder = r.note()
	return r.open(ctx, r.env, r.report, r.signals, r.holder, func(store driver.Backend, locker *holdfast.Locker) error {
		r.backend = store.Info().Name
		r.leaveAtLeast(store)
		return work(locker)
	})
}

// leaveAtLeast leaves --at-least to the store, if it keeps names taken.
func (r *runner) leaveAtLeast(store driver.Backend) {
	switch {
	case r.atLeast == 0:
	case store.Info().Caps.AtLeast && !r.fair && !r.shared && !r.exclusive && r.permits == 0:
		r.keep = r.atLeast
	default:
		r.report.Detail("this lock cannot stay taken after its release: with --at-least, run waits after its command")
	}
}

// skipped makes a success of a lock that is held, where the flags say so.
func (r *runner) skipped(err error) error {
	if !r.skipOK || output.StatusOf(err) != output.ExitBusy {
		return err
	}
	r.report.Detail("%v; skipped", err)
	return nil
}

// listen has the signals delivered that a command is to get, except those that
// this program was started to ignore, as by nohup.
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

// hold runs the command and releases the lock when nothing of it is left.
func (r *runner) hold(ctx context.Context, lock *holdfast.Lock) error {
	r.acquired = time.Now()
	r.report.Detail("lock %q acquired, token %d", lock.Name(), lock.Token())
	if err := lock.Err(); errors.Is(err, holdfast.ErrLost) {
		return r.release(lock, output.ExitOK, nil)
	}
	lease := r.leaseOf(lock.Remaining())
	if r.grace = r.graceFor(lease); r.killChosen && r.grace < r.killAfter {
		r.report.Warn("--kill-after %s is too long for the lease of %s: the command has %s to end", r.killAfter, output.Coarse(lease), output.Coarse(r.grace))
	}
	group, err := procgroup.Start(procgroup.Command{
		Path: r.path, Args: r.command, Env: slices.Concat(r.env.Environ, r.variables(lock)),
		Stdin: r.env.Stdin, Stdout: r.env.Stdout, Stderr: r.env.Stderr,
		StopSignal: r.stop, KillAfter: r.grace,
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

// release releases the lock and decides the status to exit with. Whether the
// lock was held to the end counts for more than what became of the command.
func (r *runner) release(lock *holdfast.Lock, status int, stopped error) error {
	err := r.unlock(lock)
	switch {
	case stopped != nil:
		return output.Exit(r.lostCode) // and said why when it happened
	case errors.Is(err, holdfast.ErrLost):
		return &output.ExitError{Code: r.lostCode, Err: err}
	case err != nil:
		r.report.Warn("%v", err)
	default:
		r.report.Detail("lock %q released", lock.Name())
	}
	return output.Exit(status)
}

// variables are what the command learns of its lock.
func (r *runner) variables(lock *holdfast.Lock) []string {
	return []string{
		"HOLDFAST_NAME=" + lock.Name(),
		"HOLDFAST_HOLDER=" + r.holder,
		ownersVariable + "=" + strings.Join(append(outerOwners(r.env), r.attempts.holder()), " "),
		"HOLDFAST_TOKEN=" + strconv.FormatUint(lock.Token(), 10),
		"HOLDFAST_LEASE_MS=" + strconv.FormatInt(r.ttl.Milliseconds(), 10),
		"HOLDFAST_BACKEND=" + r.backend,
		"HOLDFAST_ACQUIRED_AT=" + r.acquired.Format(time.RFC3339Nano),
	}
}

func (r *runner) stoppedBehind() {
	r.report.Warn("the command has stopped, and holds the lock: it wants to use the terminal, which it cannot in the background; " +
		"bring it to the foreground (fg), or give it other input (</dev/null)")
}

func (r *runner) refuseToStop() {
	r.report.Warn("a command cannot be suspended while it holds a lock; it goes on")
}
