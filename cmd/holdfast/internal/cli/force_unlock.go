package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/operate"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
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

// forceOptions is the command line of force-unlock.
type forceOptions struct {
	readOptions
	operate.ForceOptions
	yes bool
}

func newForceUnlockCommand(env output.Environment) *cobra.Command {
	o := &forceOptions{}
	cmd := &cobra.Command{
		Use:   "force-unlock [flags] NAME",
		Short: "End a hold that its holder has not released",
		Long:  forceLong,
		Example: `  holdfast force-unlock deploy/prod --reason "runner 7 is gone, INC-1234"
  # in a script
  holdfast force-unlock deploy/prod --reason INC-1234 \
    --holder 71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11:42`,
		ValidArgsFunction: completeNames(env, &o.Connection, cobra.ShellCompDirectiveNoFileComp),
		Args:              oneName(&o.name),
		PreRunE:           o.complete,
		RunE: o.reads(env, func(ctx context.Context, l *reader) error {
			if source, ok := l.store.Backend.(admin.Source); ok && o.EventLog {
				log := audit.New(source, &audit.Options{Logger: l.logger})
				defer supervise.Flush(log)
				o.Forced = log.Forced
			}
			return l.ForceUnlock(ctx, &o.ForceOptions)
		}),
	}
	f := cmd.Flags()
	o.addTo(f, 0)
	f.StringVar(&o.Reason, "reason", "", "why: the holder gets it; required")
	f.StringVar(&o.Holder, "holder", "", "the id of the holder whose hold to end, as inspect shows it")
	f.Uint64Var(&o.Token, "token", 0, "the fencing token of the hold to end")
	o.AddEventLogTo(f)
	f.Lookup("event-log").Usage = "record in Redis that the hold was ended, and why, for tail --since and the dashboard"
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask on a terminal; only with --holder or --token")
	return cmd
}

func (o *forceOptions) complete(cmd *cobra.Command, _ []string) error {
	f, terminal := cmd.Flags(), output.IsTerminal(cmd.InOrStdin())
	o.Name, o.Reason = o.name, strings.TrimSpace(o.Reason)
	chosen := f.Changed("holder") || f.Changed("token")
	switch {
	case o.Reason == "":
		return output.UsageError("--reason is missing: the holder, and whoever asks later, will want to know")
	case f.Changed("holder") && o.Holder == "", f.Changed("token") && o.Token == 0: // such as from an unset variable
		return output.UsageError("an empty --holder, or --token 0, names nobody; give them as inspect shows them")
	case o.yes && !chosen:
		return output.UsageError("--yes does not say whose hold to end: give --holder or --token, as inspect shows them")
	case !chosen && !terminal:
		return output.UsageError("standard input is no terminal to ask on: say whose hold to end with --holder or --token, as inspect shows them")
	}
	o.Ask = !o.yes && terminal
	return nil
}
