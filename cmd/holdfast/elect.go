package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/procgroup"
	"github.com/holdfast-go/holdfast/elect"
)

const electLong = `Elect is a candidate for the lock NAME, and runs CMD while it is the leader. When CMD
ends, or leadership is lost, it releases the lock and campaigns again, until a signal
ends it. After each term it waits: first for --backoff, then longer each time, up to a
minute, as long as terms are shorter than a minute. A store that cannot be reached at the
start is waited for.

When leadership is lost, CMD gets --signal and then SIGKILL, before another client can
become the leader. "holdfast run --help" describes CMD, its environment and signals. A
signal that ends CMD ends the campaign too.

Windows has no elect; see "holdfast run --help".

With --once there is one term, and the exit status is that of run.

Exit status without --once: that of CMD if a signal ended the leader; 128+n if signal n
ended a candidate; 69, 77, 125, 126 and 127 as run.`

const electExample = `  # on each machine: one of them works, another takes over when it is gone
  holdfast elect billing -- ./billing-daemon

  # leadership for a day at most
  holdfast elect report --max-hold 24h -- ./report-server`

const (
	maxBackoff = time.Minute
	longTerm   = time.Minute // a term of that length was no failure
)

// electOptions is the command line of elect.
type electOptions struct {
	runOptions
	once    bool
	backoff time.Duration
}

func newElectCommand(env output.Environment) *cobra.Command {
	o := &electOptions{}
	cmd := &cobra.Command{
		Use:                   "elect [flags] NAME [flags] [--] CMD [ARG...]",
		Short:                 "Run a command as the leader, and campaign again",
		Long:                  electLong,
		Example:               electExample,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeLock(env, &o.lockOptions),
		RunE: func(cmd *cobra.Command, args []string) error {
			if helped, err := o.read(cmd, args, env); helped || err != nil {
				return err
			}
			if o.backoff < 0 || o.backoff > maxBackoff {
				return output.UsageError("--backoff %s: use 0s to %s", o.backoff, maxBackoff)
			}
			o.campaigns = !o.once
			r := &runner{runOptions: &o.runOptions, env: env, report: output.NewReporter(env, o.verbose)}
			return r.within(cmd.Context(), func(locker *holdfast.Locker) error {
				return (&candidate{runner: r, once: o.once, backoff: o.backoff}).campaign(cmd.Context(), locker)
			})
		},
	}
	f := cmd.Flags()
	o.addTo(f)
	addExitCode(f, &o.lostCode, "lost-exit-code", "", output.ExitLost, 1, "with --once: status if leadership was lost, or reached --max-hold")
	f.BoolVar(&o.once, "once", false, "end after the first term")
	f.DurationVar(&o.backoff, "backoff", time.Second, "how long to wait after a short term, before it is doubled")
	return cmd
}

// addTo adds the flags of elect: those of run that are about leaders.
func (o *electOptions) addTo(f *pflag.FlagSet) {
	o.lockOptions.addTo(f)
	o.addCommandTo(f)
	o.conflictCode = output.ExitBusy
}

// candidate campaigns for leadership.
type candidate struct {
	*runner
	once    bool
	backoff time.Duration
}

// campaign returns when a signal ends it, or after one term with --once.
func (c *candidate) campaign(ctx context.Context, locker *holdfast.Locker) error {
	election := elect.New(c.mutex(locker), c.options()...)
	pause := c.backoff
	for {
		lasted, err := c.term(ctx, election)
		if lasted == noTerm || c.once || c.ended || ctx.Err() != nil {
			return err
		}
		if fatal := c.account(err, lasted); fatal != nil {
			return fatal
		}
		if lasted >= longTerm {
			pause = c.backoff
		}
		if err := c.rest(ctx, pause); err != nil {
			return err
		}
		pause = min(max(2*pause, c.backoff), maxBackoff)
	}
}

// noTerm is how long a term lasted that did not begin.
const noTerm = -1

// term waits for a term, and runs the command in it. It returns how long that lasted. The
// election does not campaign by itself after a loss, as the candidate rests before.
func (c *candidate) term(ctx context.Context, election *elect.Election) (lasted time.Duration, err error) {
	lasted = noTerm
	waiting, done := interruptible(ctx, c.signals)
	defer done()
	failed := c.ask(waiting, c.env, c.report, func(candidacy context.Context, granted func()) error {
		return election.Run(candidacy, func(_ context.Context, lock *holdfast.Lock) error {
			granted()
			done()
			if interrupt := interruptOf(waiting); interrupt != nil {
				err = output.Exit(interrupt.status())
				return c.unlock(lock)
			}
			begun := time.Now()
			err = c.hold(ctx, lock)
			lasted = time.Since(begun)
			return nil
		})
	})
	if lasted == noTerm && err == nil {
		err = c.notAcquired(waiting, failed)
	}
	return lasted, err
}

// account says how a term ended. What would end the next one in the same way is
// returned: a command that cannot be started.
func (c *candidate) account(err error, lasted time.Duration) error {
	var ended *output.ExitError
	switch {
	case err == nil:
		c.report.Line(output.LevelNotice, "the command ended with status 0 after "+output.Coarse(lasted).String()+"; campaigning again")
	case !errors.As(err, &ended):
		return err
	case ended.Err != nil && ended.Code != c.lostCode:
		return err
	case ended.Err != nil:
		c.report.Warn("%v; campaigning again", ended.Err)
	case ended.Code == c.lostCode:
		c.report.Warn("the term is over after %s; campaigning again", output.Coarse(lasted))
	default:
		c.report.Warn("the command ended with status %d after %s; campaigning again", ended.Code, output.Coarse(lasted))
	}
	return nil
}

// rest lets others lead, for pause or up to half more. A signal ends it.
func (c *candidate) rest(ctx context.Context, pause time.Duration) error {
	if pause == 0 {
		return nil
	}
	pause += rand.N(pause/2 + 1) //nolint:gosec // so that candidates do not all come at the same time
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil // the next campaign says so
		case sig := <-c.signals:
			if sig != procgroup.Suspending() && procgroup.Ends(sig) {
				return output.Exit((&interruption{signal: sig}).status())
			}
		}
	}
}
