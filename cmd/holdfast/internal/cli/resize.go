package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
	"github.com/holdfast-go/holdfast/internal/plural"
)

func newResizeCommand(env output.Environment) *cobra.Command {
	o := &readOptions{need: needSizes}
	var permits int
	cmd := &cobra.Command{
		Use:               "resize [flags] NAME PERMITS",
		Short:             "Change the number of permits of a semaphore",
		ValidArgsFunction: completeNames(env, &o.Connection, cobra.ShellCompDirectiveNoFileComp),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" {
				return output.UsageError("give the name of a semaphore and a number; use: %s", cmd.UseLine())
			}
			var err error
			o.name = args[0]
			if permits, err = strconv.Atoi(args[1]); err != nil || permits < 1 || permits > maxPermits {
				return output.UsageError("%q is not a number of permits; use 1 to %d", args[1], maxPermits)
			}
			return nil
		},
		RunE: o.reads(env, func(ctx context.Context, l *reader) error { return l.resize(ctx, o.name, permits) }),
	}
	o.addTo(cmd.Flags(), lookLimit)
	return cmd
}

// needSizes returns an error if the store cannot change the number of permits of a semaphore.
func needSizes(t *open.Target) error {
	if t.Kind == open.Redis {
		return nil
	}
	return store.Lacks(t, "cannot change how many permits a semaphore has")
}

// resized is what "holdfast resize --json" prints.
type resized struct {
	Name    string `json:"name"`
	Before  int    `json:"before"`
	Permits int    `json:"permits"`
	Free    int    `json:"free"`
}

// resize sets the number of permits and prints the result.
func (l *reader) resize(ctx context.Context, name string, permits int) error {
	locker := holdfast.New(l.store.Backend, &holdfast.Options{Logger: l.logger})
	defer supervise.Drain(locker, supervise.DrainWait)
	s := locker.Semaphore(name, permits)
	before, free, err := s.Permits(ctx)
	if err != nil {
		return err
	}
	if before == 0 && free == 0 {
		return &output.ExitError{Code: output.ExitFailure, Err: fmt.Errorf("there is no semaphore %q: the first client that uses a semaphore creates it, for example: holdfast hold --permits %d %s", name, permits, name)}
	}
	if err := s.Resize(ctx, permits); err != nil {
		return err
	}
	now, free, err := s.Permits(ctx)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("semaphore %s: %s, %d before, %d free", output.Clean(name), plural.Count(now, "permit"), before, max(0, free))
	if free < 0 {
		text += fmt.Sprintf("; clients hold %s too many, until they release enough", plural.Count(-free, "permit"))
	}
	return l.print(resized{name, before, now, free}, text+"\n")
}
