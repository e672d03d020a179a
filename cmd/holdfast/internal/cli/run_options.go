package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/procgroup"
)

const defaultKillAfter = 10 * time.Second

// runOptions is the command line of the commands run and elect.
type runOptions struct {
	lockOptions
	supervise.Command
	campaign supervise.Campaign // only for the command elect

	stepDownOn string // the value of --step-down-on, from which complete sets Campaign.StepDownOn
	signal     string // the value of --signal, from which complete sets Command.Stop
	shell      bool
}

func (o *runOptions) addTo(f *pflag.FlagSet) {
	o.lockOptions.addTo(f)
	o.addKindTo(f)
	f.BoolVar(&o.NoRenew, "no-renew", false, "do not renew the lock; stop the command before the lease of --ttl ends")
	durationVar(f, &o.AtLeast, "at-least", "", 0, "keep the name taken for at least this time, even if the command ends earlier; if the store cannot keep the name, run waits")
	f.IntVar(&o.LostCode, "lost-exit-code", output.ExitLost, "exit status if the lock was lost, or the time of --max-hold is over")
	f.BoolVar(&o.SkipOK, "skip-ok", false, "if another client holds the lock: exit status 0 and no message")
	o.addCommandTo(f)
}

// addCommandTo adds the flags about CMD, the command that runs while the lock is held.
func (o *runOptions) addCommandTo(f *pflag.FlagSet) {
	f.SetInterspersed(false) // flags after CMD belong to CMD
	f.SortFlags = false
	durationVar(f, &o.MaxHold, "max-hold", "", 0, "the longest time to hold the lock; the command gets --signal earlier, so that the time of --kill-after is left; 0 means no limit")
	durationVar(f, &o.KillAfter, "kill-after", "", defaultKillAfter, "time between --signal and SIGKILL, in which the command can end; the default is never more than a third of --ttl")
	f.StringVar(&o.signal, "signal", "TERM", "the signal that asks the command to end")
	f.BoolVar(&o.shell, "shell", false, "the command is one argument, a script for sh")
}

// parse takes NAME and CMD from `args`. Flags may stand before and after NAME. CMD begins after
// "--". Without "--", CMD begins with the first word after NAME that is not a flag. With
// --shell, the command is sh, which gets the script as an argument. For --help, parse returns
// an error that cobra answers with the help.
func (o *runOptions) parse(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return output.UsageError("no lock named; use: %s", cmd.UseLine())
	}
	f := cmd.Flags()
	noName := f.ArgsLenAtDash() == 0 // the first word stands after "--", so it may be CMD
	err := f.Parse(args[1:])
	if noName && (err != nil || len(f.Args()) == 0) {
		return output.UsageError("the name of the lock is missing before --; use: %s NAME -- %s", cmd.CommandPath(), strings.Join(args, " "))
	}
	if err != nil {
		return cmd.FlagErrorFunc()(cmd, err)
	}
	o.Name, o.Args = args[0], f.Args()
	help, _ := f.GetBool("help")
	switch {
	case help:
		return pflag.ErrHelp
	case len(o.Args) == 0 || o.Args[0] == "":
		return output.UsageError("no command to run while %q is held; use: %s NAME -- CMD [ARG...]", o.Name, cmd.CommandPath())
	case o.shell && len(o.Args) > 1:
		return output.UsageError("--shell takes the whole script as one argument; put it in quotes")
	case o.shell:
		o.Args = []string{"sh", "-c", o.Args[0]}
	}
	return checkSystem(cmd.Name(), procgroup.Supported)
}

// checkSystem returns an error if the system has no process groups, which the command needs.
func checkSystem(verb string, supported bool) error {
	if supported {
		return nil
	}
	return output.UsageError("%s is not available on this system, because it has no process groups; \"holdfast hold\" takes a lock here", verb)
}

// complete sets the options that come from the environment, the configuration or a default,
// and checks all options.
func (o *runOptions) complete(f *pflag.FlagSet, env output.Environment) error {
	if err := o.lockOptions.complete(f, env); err != nil {
		return err
	}
	if o.KillChosen = o.Given("kill-after"); !o.KillChosen {
		o.KillAfter = min(defaultKillAfter, o.TTL/3)
	}
	var err error
	if o.Stop, err = procgroup.ParseSignal(o.signal); err != nil {
		return output.UsageError("--signal: %w", err)
	}
	if o.stepDownOn != "" {
		o.campaign.StepDownOn, err = procgroup.ParseSignal(o.stepDownOn)
		if err != nil || procgroup.Ends(o.campaign.StepDownOn) || o.campaign.StepDownOn == procgroup.Suspending {
			return output.UsageError("--step-down-on %s: use USR1 or USR2", o.stepDownOn)
		}
	}
	switch {
	case o.LostCode < 1 || o.LostCode > 255:
		return output.UsageError("--lost-exit-code %d is not the exit status of a failure; use 1 to 255", o.LostCode)
	case o.SkipOK && f.Changed("conflict-exit-code"):
		return output.UsageError("--skip-ok sets the conflict exit code to 0; give only one of --skip-ok and --conflict-exit-code")
	case o.campaign.Backoff > supervise.MaxBackoff:
		return output.UsageError("--backoff %s: use 0s to %s", o.campaign.Backoff, supervise.MaxBackoff)
	}
	return o.checkTimes()
}

// checkTimes returns an error if a time does not fit the lease, or if two times contradict each
// other.
func (o *runOptions) checkTimes() error {
	most := o.MaxKillAfter(o.TTL)
	longest := o.MaxHold - o.MaxHoldMargin()
	held := o.TTL - o.MarginOf(o.TTL) // how long the lock is held if it is not renewed
	switch {
	case o.MaxHold != 0 && (o.MaxHold < minTTL || o.MaxHold > maxTTL):
		return output.UsageError("--max-hold %s: use %s to %s", o.MaxHold, minTTL, maxTTL)
	case o.MaxHold > 0 && o.AtLeast > longest:
		return output.UsageError("with --max-hold %s, the lock is held for %s, which is less than --at-least %s; use a longer --max-hold", o.MaxHold, longest, o.AtLeast)
	case o.KillAfter >= most:
		return output.UsageError("--kill-after %s is too long for --ttl %s: the command would be stopped before the lock "+
			"is due to be renewed; use less than %s, or a longer --ttl", o.KillAfter, o.TTL, most)
	case o.NoRenew && o.AtLeast > held:
		return output.UsageError("with --no-renew, the lock is held for %s, which is less than --at-least %s; use a longer --ttl", held, o.AtLeast)
	case o.NoRenew && o.MaxHold > held:
		return output.UsageError("with --no-renew, the lock is held for %s, which is less than --max-hold %s; use a longer --ttl", held, o.MaxHold)
	}
	return nil
}
