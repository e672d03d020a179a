package main

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const tailLong = `Tail prints events: grants, releases and waits. It begins with the locks that are held
now.

It polls the locks that it knows every --every, and scans for new ones every --scan, with
at most --pace commands per second for each; with more locks than that allows, it polls
them in turn. Holds between two polls are invisible, and the printed time is that of the
poll. A hold that ended is "forced" if the store still knows the reason, "expired" if its
lease was about to end, otherwise "released". "Renewed-late" is a lease that had less than a
third left before its renewal.

Programs with package audit or --event-log write an event log to the store: waits, grants,
losses and releases. --since prints the events of that time first. Tail also prints
losses from the event log while it runs, because only the holder knows of them. If it
printed the end of the same hold before, the line says so.

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

func newTailCommand(env environment) *cobra.Command {
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
		return usageError("one pattern at most; put it in quotes, else the shell replaces it by names of files; use: %s", cmd.UseLine())
	}
	if len(args) == 1 {
		o.pattern = args[0]
	}
	if _, err := path.Match(o.pattern, ""); err != nil {
		return usageError("the pattern %q is not complete: [ without ], or \\ at the end", o.pattern)
	}
	if o.every < 100*time.Millisecond || o.scan < 0 || o.period < 0 || o.count < 0 || o.pace < 0 || o.since < 0 {
		return usageError("--every is at least 100ms, and --since, --scan, --for, --count and --pace cannot be negative")
	}
	return nil
}

// errEnough ends a tail that was asked for so many lines, or for so long.
var errEnough = errors.New("enough")

// tailer runs a tail. Only its run uses it; the scan for new locks has a
// goroutine of its own and hands over what it finds.
type tailer struct {
	*tailOptions
	*reader
	known   map[string]*observation
	first   bool                   // the first look for locks is not over: they were there before
	next    string                 // the first name to look at again, where not all can be
	reasons map[admin.Ended]string // of owners whose hold was forced: why, as printed
	ends    map[admin.Ended]string // of owners whose hold was printed as over: the event
	past    logPosition
	lines   int
	failing time.Time // since when the store does not answer
}

func newTailer(o *tailOptions, l *reader) *tailer {
	return &tailer{tailOptions: o, reader: l, known: map[string]*observation{}, reasons: map[admin.Ended]string{}, ends: map[admin.Ended]string{}, first: true}
}

// discovery is a result of the scan for new locks: a record, or at its end its error.
type discovery struct {
	record admin.Record
	over   bool
	err    error
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
	discoveries, done := make(chan discovery), make(chan struct{})
	go func() {
		defer close(done)
		t.discover(ctx, discoveries)
	}()
	defer func() {
		stop()
		<-done
	}()
	return ended(ctx, t.follow(ctx, discoveries))
}

// ended is nil if err says that there was enough.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, errEnough) || err != nil && errors.Is(context.Cause(ctx), errEnough) {
		return nil
	}
	return err
}

// discover looks for locks again and again until ctx ends.
func (t *tailer) discover(ctx context.Context, discoveries chan<- discovery) {
	for ctx.Err() == nil {
		var failed error
		for record, err := range t.console.List(ctx, admin.Filter{NamePrefix: beginning(t.pattern), Pace: t.pace}) {
			if failed = err; err != nil {
				break
			}
			select {
			case discoveries <- discovery{record: record}:
			case <-ctx.Done():
				return
			}
		}
		select {
		case discoveries <- discovery{over: true, err: failed}:
		case <-ctx.Done():
			return
		}
		if !retry.Sleep(ctx, max(t.scan, t.every)) {
			return
		}
	}
}

// follow prints changes until it ends.
func (t *tailer) follow(ctx context.Context, discoveries <-chan discovery) error {
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	for {
		var err error
		select {
		case f := <-discoveries:
			err = t.discovered(ctx, f)
		case <-tick.C:
			if err = t.lookAgain(ctx); err == nil {
				err = t.listen(ctx)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

func (t *tailer) discovered(ctx context.Context, f discovery) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // which says nothing of the store
	case f.over && f.err != nil:
		return t.trouble(f.err)
	case f.over:
		t.first = false
		return t.answered()
	case !matches(t.pattern, f.record.Name):
		return nil
	}
	return t.compare(f.record, t.forced(ctx, f.record))
}

// lookAgain looks at what is known.
func (t *tailer) lookAgain(ctx context.Context) error {
	names := make([]string, 0, len(t.known))
	for name := range t.known {
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	names = t.turn(names)
	limited, cancel := context.WithTimeout(ctx, max(t.every, progressLimit))
	defer cancel()
	records, failed := t.console.Get(limited, names...)
	why := t.forced(ctx, records...)
	for _, r := range records { // those that were read stand, whatever became of the others
		if r.Kind == admin.KindUnknown {
			continue
		}
		if err := t.compare(r, why); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil // the end of the tail says nothing of the store
	case failed != nil:
		return t.trouble(failed)
	default:
		return t.answered()
	}
}

// lookCost is how many commands the store runs for a look at one name, about.
const lookCost = 4

// turn returns those of names whose turn it is: as many as the pace allows, and
// each time the next ones.
func (t *tailer) turn(names []string) []string {
	most := len(names)
	if t.pace > 0 {
		most = min(most, max(1, int(float64(t.pace)*t.every.Seconds())/lookCost))
	}
	begin, _ := slices.BinarySearch(names, t.next)
	turn := slices.Concat(names[begin:], names[:begin])
	if most < len(turn) {
		t.next = turn[most]
	}
	return turn[:most]
}

// trouble says once that the store does not answer.
func (t *tailer) trouble(err error) error {
	if !t.failing.IsZero() || err == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	if storeErr := (*exitError)(nil); errors.As(storeError(err), &storeErr) && storeErr.code != exitUnreachable {
		return err // it will not get better
	}
	t.failing = time.Now()
	return t.print(change{Event: "unreachable", Error: err.Error()})
}

func (t *tailer) answered() error {
	if t.failing.IsZero() {
		return nil
	}
	t.failing = time.Time{}
	return t.print(change{Event: "back"})
}

// mostForced is of how many holds that are over one look asks why: each is a
// command. The others count as released.
const mostForced = 64

// forced asks the store which of the holds that records show to be over, though
// their leases were not, were ended by force, and why. It costs only the
// reason if that cannot be learnt.
func (t *tailer) forced(ctx context.Context, records ...admin.Record) map[admin.Ended]string {
	var ended []admin.Ended
	now := time.Now()
	for _, r := range records {
		before := t.known[r.Name]
		if before == nil || r.Kind == admin.KindUnknown {
			continue
		}
		for _, h := range before.ended(r) {
			if len(ended) < mostForced && !before.lapsed(h, now) {
				ended = append(ended, admin.Ended{Name: r.Name, Owner: h.Owner})
			}
		}
	}
	if len(ended) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, progressLimit)
	defer cancel()
	reasons, _ := t.console.ForceReasons(ctx, ended)
	why := make(map[admin.Ended]string, len(ended))
	for i, e := range ended {
		why[e] = reasons[i]
	}
	return why
}

// compare prints how r differs from what was known, and remembers it. why has
// holds that were forced.
func (t *tailer) compare(r admin.Record, why map[admin.Ended]string) error {
	if r.Holders == 0 {
		r.Holds = nil // it is only kept
	}
	before := t.known[r.Name]
	if before == nil {
		before = &observation{at: time.Now(), since: map[string]time.Time{}}
	}
	now := &observation{Record: r, at: time.Now(), since: map[string]time.Time{}}
	changes := now.differences(before, t.first)
	if r.Holders > 0 || r.Waiting > 0 {
		t.known[r.Name] = now
	} else {
		delete(t.known, r.Name)
	}
	for _, c := range changes {
		if c.Event == "released" {
			t.markForced(&c, why[admin.Ended{Name: c.Name, Owner: c.Owner}])
		}
		t.sawEnd(c)
		if err := t.print(c); err != nil {
			return err
		}
	}
	return nil
}

// markForced makes a release forced, if why says so and is news: a thread of Redisson's
// may have taken the lock again, and released it, while the store remembers.
func (t *tailer) markForced(c *change, why string) {
	owner := admin.Ended{Name: c.Name, Owner: c.Owner}
	if why == "" || t.reasons[owner] == why {
		return
	}
	if len(t.reasons) >= mostEnds {
		clear(t.reasons)
	}
	c.Event, c.Reason, t.reasons[owner] = "forced", why, why
}
