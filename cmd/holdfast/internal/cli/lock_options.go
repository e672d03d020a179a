package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
)

const (
	defaultTTL = 30 * time.Second
	minTTL     = 100 * time.Millisecond // a shorter lease would end before a command can be started and stopped
	maxTTL     = 100 * 365 * 24 * time.Hour
	maxPermits = 1<<31 - 1 // the largest number of permits that a semaphore can have in Java
)

// lockOptions are the flags of commands that take a lock.
type lockOptions struct {
	store.Connection
	supervise.Lock
	verbose bool
}

// addTo adds the flags of all commands that take a lock. Among them are the flags for the
// store, for the lease, and for the reason and the labels of a hold.
func (o *lockOptions) addTo(f *pflag.FlagSet) {
	o.AddStoreTo(f)
	o.AllowSeveral(f, "independent servers, and a majority must agree")
	durationVar(f, &o.TTL, "ttl", "t", defaultTTL, "lease time: how long the lock survives if the holder stops renewing; overrides $HOLDFAST_TTL")
	f.StringVar(&o.Reason, "reason", "", "why you hold the lock; waiters see it")
	o.AddEventLogTo(f)
	f.StringArrayVar(&o.Labels, "label", nil, "key=value, shown beside the reason; may be repeated")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print what happens")
}

// lockSettings returns the flags that the section "lock" of a configuration can set.
func lockSettings() []store.Setting {
	return []store.Setting{
		{Flag: "ttl", Variable: "HOLDFAST_TTL", Key: "lock.ttl"},
		{Flag: "wait", Key: "lock.wait"},
		{Flag: "max-hold", Key: "lock.max_hold"},
		{Flag: "kill-after", Key: "lock.kill_after"},
		{Flag: "fair", Key: "lock.fair"},
	}
}

// addKindTo adds the flags for the kind of lock, and for how the command waits for the lock. All
// clients of one name must use the same kind of lock.
func (o *lockOptions) addKindTo(f *pflag.FlagSet) {
	f.BoolVarP(&o.Nonblock, "nonblock", "n", false, "do not wait if the lock is held")
	durationVar(f, &o.Wait, "wait", "w", 0, "the longest time to wait for the lock, such as 30s; a number alone means seconds; 0 does not wait, as -n; default no limit")
	f.IntVarP(&o.ConflictCode, "conflict-exit-code", "E", output.ExitBusy, "exit status if another client holds the lock")
	f.BoolVar(&o.Fair, "fair", false, "grant the lock in the order of requests; all clients of the lock must use --fair")
	f.BoolVar(&o.Shared, "shared", false, "the read side of a read-write lock: many clients can hold it at once")
	f.BoolVar(&o.Exclusive, "exclusive", false, "the write side of a read-write lock, which only one client can hold")
	f.IntVar(&o.Permits, "permits", 0, "a semaphore that this many clients can hold at once; the first client stores the number")
}

// complete sets the options that come from the environment, the configuration or a default, and
// checks those options that all commands with a lock have.
func (o *lockOptions) complete(f *pflag.FlagSet, env output.Environment) error {
	if err := o.Configure(f, env, output.NewReporter(env, o.verbose), lockSettings()...); err != nil {
		return err
	}
	if err := refuseNegative(f); err != nil {
		return err
	}
	o.Margin = o.Config.Duration("lock.margin")
	switch {
	case o.Name == "":
		return output.UsageError("the name of the lock is empty")
	case o.TTL < minTTL:
		return output.UsageError("--ttl %s is too short; use at least %s", o.TTL, minTTL)
	case o.TTL > maxTTL:
		return output.UsageError("--ttl %s is too long; use at most %s", o.TTL, maxTTL)
	case o.Nonblock && f.Changed("wait"):
		return output.UsageError("--nonblock and --wait contradict each other; give only one of them")
	case o.Margin < 0 || o.Margin >= o.TTL/2:
		return output.UsageError("%s of %s is too long for a --ttl of %s: use less than half of the TTL", o.Config.Where("lock.margin"), o.Margin, o.TTL)
	case o.ConflictCode > 255: // a system keeps only eight bits of an exit status, so 256 would mean success
		return output.UsageError("--conflict-exit-code %d is not an exit status; use 0 to 255", o.ConflictCode)
	}
	if f.Lookup("wait") != nil && o.Given("wait") && o.Wait == 0 { // as for flock, and for holdfast.Wait
		o.Nonblock = true
	}
	if o.Nonblock {
		o.Wait = 0 // the configuration may have set it
	}
	for _, label := range o.Labels {
		if key, _, ok := strings.Cut(label, "="); !ok || key == "" {
			return output.UsageError("--label %q: use key=value", label)
		}
	}
	return o.checkKind(f)
}

// refuseNegative returns an error if the value of a flag is a negative number or time.
func refuseNegative(f *pflag.FlagSet) (err error) {
	f.VisitAll(func(flag *pflag.Flag) {
		kind := flag.Value.Type()
		if (kind == "int" || kind == "duration") && strings.HasPrefix(flag.Value.String(), "-") {
			err = output.UsageError("--%s %s is negative", flag.Name, flag.Value)
		}
	})
	return err
}

func (o *lockOptions) checkKind(f *pflag.FlagSet) error {
	if (o.Shared || o.Exclusive || o.Permits != 0) && !f.Changed("fair") {
		o.Fair = false // the configuration has set Fair, which applies only to exclusive locks
	}
	kinds := 0
	for _, chosen := range []bool{o.Fair, o.Shared, o.Exclusive, o.Permits != 0} {
		if chosen {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return output.UsageError("--fair, --shared, --exclusive and --permits are for different kinds of lock; give only one of them")
	case f.Changed("permits") && o.Permits == 0:
		return output.UsageError("--permits 0: a semaphore needs a permit; use 1 or more")
	case o.Permits > maxPermits:
		return output.UsageError("--permits %d is too large; use at most %d", o.Permits, maxPermits)
	}
	return nil
}

// needs returns an error if the store lacks a feature that the flags need.
func (o *lockOptions) needs(t *open.Target) error {
	if t.Kind == open.Redis {
		return nil // the features depend on the layout, and the library checks them
	}
	switch caps := t.Info().Caps; {
	case o.Fair && !caps.Fair:
		return store.Lacks(t, "has no fair locks (--fair)")
	case (o.Shared || o.Exclusive) && !caps.Shared:
		return store.Lacks(t, "has no read-write locks (--shared, --exclusive)")
	case o.Permits > 0 && !caps.Permits:
		return store.Lacks(t, "has no semaphores (--permits)")
	}
	return nil
}

// takes returns the RunE of a command that takes a lock. The RunE calls the function `start`
// with a Program. The Program has a function Open, by which package supervise opens the store.
func (o *lockOptions) takes(env output.Environment, start func(context.Context, supervise.Program) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		report := output.NewReporter(env, o.verbose)
		logger, err := report.LibraryLogger(env)
		if err != nil {
			return err
		}
		request := store.Request{Name: o.Name, TTL: o.TTL, Need: o.needs, Logger: logger}
		p := supervise.Program{Env: env, Report: report, Logger: logger, EventLog: o.EventLog, Advise: store.WithAdvice}
		p.Open = func(ctx context.Context, limit time.Duration) (*open.Store, error) {
			request.Wait = limit
			return o.Open(ctx, request, env, report)
		}
		return start(cmd.Context(), p)
	}
}
