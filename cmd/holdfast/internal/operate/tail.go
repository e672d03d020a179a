package operate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// TailOptions say which events to print, and how to find them.
type TailOptions struct {
	Pattern string        // matches the names to print, see Matches; "" means all
	Since   time.Duration // begin with the events of the event log that are at most this old
	Every   time.Duration // the time between two polls of the known locks
	Scan    time.Duration // the pause between two scans for new locks
	Period  time.Duration // the tail ends after this; 0 means no limit
	Count   int           // the tail ends after this number of lines; 0 means no limit
	Pace    int           // commands a second for polls, and as many for scans; 0 is as fast as the store answers
}

// pollLimit is the time limit of a poll. If TailOptions.Every is longer, Every is the limit.
const pollLimit = 900 * time.Millisecond

// errEnough ends a tail that has printed Count lines, or has run for Period.
var errEnough = errors.New("enough")

// tailer runs a tail. Only the goroutine of run changes its fields. A separate goroutine scans
// for new locks.
type tailer struct {
	*TailOptions
	Session
	observer *observe.Observer
	began    time.Time
	held     map[admin.Ended]time.Time // by hold that was printed as "held": when a poll found it
	lines    int
	failing  bool // the store does not answer, and a line has said so
}

func newTailer(o *TailOptions, s Session) *tailer {
	return &tailer{TailOptions: o, Session: s, observer: observe.New(s.Console, nil), began: time.Now(), held: map[admin.Ended]time.Time{}}
}

// Tail prints events of locks until ctx ends, or until it has run for Period or printed Count
// lines.
func (s Session) Tail(ctx context.Context, o *TailOptions) error {
	if o.Period > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeoutCause(ctx, o.Period, errEnough)
		defer done()
	}
	err := newTailer(o, s).run(ctx)
	if errors.Is(err, errEnough) || err != nil && errors.Is(context.Cause(ctx), errEnough) {
		return nil
	}
	return err
}

func (t *tailer) run(ctx context.Context) error {
	if err := t.recall(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	scans := make(chan error)
	var scanner sync.WaitGroup
	scanner.Go(func() { t.scanAgain(ctx, scans) })
	defer scanner.Wait()
	defer stop()
	err := t.follow(ctx, scans)
	if ctx.Err() != nil {
		err = errors.Join(t.printChanges(time.Now().Add(observe.Delay)), err)
	}
	return err
}

// recall prints the events of the event log that are at most Since old. It prints nothing if
// Since is not set. If the store does not answer, follow reads these events later.
func (t *tailer) recall(ctx context.Context) error {
	if t.Since == 0 {
		return nil
	}
	if failed := t.readLog(ctx); failed != nil {
		return t.note(ctx, failed)
	}
	err := t.printChanges(time.Now().Add(observe.Delay))
	if err == nil && t.lines == 0 {
		t.Report.Line(output.LevelNotice, "the event log has no events of that time: a program records events only with --event-log, or with the package audit")
	}
	return err
}

// scanAgain scans for locks again and again until ctx ends, and sends the error of each scan.
func (t *tailer) scanAgain(ctx context.Context, scans chan<- error) {
	for pause := time.Duration(0); retry.Sleep(ctx, pause); pause = max(t.Scan, t.Every) {
		_, err := t.observer.Scan(ctx, admin.Filter{NamePrefix: Beginning(t.Pattern), Pace: t.Pace}, func(name string) bool { return Matches(t.Pattern, name) })
		select {
		case scans <- err:
		case <-ctx.Done():
		}
	}
}

// follow prints changes. It ends with an error of ctx, of the output, or of the store, or
// with errEnough.
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
		if failed := t.readLog(ctx); failed != nil { // before printChanges, so that no event is printed twice, once from the log and once from a poll
			t.Report.Detail("holdfast cannot read the event log at the moment: %v", failed)
		}
		if err == nil {
			err = t.printChanges(time.Now())
		}
		if err != nil {
			return err
		}
	}
}

// poll polls the known names. If some names cannot be read, it uses the answers for the others.
func (t *tailer) poll(ctx context.Context) error {
	names := t.turn()
	if len(names) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, max(t.Every, pollLimit))
	defer cancel()
	records, failed := t.Console.Get(limited, names...)
	t.observer.Poll(ctx, time.Now(), records...)
	return t.note(ctx, failed)
}

// readLog reads the new entries of the event log.
func (t *tailer) readLog(ctx context.Context) (err error) {
	for more := true; more; {
		more, err = t.observer.ReadLog(ctx, max(t.Since, observe.Past))
	}
	return err
}

// pollCost is about how many commands the store runs to poll one name.
const pollCost = 4

// turn returns the names to poll now, the name with the oldest poll first. It returns as many
// names as the pace allows.
func (t *tailer) turn() []string {
	names := t.observer.PolledBefore(time.Now())
	if t.Pace > 0 {
		most := max(1, int(float64(t.Pace)*t.Every.Seconds())/pollCost)
		names = names[:min(most, len(names))]
	}
	return names
}

// note gets the error of each call to the store, or nil. It prints a line when calls begin to
// fail, and a line when they succeed again. If a repeated call would fail again, note returns
// the error. After the end of ctx it ignores errors.
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
	return t.print(change{Event: "unreachable", Error: failed.Error(), details: failed.Error()})
}

// printChanges prints the changes that Take returns for the time `due`.
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
	const clockError = 500 * time.Millisecond // by how much the time of an entry may be wrong
	if c.Type == observe.Held {
		t.held[c.Hold()] = c.At
	}
	switch {
	case c.Type == observe.Renewed || c.Type == observe.Listening || c.Type == "":
		return false
	case c.Reported && c.At.Before(t.began.Add(-t.Since)):
		return false
	case c.Reported && c.Type == admin.EntryAcquired && c.At.Before(t.held[c.Hold()].Add(clockError)):
		return false // the line "held" shows this grant already
	default:
		return c.Type == admin.EntryMissed || c.Name != "" && Matches(t.Pattern, c.Name)
	}
}
