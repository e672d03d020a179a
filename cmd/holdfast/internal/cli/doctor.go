package cli

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// doctorLimit is the default of --timeout, which limits the whole examination.
const doctorLimit = time.Minute

// doctorOptions is the command line of doctor.
type doctorOptions struct {
	readOptions
	name   string
	ttl    time.Duration
	margin time.Duration
	keys   int
	failOn string
	token  uint64 // the largest that a resource has accepted; 0: not given

	fails doctor.Severity // the severity from which the exit status is 1; complete sets it from failOn
}

func newDoctorCommand(env output.Environment) *cobra.Command {
	o := &doctorOptions{}
	o.goesOn = true // doctor reports a problem of the store as a finding, and goes on
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Report what endangers the locks of a store",
		Args:    noArguments,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return o.complete(cmd.Flags(), env) },
		RunE:    o.reads(env, o.examine),
	}
	o.addTo(cmd.Flags())
	return cmd
}

func (o *doctorOptions) addTo(f *pflag.FlagSet) {
	o.readOptions.addTo(f, doctorLimit)
	f.Lookup("json").Usage = "print the report as JSON"
	f.Lookup("verbose").Usage = "also show checks without a problem"
	f.StringVar(&o.name, "name", "", "prefix of the test locks, for a user with permissions only for names with this prefix")
	durationVar(f, &o.ttl, "ttl", "t", defaultTTL, "the lease time of the programs; overrides $HOLDFAST_TTL")
	durationVar(f, &o.margin, "margin", "", 0, "how long before the end of its lease a lock counts as lost (default a tenth of --ttl)")
	f.IntVar(&o.keys, "keys", 20000, "how many keys to read in search of locks without an end; 0 for none")
	f.Uint64Var(&o.token, "last-token", 0, "the largest fencing token that a resource has accepted: check that new tokens are larger")
	f.StringVar(&o.failOn, "fail-on", "warning", "the lowest severity with exit status 1: note, warning, danger or never")
}

// complete sets the options that come from the environment, the configuration or a default,
// and checks all options.
func (o *doctorOptions) complete(f *pflag.FlagSet, env output.Environment) error {
	settings := append(lockSettings(), store.Setting{Flag: "margin", Key: "lock.margin"})
	if err := o.Configure(f, env, output.NewReporter(env, o.verbose), settings...); err != nil {
		return err
	}
	if !o.Given("margin") {
		o.margin = o.ttl / 10
	}
	switch {
	case o.ttl < minTTL:
		return output.UsageError("--ttl %s is too short; use at least %s", o.ttl, minTTL)
	case o.margin <= 0 || o.margin >= o.ttl/2:
		return output.UsageError("--margin %s is too long for --ttl %s; use less than half of the TTL", o.margin, o.ttl)
	case o.failOn == "never":
		o.fails = doctor.Danger + 1
		return nil
	}
	var err error
	if o.fails, err = doctor.ParseSeverity(o.failOn); err != nil || o.fails < doctor.Note {
		return output.UsageError("--fail-on %q; use note, warning, danger or never", o.failOn)
	}
	return nil
}

// examine examines the store and prints the report. If a finding is at least as severe as
// --fail-on, it returns an error with the exit status 1.
func (o *doctorOptions) examine(ctx context.Context, l *reader) error {
	how := doctor.Options{TTL: o.ttl, Margin: o.margin, Name: o.name, Keys: cmp.Or(o.keys, -1)}
	report, err := l.store.Examine(ctx, how, o.token)
	if err != nil {
		return err
	}
	if err = l.print(report, output.ReportText(report, o.verbose)); err == nil && report.Worst >= o.fails {
		return output.Exit(output.ExitFailure)
	}
	return err
}
