package operate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// TailOptions say which events to print, and how to find them.
type TailOptions struct {
	Pattern string        // of names; "" means all
	Since   time.Duration // begin with the events of the event log that are at most this old
	Every   time.Duration // how often the known locks are polled
	Scan    time.Duration // the pause between two scans for new locks
	Period  time.Duration // the tail ends after this; 0 means no limit
	Count   int           // it ends after so many lines; 0 means no limit
	Pace    int           // commands a second for polls, and again for scans; 0 is as fast as the store answers
}

// progressLimit bounds a call to the store while the tail runs.
const progressLimit = 900 * time.Millisecond

// errEnough ends a tail that has printed Count lines, or has run for Period.
var errEnough = errors.New("enough")

// tailer runs a tail. Only the goroutine of run uses its fields. The scan for new locks has a
// separate goroutine.
type tailer struct {
	*TailOptions
	Session
	observer *observe.Observer
	began    time.Time
	held     map[admin.Ended]time.Time // the holds that were printed as held: when they were found
	next     string                    // the first name of the next poll
	lines    int
	failing  bool // the store does not answer, and that was printed
}

func newTailer(o *TailOptions, s Session) *tailer {
	return &tailer{TailOptions: o, Session: s, observer: observe.New(s.Console, nil), began: time.Now(), held: map[admin.Ended]time.Time{}}
}

// Tail prints events of locks until ctx or the tail ends.
func (s Session) Tail(ctx context.Context, o *TailOptions) error { return newTailer(o, s).run(ctx) }

func (t *tailer) run(ctx context.Context) error {
	if t.Period > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeoutCause(ctx, t.Period, errEnough)
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

// ended returns nil if the tail ended because of Count or Period, else err.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, errEnough) || err != nil && errors.Is(context.Cause(ctx), errEnough) {
		return nil
	}
	return err
}

// recall prints the events of the last Since from the event log, if Since is set. If the
// store does not answer, listen reads them later.
func (t *tailer) recall(ctx context.Context) error {
	for more := t.Since > 0; more; {
		var failed error
		if more, failed = t.observer.ReadLog(ctx, max(t.Since, observe.Past)); failed != nil {
			return t.note(ctx, failed)
		}
	}
	if err := t.printChanges(time.Now().Add(observe.Delay)); err != nil {
		return err
	}
	if t.Since > 0 && t.lines == 0 {
		t.Report.Line(output.LevelNotice, "the event log has nothing of that time: programs write it with --event-log, or package audit")
	}
	return nil
}

// scanAgain scans for locks again and again until ctx ends, and sends the error of each
// scan.
func (t *tailer) scanAgain(ctx context.Context, scans chan<- error) {
	for ctx.Err() == nil {
		_, err := t.observer.Scan(ctx, admin.Filter{NamePrefix: Beginning(t.Pattern), Pace: t.Pace}, func(name string) bool { return Matches(t.Pattern, name) })
		select {
		case scans <- err:
		case <-ctx.Done():
			return
		}
		if !retry.Sleep(ctx, max(t.Scan, t.Every)) {
			return
		}
	}
}

// follow prints changes until it ends.
func (t *tailer) follow(ctx context.Context, scans <-chan error) error {
	tick := time.NewTicker(t.Every)
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

// poll polls the known names. If some names cannot be read, it uses the answers for the
// others.
func (t *tailer) poll(ctx context.Context) error {
	var names []string
	for s := range t.observer.All {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	limited, cancel := context.WithTimeout(ctx, max(t.Every, progressLimit))
	defer cancel()
	records, failed := t.Console.Get(limited, t.turn(names)...)
	t.observer.Poll(ctx, time.Now(), records...)
	return t.note(ctx, failed)
}

// listen reads the new entries of the event log.
func (t *tailer) listen(ctx context.Context) {
	for more := true; more; {
		limited, cancel := context.WithTimeout(ctx, progressLimit)
		var err error
		if more, err = t.observer.ReadLog(limited, max(t.Since, observe.Past)); err != nil {
			t.Report.Detail("the event log is not shown for now: %v", err)
		}
		cancel()
	}
}

// pollCost is about how many commands the store runs to poll one name.
const pollCost = 4

// turn returns the names to poll now: as many as the pace allows. Each call begins with the
// name after the last one of the call before.
func (t *tailer) turn(names []string) []string {
	most := len(names)
	if t.Pace > 0 {
		most = min(most, max(1, int(float64(t.Pace)*t.Every.Seconds())/pollCost))
	}
	begin, _ := slices.BinarySearch(names, t.next)
	turn := slices.Concat(names[begin:], names[:begin])
	if most < len(turn) {
		t.next = turn[most]
	}
	return turn[:most]
}

// note prints that the store does not answer, when a call fails for the first time, and that
// the store answers again. If the error is one that repeated calls do not fix, it returns it.
// It ignores errors after the end of ctx.
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

// shows reports whether c is printed. A change that counts missing entries is printed for
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
	case c.Reported && c.At.Before(t.began.Add(-t.Since)):
		return false
	case c.Reported && c.Type == admin.EntryAcquired && c.At.Before(t.held[hold].Add(clockError)):
		return false // the line "held" shows this grant already
	default:
		return c.Type == admin.EntryMissed || c.Name != "" && Matches(t.Pattern, c.Name)
	}
}
