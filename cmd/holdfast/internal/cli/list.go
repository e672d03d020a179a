package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

const listLong = `Ls lists locked names of all programs: Redisson's locks of all kinds too, held by Java or
by Go. It scans the keys with SCAN in small steps, and reads those that can be locks. It
changes nothing.

PATTERN is a prefix of names, or a pattern with *, ? and [...]. Ls reads only names that
begin with the part before the first of these.

Without --prefix, locks of programs that use a key prefix have that prefix in their
names; ls guesses the prefix from the first three separators (: / .) to find their
holders, and shows unknown holders as Redisson clients.

In a store with much other data, --keys limits how many keys are read, --pace how many
commands per second the store runs, and --timeout the time. If one of them ends the list
early, a message says so and the exit status is 1: the printed lines are true, but there
may be more.

Latches and plain semaphores are bare numbers in the store: --counters lists every bare
number.

Exit status: 0 if the list is complete, locks or none; 1 if not; 64, 69, 77 as run.`

const listExample = `  holdfast ls
  holdfast ls 'deploy/*' --waiting
  holdfast ls --sort lease --limit 20 --watch 2s
  holdfast ls --json |
    jq -r 'select(.remaining_ms >= 0 and .remaining_ms < 5000) | .name'`

const listTimeout = 30 * time.Second

// listOptions is the command line of ls.
type listOptions struct {
	readOptions
	pattern  string
	held     bool
	waiting  bool
	counters bool
	wide     bool
	sort     string
	limit    int
	keys     int
	pace     int
	timeout  time.Duration
	watch    time.Duration
}

func newListCommand(env output.Environment) *cobra.Command {
	o := &listOptions{}
	cmd := &cobra.Command{
		Use:                   "ls [flags] [PATTERN]",
		Aliases:               []string{"list"},
		Short:                 "List the locks",
		Long:                  listLong,
		Example:               listExample,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeNames(env, &o.readOptions),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(cmd, args); err != nil {
				return err
			}
			o.goesOn = o.watch > 0
			return o.read(cmd.Context(), cmd.Flags(), env, func(ctx context.Context, l *reader) error {
				if o.watch > 0 {
					return o.again(ctx, l)
				}
				return (&lister{listOptions: o, reader: l, out: env.Stdout}).run(ctx)
			})
		},
	}
	o.addTo(cmd.Flags())
	return cmd
}

func (o *listOptions) addTo(f *pflag.FlagSet) {
	o.readOptions.addTo(f, 0)
	f.DurationVar(&o.timeout, "timeout", listTimeout, "end the list after this; 0 never does")
	f.DurationVar(&o.watch, "watch", 0, "print the list again, this long after it was complete")
	f.BoolVar(&o.held, "held", false, "only locks with holders")
	f.BoolVar(&o.waiting, "waiting", false, "only locks with waiters")
	f.BoolVar(&o.counters, "counters", false, "also bare numbers, which may be latches and plain semaphores")
	f.BoolVar(&o.wide, "wide", false, "each holder on a separate line, with its id")
	f.StringVar(&o.sort, "sort", "", "by name, kind, holder, lease or waiters; with --json no order is the default")
	f.IntVar(&o.limit, "limit", 0, "the largest number of locks to print; 0 prints all")
	f.IntVar(&o.keys, "keys", 0, "look at no more than so many keys; 0 looks at all")
	f.IntVar(&o.pace, "pace", 0, "commands per second for the store at most; 0 is as fast as it answers")
}

func (o *listOptions) complete(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return output.UsageError("one pattern at most; put it in quotes, else the shell replaces it by names of files; use: %s", cmd.UseLine())
	}
	if len(args) == 1 {
		o.pattern = args[0]
	}
	if _, err := path.Match(o.pattern, ""); err != nil {
		return output.UsageError("the pattern %q is not complete: [ without ], or \\ at the end", o.pattern)
	}
	if o.limit < 0 || o.keys < 0 || o.pace < 0 || o.timeout < 0 {
		return output.UsageError("--limit, --keys, --pace and --timeout cannot be negative")
	}
	if cmd.Flags().Changed("watch") && (o.watch < 100*time.Millisecond || o.json) {
		return output.UsageError("--watch is at least 100ms, and not for --json: use tail, which prints what changes")
	}
	if o.sort == "" && !o.json {
		o.sort = "name"
	}
	if _, ok := orders()[o.sort]; !ok && o.sort != "" {
		return output.UsageError("--sort %q: use name, kind, holder, lease or waiters", o.sort)
	}
	return nil
}

// orders are the ways to sort a list.
func orders() map[string]func(a, b admin.Record) int {
	return map[string]func(a, b admin.Record) int{
		"name":    func(admin.Record, admin.Record) int { return 0 },
		"kind":    func(a, b admin.Record) int { return cmp.Compare(a.Kind, b.Kind) },
		"holder":  func(a, b admin.Record) int { return cmp.Compare(output.People(a), output.People(b)) },
		"lease":   func(a, b admin.Record) int { return cmp.Compare(uint64(output.Lease(a)), uint64(output.Lease(b))) }, // negative is forever
		"waiters": func(a, b admin.Record) int { return cmp.Compare(output.Waiters(b), output.Waiters(a)) },
	}
}

// beginning returns what all names that match a pattern begin with. A pattern
// without special characters is a beginning itself.
func beginning(pattern string) string {
	end := strings.IndexAny(pattern, `*?[\`)
	if end < 0 {
		return pattern
	}
	return pattern[:end]
}

// matches reports that a name is one of those that a pattern means. Unlike in
// names of files, a * stands for slashes too.
func matches(pattern, name string) bool {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return strings.HasPrefix(name, pattern)
	}
	const slash = "\x00" // path.Match keeps stars from slashes, and from nothing else
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", slash), strings.ReplaceAll(name, "/", slash))
	return ok && err == nil
}

// lister makes a list.
type lister struct {
	*listOptions
	*reader
	out    io.Writer
	shown  int
	kept   []admin.Record // to be sorted
	failed error
}

// again prints the list until ctx ends. A store that does not answer is waited
// for: the message stands in place of the list.
func (o *listOptions) again(ctx context.Context, l *reader) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		var text bytes.Buffer
		err := (&lister{listOptions: o, reader: l, out: &text}).run(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(&text, "%s: %v\n", time.Now().Format(time.TimeOnly), err)
		} else {
			fmt.Fprintf(&text, "as of %s\n", time.Now().Format(time.TimeOnly))
		}
		home := ""
		if output.IsTerminal(l.env.Stdout) {
			home = "\x1b[H\x1b[J"
		}
		if _, err := io.WriteString(l.env.Stdout, home+text.String()); err != nil {
			return err
		}
		timer.Reset(o.watch)
	}
}

func (l *lister) run(ctx context.Context) error {
	if l.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.timeout)
		defer cancel()
	}
	for record, err := range l.console.List(ctx, admin.Filter{
		NamePrefix: beginning(l.pattern), Keys: l.keys, Pace: l.pace, Counters: l.counters,
	}) {
		if err != nil {
			l.failed = err
			break
		}
		if !l.wanted(record) {
			continue
		}
		if l.sort != "" {
			l.kept = append(l.kept, record)
			continue
		}
		if l.limit > 0 && l.shown == l.limit {
			l.report.Line(output.LevelNotice, fmt.Sprintf("there are more; --limit is %d", l.limit))
			break
		}
		l.shown++
		if err := l.print(record); err != nil {
			return err
		}
	}
	if l.sort != "" {
		if err := l.printSorted(); err != nil {
			return err
		}
	}
	return l.incomplete(ctx)
}

func (l *lister) wanted(r admin.Record) bool {
	return matches(l.pattern, r.Name) && (!l.held || r.Holders > 0) && (!l.waiting || output.Waiters(r) > 0)
}

// incomplete says why there may be more than was printed.
func (l *lister) incomplete(ctx context.Context) error {
	err := l.failed
	switch {
	case err == nil:
		return nil
	case errors.Is(err, admin.ErrIncomplete):
		err = fmt.Errorf("incomplete: %d keys were looked at, and there are more (--keys)", l.keys)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("incomplete: it took longer than --timeout %s", l.timeout)
	case l.shown+len(l.kept) == 0, ctx.Err() != nil:
		return err
	default:
		err = fmt.Errorf("incomplete: %w", err)
	}
	return &output.ExitError{Code: output.ExitFailure, Err: err}
}

func (l *lister) print(r admin.Record) error {
	return output.JSONTo(l.out).Encode(output.RecordOf(r))
}

func (l *lister) printSorted() error {
	order := orders()[l.sort]
	slices.SortFunc(l.kept, func(a, b admin.Record) int {
		return cmp.Or(order(a, b), cmp.Compare(a.Name, b.Name))
	})
	shown := l.kept
	if l.limit > 0 && len(shown) > l.limit {
		if l.watch == 0 {
			l.report.Line(output.LevelNotice, fmt.Sprintf("there are %d more; --limit is %d", len(shown)-l.limit, l.limit))
		}
		shown = shown[:l.limit]
	}
	if l.json {
		for _, r := range shown {
			if err := l.print(r); err != nil {
				return err
			}
		}
		return nil
	}
	if len(shown) == 0 && l.failed != nil {
		return nil
	}
	if len(shown) == 0 {
		text := "nothing is locked"
		if l.pattern != "" {
			text = fmt.Sprintf("no locked name matches %q", l.pattern)
		}
		if l.watch > 0 {
			_, err := fmt.Fprintln(l.out, text)
			return err
		}
		l.report.Line(output.LevelNotice, text)
		return nil
	}
	width := 0
	if !l.wide && output.IsTerminal(l.env.Stdout) {
		width = output.WidthOf(l.env.Stdout, helpWidth)
	}
	_, err := io.WriteString(l.out, output.Table(shown, l.wide, width))
	return err
}
