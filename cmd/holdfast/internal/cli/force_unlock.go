package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
	"github.com/holdfast-go/holdfast/driver"
)

const forceLong = `Force-unlock ends a hold of the lock NAME that its holder has not released, and wakes
waiters.

It does not stop the holder. The holder learns of the forced unlock at its next renewal,
and goes on until then; only fencing tokens protect the data meanwhile. If the holder is
dead, its lease ends by itself: waiting for that is safer.

On a terminal it shows the holder and asks for the name of the lock. Without a terminal,
or with --yes, give --holder (the owner id from inspect) or --token (the fencing token,
which inspect shows for Holdfast clients after a few seconds).

It ends only the hold that it has shown. If that hold is over or has changed, nothing
happens, and the exit status is 1; also if the name is free, or if the answer is another
name. The holder gets the reason and your user name, if --prefix is that of its program.

Exit status: 0 if the hold was ended; 1 if not; 64, 69, 77 as run.`

const forceExample = `  holdfast force-unlock deploy/prod --reason "runner 7 is gone, INC-1234"
  # in a script
  holdfast force-unlock deploy/prod --reason INC-1234 \
    --holder 71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11:42`

// forceOptions is the command line of force-unlock.
type forceOptions struct {
	readOptions
	holder string
	token  uint64
	reason string
	yes    bool
	ask    bool // before anything is done
}

func newForceUnlockCommand(env output.Environment) *cobra.Command {
	o := &forceOptions{}
	cmd := &cobra.Command{
		Use:                   "force-unlock [flags] NAME",
		Short:                 "End a hold that its holder has not released",
		Long:                  forceLong,
		Example:               forceExample,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeNames(env, &o.readOptions),
		Args:                  oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(cmd.Flags(), env); err != nil {
				return err
			}
			o.name = args[0]
			return o.read(cmd.Context(), cmd.Flags(), env, func(ctx context.Context, l *reader) error {
				return (&unlocker{forceOptions: o, reader: l}).run(ctx)
			})
		},
	}
	f := cmd.Flags()
	o.addTo(f, 0)
	f.StringVar(&o.reason, "reason", "", "why: the holder gets it; required")
	f.StringVar(&o.holder, "holder", "", "the id of the holder whose hold to end, as inspect shows it")
	f.Uint64Var(&o.token, "token", 0, "the fencing token of the hold to end")
	o.AddEventLogTo(f)
	f.Lookup("event-log").Usage = "record in Redis that the hold was ended, and why, for tail --since and the dashboard"
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask on a terminal; only with --holder or --token")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "owner" {
			name = "holder"
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}

func (o *forceOptions) complete(f *pflag.FlagSet, env output.Environment) error {
	o.reason = strings.TrimSpace(o.reason)
	chosen := f.Changed("holder") || f.Changed("token")
	switch {
	case o.reason == "":
		return output.UsageError("--reason is missing: the holder, and whoever asks later, will want to know")
	case f.Changed("holder") && o.holder == "", f.Changed("token") && o.token == 0: // such as of a variable that is not set
		return output.UsageError("an empty --holder, or --token 0, names nobody; give them as inspect shows them")
	case o.yes && !chosen:
		return output.UsageError("--yes does not say whose hold to end: give --holder or --token, as inspect shows them")
	case !chosen && !output.IsTerminal(env.Stdin):
		return output.UsageError("standard input is no terminal to ask on: say whose hold to end with --holder or --token, as inspect shows them")
	}
	o.ask = !o.yes && output.IsTerminal(env.Stdin)
	return nil
}

// unlocker runs a force-unlock.
type unlocker struct {
	*forceOptions
	*reader
}

func (c *unlocker) run(ctx context.Context) error {
	record, hold, err := c.choose(ctx)
	if err != nil {
		return err
	}
	seen := time.Now()
	if c.ask {
		if err := c.confirm(ctx, record, hold); err != nil {
			return err
		}
	}
	if err := c.end(ctx, hold, seen); err != nil {
		return err
	}
	return c.print(record, hold)
}

// end ends the hold, within a limit that does not count the time for the
// answer of a person.
func (c *unlocker) end(ctx context.Context, hold admin.Hold, seen time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	h := hold.Holder
	if h.Remaining > 0 {
		h.Remaining = max(h.Remaining-time.Since(seen), time.Second)
	}
	reason := c.reason + c.signature()
	err := c.console.ForceUnlock(ctx, c.name, h, reason)
	if errors.Is(err, driver.ErrGone) {
		return &output.ExitError{Code: output.ExitFailure, Err: fmt.Errorf("nothing was done: %w", err)}
	}
	if source, ok := c.store.Backend.(admin.Source); ok && err == nil && c.EventLog {
		log := audit.New(source, &audit.Options{Logger: c.logger})
		log.Forced(c.name, h, reason)
		supervise.Flush(log)
	}
	return err
}

// signature says who forces the lock.
func (c *unlocker) signature() string {
	who, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	if name, err := os.Hostname(); err == nil {
		host = name
	}
	return fmt.Sprintf(" (%s@%s)", who, host)
}

// choose finds the hold that is meant.
func (c *unlocker) choose(ctx context.Context) (admin.Record, admin.Hold, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	records, err := c.console.Get(ctx, c.name)
	if err != nil {
		return admin.Record{}, admin.Hold{}, err
	}
	r := records[0]
	if len(r.Holds) == 0 {
		return r, admin.Hold{}, c.no("nobody holds %q", c.name)
	}
	if c.token != 0 && !slices.ContainsFunc(r.Holds, func(h admin.Hold) bool { return h.Token != 0 }) {
		return r, admin.Hold{}, output.UsageError("the token of that hold is not known (or not yet: clients say it after a few seconds): give --holder, as inspect shows it")
	}
	var found []admin.Hold
	for _, h := range r.Holds {
		if (c.holder == "" || h.Owner == c.holder) && (c.token == 0 || h.Token == c.token) {
			found = append(found, h)
		}
	}
	switch len(found) {
	case 1:
		return r, found[0], nil
	case 0:
		return r, admin.Hold{}, c.no("that holder has no hold of %q any more; now: %s", c.name, output.People(r))
	default:
		return r, admin.Hold{}, output.UsageError("%q has %d holders: give the --holder that is meant, as inspect shows it", c.name, r.Holders)
	}
}

// no is the end without success.
func (c *unlocker) no(format string, args ...any) error {
	return &output.ExitError{Code: output.ExitFailure, Err: fmt.Errorf("nothing was done: "+format, args...)}
}

// confirm shows what is to be ended, and wants the name of the lock typed.
func (c *unlocker) confirm(ctx context.Context, r admin.Record, h admin.Hold) error {
	var p output.Page
	p.Line("name", "%s", output.Clean(r.Name))
	p.Line("kind", "%s", r.Kind)
	shown := r
	shown.Holds, shown.Holders = []admin.Hold{h}, 1
	p.Holds(shown)
	p.Waiters(r)
	p.Line("", "")
	if !h.Kept() {
		fmt.Fprintln(&p, "The holder is not stopped by this. Only fencing tokens protect the data until it notices.")
	}
	if !h.Kept() && h.Remaining >= 0 && h.Remaining < 10*time.Second {
		fmt.Fprintf(&p, "Its lease ends in %s unless it is renewed: if the holder is dead, waiting is safer.\n", output.Coarse(h.Remaining))
	}
	fmt.Fprint(&p, "Type the name of the lock to end this hold: ")
	if _, err := io.WriteString(c.env.Stderr, p.String()); err != nil {
		return err
	}
	answer, err := output.Typed(ctx, func() (string, error) { return bufio.NewReader(c.env.Stdin).ReadString('\n') })
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(c.env.Stderr)
		return err
	}
	if answer = strings.TrimRight(answer, "\r\n"); answer != c.name && answer != output.Clean(c.name) {
		return c.no("that is not %q", c.name)
	}
	return nil
}

// forcedJSON is what force-unlock --json prints.
type forcedJSON struct {
	Version int         `json:"version"`
	Event   string      `json:"event"` // forced
	Name    string      `json:"name"`
	Reason  string      `json:"reason"`
	At      time.Time   `json:"at"`
	Hold    output.Hold `json:"hold"`
}

func (c *unlocker) print(r admin.Record, h admin.Hold) error {
	if c.json {
		return output.JSONTo(c.env.Stdout).Encode(forcedJSON{output.JSONVersion, "forced", r.Name, c.reason, time.Now(), output.HoldOf(h)})
	}
	_, err := fmt.Fprintf(c.env.Stdout, "ended the hold of %s on %q\n", output.Person(h.Owner, h.Note, h.Client), r.Name)
	return err
}
