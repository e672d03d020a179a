package cli

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/operate"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const tailLong = `Tail prints events: grants, releases and waits. It begins with the locks that are held
now.

Each client has one source of events. Clients with package audit or --event-log write
their waits, grants, releases, losses and late renewals to the event log of the store, and
tail prints these. --since prints those of that time first. The events of all other clients
are found by polling, and so are expired leases and queues of all clients.

Tail polls the locks that it knows every --every, and scans for new ones every --scan, with
at most --pace commands per second for each; with more locks than that allows, it polls
them in turn. Holds between two polls are invisible, and the printed time is that of the
poll, or of the grant if the store has it. A hold that ended is "expired" if its lease was
about to end, "forced" if the store still knows the reason, otherwise "released".
"Renewed-late" is a lease that had less than a third left before its renewal.

An entry of the event log is written about a second after its event. On stores with an event
log, tail therefore prints each event two seconds later, in the order of time.

PATTERN and --prefix work as in ls. Without --prefix, forced unlocks of programs with a
key prefix show as "released". Tail ends with a signal, after --for, or after --count
events. While the store does not answer, it says so and goes on.

Exit status: 0; 128+n if signal n ended it; 64, 69, 77 as run.`

const tailExample = `  holdfast tail 'deploy/*'
  holdfast tail 'deploy/*' --since 10m
  holdfast tail --json | jq -r 'select(.event == "expired")'`

// tailOptions is the command line of tail.
type tailOptions struct {
	readOptions
	pattern string
	every   time.Duration
	scan    time.Duration
	period  time.Duration
	count   int
	pace    int
	since   time.Duration
}

func newTailCommand(env output.Environment) *cobra.Command {
	o := &tailOptions{}
	cmd := &cobra.Command{
		Use:                   "tail [flags] [PATTERN]",
		Short:                 "Print events of locks",
		Long:                  tailLong,
		Example:               tailExample,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeNames(env, &o.readOptions),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(cmd, args); err != nil {
				return err
			}
			o.goesOn = true
			return o.read(cmd.Context(), cmd.Flags(), env, func(ctx context.Context, l *reader) error {
				return newTailer(o, l).run(ctx)
			})
		},
	}
	f := cmd.Flags()
	o.addTo(f, 0)
	f.DurationVar(&o.since, "since", 0, "begin with the events of this time before now, from the event log of Redis")
	f.DurationVar(&o.every, "every", time.Second, "how often to poll the known locks")
	f.DurationVar(&o.scan, "scan", 2*time.Second, "how long to wait between two scans for new locks")
	f.DurationVar(&o.period, "for", 0, "end after this; 0 never does")
	f.IntVar(&o.count, "count", 0, "end after this many lines; 0 never does")
	f.IntVar(&o.pace, "pace", 200, "commands per second for polls, and again for scans; 0 is as fast as the store answers")
	return cmd
}

func (o *tailOptions) complete(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return output.UsageError("one pattern at most; put it in quotes, else the shell replaces it by names of files; use: %s", cmd.UseLine())
	}
	if len(args) == 1 {
		o.pattern = args[0]
	}
	if _, err := path.Match(o.pattern, ""); err != nil {
		return output.UsageError("the pattern %q is not complete: [ without ], or \\ at the end", o.pattern)
	}
	if o.every < 100*time.Millisecond || o.scan < 0 || o.period < 0 || o.count < 0 || o.pace < 0 || o.since < 0 {
		return output.UsageError("--every is at least 100ms, and --since, --scan, --for, --count and --pace cannot be negative")
	}
	return nil
}

// errEnough ends a tail that was asked for so many lines, or for so long.
var errEnough = errors.New("enough")

// tailer runs a tail. Only its run uses it; the scan for new locks has a goroutine of its
// own.
type tailer struct {
	*tailOptions
	*reader
	observer *observe.Observer
	began    time.Time
	held     map[admin.Ended]time.Time // holds that were there before: when they were found
	next     string                    // the first name to poll again, where not all can be
	lines    int
	failing  bool // the store does not answer, and that was printed
}

func newTailer(o *tailOptions, l *reader) *tailer {
	return &tailer{tailOptions: o, reader: l, observer: observe.New(l.console, nil), began: time.Now(), held: map[admin.Ended]time.Time{}}
}

func (t *tailer) run(ctx context.Context) error {
	if t.period > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeoutCause(ctx, t.period, errEnough)
		defer done()
	}
	if err := t.recall(ctx); err != nil {
		return ended(ctx, err)
	}
	ctx, stop := context.WithCancel(ctx)
	scans, done := make(chan error), make(chan struct{})
	go func() {
		defer close(done)
		t.scanAgain(ctx, scans)
	}()
	defer func() {
		stop()
		<-done
	}()
	err := t.follow(ctx, scans)
	if ctx.Err() != nil {
		err = errors.Join(t.printChanges(time.Now().Add(observe.Delay)), err)
	}
	return ended(ctx, err)
}

// ended is nil if err says that there was enough.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, errEnough) || err != nil && errors.Is(context.Cause(ctx), errEnough) {
		return nil
	}
	return err
}

// recall prints the events of the time before, if that is wanted. If the store does not
// answer, listen reads them later.
func (t *tailer) recall(ctx context.Context) error {
	for more := t.since > 0; more; {
		var failed error
		if more, failed = t.observer.ReadLog(ctx, max(t.since, observe.Past)); failed != nil {
			return t.note(ctx, failed)
		}
	}
	if err := t.printChanges(time.Now().Add(observe.Delay)); err != nil {
		return err
	}
	if t.since > 0 && t.lines == 0 {
		t.report.Line(output.LevelNotice, "the event log has nothing of that time: programs write it with --event-log, or package audit")
	}
	return nil
}

// scanAgain scans for locks again and again until ctx ends, and sends the error of each
// scan.
func (t *tailer) scanAgain(ctx context.Context, scans chan<- error) {
	for ctx.Err() == nil {
		_, err := t.observer.Scan(ctx, admin.Filter{NamePrefix: operate.Beginning(t.pattern), Pace: t.pace}, func(name string) bool { return operate.Matches(t.pattern, name) })
		select {
		case scans <- err:
		case <-ctx.Done():
			return
		}
		if !retry.Sleep(ctx, max(t.scan, t.every)) {
			return
		}
	}
}

// follow prints changes until it ends.
func (t *tailer) follow(ctx context.Context, scans <-chan error) error {
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	for {
		var err error
		select {
		case failed := <-scans:
			err = t.note(ctx, failed)
		case <-tick.C:
			err = t.poll(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
		t.listen(ctx) // first, so that no event is printed from both sources
		if err == nil {
			err = t.printChanges(time.Now())
		}
		if err != nil {
			return err
		}
	}
}

// poll polls the known names. It keeps those that were read, whatever became of the others.
func (t *tailer) poll(ctx context.Context) error {
	var names []string
	for s := range t.observer.All {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	limited, cancel := context.WithTimeout(ctx, max(t.every, progressLimit))
	defer cancel()
	records, failed := t.console.Get(limited, t.turn(names)...)
	t.observer.Poll(ctx, time.Now(), records...)
	return t.note(ctx, failed)
}

// listen reads the event log.
func (t *tailer) listen(ctx context.Context) {
	for more := true; more; {
		limited, cancel := context.WithTimeout(ctx, progressLimit)
		var err error
		if more, err = t.observer.ReadLog(limited, max(t.since, observe.Past)); err != nil {
			t.report.Detail("the event log is not shown for now: %v", err)
		}
		cancel()
	}
}

// pollCost is how many commands the store runs for a poll of one name, about.
const pollCost = 4

// turn returns the names to poll now: as many as the pace allows, and each time the next
// ones.
func (t *tailer) turn(names []string) []string {
	most := len(names)
	if t.pace > 0 {
		most = min(most, max(1, int(float64(t.pace)*t.every.Seconds())/pollCost))
	}
	begin, _ := slices.BinarySearch(names, t.next)
	turn := slices.Concat(names[begin:], names[:begin])
	if most < len(turn) {
		t.next = turn[most]
	}
	return turn[:most]
}

// note prints once that the store does not answer, because a call failed, and that it
// answers again. It returns an error that will not get better. After the end of ctx an
// error says nothing of the store.
func (t *tailer) note(ctx context.Context, failed error) error {
	switch {
	case failed == nil && t.failing:
		t.failing = false
		return t.print(change{Event: "back"})
	case failed == nil || t.failing || ctx.Err() != nil:
		return nil
	}
	if storeErr := (*output.ExitError)(nil); errors.As(output.StoreError(failed), &storeErr) && storeErr.Code != output.ExitUnreachable {
		return failed
	}
	t.failing = true
	return t.print(change{Event: "unreachable", Error: failed.Error()})
}

// printChanges prints the changes that are due at a time.
func (t *tailer) printChanges(due time.Time) error {
	for _, c := range t.observer.Take(due) {
		if !t.shows(c) {
			continue
		}
		if err := t.print(changeOf(c)); err != nil {
			return err
		}
	}
	return nil
}

// shows reports that c is printed. Entries that are missing from the event log matter to
// every pattern.
func (t *tailer) shows(c observe.Change) bool {
	const clockError = 500 * time.Millisecond // of the time of an entry
	hold := admin.Ended{Name: c.Name, Owner: c.Owner}
	if c.Type == observe.Held {
		t.held[hold] = c.At
	}
	switch {
	case c.Type == observe.Renewed || c.Type == observe.Listening || c.Type == "":
		return false
	case c.Reported && c.At.Before(t.began.Add(-t.since)):
		return false
	case c.Reported && c.Type == admin.EntryAcquired && c.At.Before(t.held[hold].Add(clockError)):
		return false // it was just before this began, and the line "held" shows it
	default:
		return c.Type == admin.EntryMissed || c.Name != "" && operate.Matches(t.pattern, c.Name)
	}
}
