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

// runOptions is the command line of run.
type runOptions struct {
	lockOptions
	supervise.Command
	signal string // Command.Stop, before it is parsed
	shell  bool
	verb   string // "run" or "elect"
}

func (o *runOptions) addTo(f *pflag.FlagSet) {
	o.lockOptions.addTo(f)
	o.addWaitTo(f)
	o.addKindTo(f)
	f.BoolVar(&o.NoRenew, "no-renew", false, "hold the lock for --ttl at most, and stop the command then")
	f.DurationVar(&o.AtLeast, "at-least", 0, "keep the name taken for at least this time, even if the command ends sooner; if the store cannot do that, run waits")
	addExitCode(f, &o.ConflictCode, "conflict-exit-code", "E", output.ExitBusy, 0, "status if the lock is held by another")
	addExitCode(f, &o.LostCode, "lost-exit-code", "", output.ExitLost, 1, "status if the lock was lost, or reached --max-hold")
	f.BoolVar(&o.SkipOK, "skip-ok", false, "if the lock is held: status 0 and no message")
	o.addCommandTo(f)
}

// addCommandTo adds the flags that are about the command.
func (o *runOptions) addCommandTo(f *pflag.FlagSet) {
	f.SetInterspersed(false) // flags after the command belong to the command
	f.SortFlags = false
	f.DurationVar(&o.MaxHold, "max-hold", 0, "the longest time to hold the lock; the command is stopped --kill-after before its end; 0 means no limit")
	f.DurationVar(&o.KillAfter, "kill-after", defaultKillAfter, "time for the command to end between --signal and SIGKILL; by default at most a third of --ttl")
	f.StringVar(&o.signal, "signal", "TERM", "the signal that asks the command to end")
	f.BoolVar(&o.shell, "shell", false, "the command is one argument, a script for sh")
}

// read reads the command line, the environment and the configuration. If --help was given, it
// prints the help and returns true.
func (o *runOptions) read(cmd *cobra.Command, args []string, env output.Environment) (helped bool, err error) {
	o.verb = cmd.Name()
	if err := o.parse(cmd, args); err != nil {
		return false, err
	}
	if help, _ := cmd.Flags().GetBool("help"); help {
		return true, cmd.Help()
	}
	if err := checkSystem(o.verb, procgroup.Supported); err != nil {
		return false, err
	}
	return false, o.complete(cmd.Flags(), env)
}

// checkSystem returns an error if the system has no process groups, which the command needs.
func checkSystem(verb string, supported bool) error {
	if supported {
		return nil
	}
	return output.UsageError("%s is not available on this system, because it has no process groups; \"holdfast hold\" takes a lock here", verb)
}

// parse takes NAME and the command from args. Flags may stand before and after NAME. The
// command begins after "--", or else with the first word after NAME that is not a flag.
func (o *runOptions) parse(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return output.UsageError("no lock named; use: %s", cmd.UseLine())
	}
	o.Name, args = args[0], args[1:]
	if len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "--" {
		f := cmd.Flags()
		if err := f.Parse(args); err != nil {
			return cmd.FlagErrorFunc()(cmd, err)
		}
		args = f.Args()
		if f.ArgsLenAtDash() >= 0 {
			args = append([]string{"--"}, args...)
		}
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	o.Args = args
	return nil
}

// complete sets the options that come from the environment, the configuration or a default,
// and checks all options.
func (o *runOptions) complete(f *pflag.FlagSet, env output.Environment) error {
	if err := o.Configure(f, env, output.NewReporter(env, o.verbose), lockSettings()...); err != nil {
		return err
	}
	if err := o.lockOptions.complete(f); err != nil {
		return err
	}
	if o.KillChosen = o.Given(f, "kill-after", "lock.kill_after"); !o.KillChosen {
		o.KillAfter = min(defaultKillAfter, o.TTL/3)
	}
	for _, check := range []func(*pflag.FlagSet) error{o.checkCommand, o.checkDurations, o.checkCodes, o.checkLease} {
		if err := check(f); err != nil {
			return err
		}
	}
	var err error
	if o.Stop, err = procgroup.ParseSignal(o.signal); err != nil {
		return output.UsageError("--signal: %w", err)
	}
	return nil
}

func (o *runOptions) checkCommand(*pflag.FlagSet) error {
	switch {
	case len(o.Args) == 0 || o.Args[0] == "":
		return output.UsageError("no command to run while %q is held; use: holdfast %s NAME -- CMD [ARG...]", o.Name, o.verb)
	case o.shell && len(o.Args) > 1:
		return output.UsageError("--shell takes the whole script as one argument; put it in quotes")
	}
	if o.shell {
		o.Args = []string{"sh", "-c", o.Args[0]}
	}
	return nil
}

func (o *runOptions) checkDurations(*pflag.FlagSet) error {
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"max-hold", o.MaxHold}, {"at-least", o.AtLeast}, {"kill-after", o.KillAfter},
	} {
		if d.value < 0 {
			return output.UsageError("--%s %s is negative", d.flag, d.value)
		}
	}
	switch held := o.MaxHold - o.MaxHoldMargin(); {
	case o.MaxHold != 0 && (o.MaxHold < minTTL || o.MaxHold > maxTTL):
		return output.UsageError("--max-hold %s: use %s to %s", o.MaxHold, minTTL, maxTTL)
	case o.MaxHold > 0 && o.AtLeast > held:
		return output.UsageError("--max-hold %s holds the lock for %s, less than --at-least %s", o.MaxHold, held, o.AtLeast)
	}
	return nil
}

func (o *runOptions) checkCodes(f *pflag.FlagSet) error {
	if o.SkipOK && f.Changed("conflict-exit-code") {
		return output.UsageError("--skip-ok means a conflict exit code of 0; give one of --skip-ok and --conflict-exit-code")
	}
	return nil
}

// checkLease refuses times that contradict the lease.
func (o *runOptions) checkLease(f *pflag.FlagSet) error {
	if most := o.MaxKillAfter(o.TTL); o.KillAfter >= most {
		return output.UsageError("--kill-after %s is too long for --ttl %s: the command would be stopped before the lock "+
			"is due to be renewed; use less than %s, or a longer --ttl", o.KillAfter, o.TTL, most)
	}
	if !o.NoRenew {
		return nil
	}
	switch held := o.TTL - o.MarginOf(o.TTL); {
	case o.AtLeast > held:
		return output.UsageError("--no-renew holds the lock for %s, less than --at-least %s; use a longer --ttl", held, o.AtLeast)
	case o.MaxHold > held:
		return output.UsageError("--no-renew holds the lock for %s, less than --max-hold %s; use a longer --ttl", held, o.MaxHold)
	}
	return nil
}
