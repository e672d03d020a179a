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

// forceOptions is the command line of force-unlock.
type forceOptions struct {
	readOptions
	operate.ForceOptions
	yes bool
}

func newForceUnlockCommand(env output.Environment) *cobra.Command {
	o := &forceOptions{}
	cmd := &cobra.Command{
		Use:               "force-unlock [flags] NAME",
		SuggestFor:        []string{"unlock", "release", "break"},
		Short:             "End a hold that its holder has not released",
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
	f.StringVar(&o.Reason, "reason", "", "why you end the hold: the holder gets this text; required")
	f.StringVar(&o.Holder, "holder", "", "end the hold of this holder: its owner or its name, which ls and inspect show")
	f.Uint64Var(&o.Token, "token", 0, "end the hold with this fencing token")
	o.AddEventLogTo(f)
	f.Lookup("event-log").Usage = "record the forced unlock, with the reason, in the event log of Redis, for tail --since and the dashboard"
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask on a terminal; only with --holder or --token")
	return cmd
}

func (o *forceOptions) complete(cmd *cobra.Command, _ []string) error {
	f, terminal := cmd.Flags(), output.IsTerminal(cmd.InOrStdin())
	o.Name, o.Reason = o.name, strings.TrimSpace(o.Reason)
	chosen := f.Changed("holder") || f.Changed("token")
	mustChoose := !chosen && (o.yes || !terminal)
	switch {
	case o.Reason == "" && mustChoose:
		return output.UsageError("--reason is missing, and --holder or --token: say why you end the hold, which the holder gets, and which hold, with the value that inspect shows")
	case o.Reason == "":
		return output.UsageError("--reason is missing: say why you end the hold; the holder gets this text")
	case f.Changed("holder") && o.Holder == "", f.Changed("token") && o.Token == 0: // for example, the value of an unset shell variable
		return output.UsageError("an empty --holder, or --token 0, names no hold; give the values that inspect shows")
	case o.yes && !chosen:
		return output.UsageError("with --yes, also give the hold to end: --holder or --token, with the value that inspect shows")
	case !chosen && !terminal:
		return output.UsageError("standard input is not a terminal, so holdfast cannot ask which hold to end: give --holder or --token with the value that inspect shows")
	}
	o.Ask = !o.yes && terminal
	return nil
}
