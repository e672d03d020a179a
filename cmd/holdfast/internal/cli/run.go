package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
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
  HOLDFAST_OWNERS       the owners of this lock and of all locks under which
                        this run was started; to wait for one of these is an
                        error (125)
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

func newRunCommand(env output.Environment) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run [flags] NAME [flags] [--] CMD [ARG...]",
		Short: "Run a command while holding a lock",
		Long:  runLong,
		Example: `  # a cron job on many machines: one of them runs it, the others skip it
  0 3 * * *  holdfast run nightly -n --skip-ok --at-least 1m -- ./report.sh

  # one deployment at a time; a waiter sees which one it is
  holdfast run deploy/prod -w 10m --reason "$CI_JOB_URL" -- ./deploy.sh

  # the token keeps a machine that was suspended from writing late
  holdfast run stock --shell 'psql -v token="$HOLDFAST_TOKEN" -f ship.sql'`,
		ValidArgsFunction: completeNames(env, &o.Connection, cobra.ShellCompDirectiveDefault), // CMD is a file
		Args:              o.parse,
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.complete(cmd.Flags(), env) },
		RunE: o.takes(env, func(ctx context.Context, p supervise.Program) error {
			return supervise.Run(ctx, p, &o.Lock, &o.Command)
		}),
	}
	o.addTo(cmd.Flags())
	return cmd
}
