package dash

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	logPast   = time.Hour // as long as the charts are
	logEvery  = 2 * time.Second
	logRetry  = 15 * time.Second // after an error: the store may have no log, or not let this user read it
	logPage   = 1000
	logCommon = 100 // entries of a page that are not rare: others would be pushed out
)

// readLog reads the event log of the store again and again, until ctx ends. The log has
// what happened before the dashboard began to poll, and what polling cannot find.
func (d *Dashboard) readLog(ctx context.Context) {
	d.caughtUp = false
	if time.Since(d.readAt) > logPast {
		d.read = ""
	}
	for pause := time.Duration(0); retry.Sleep(ctx, pause); {
		pause = logEvery
		if !d.store.now().failing.IsZero() || d.budget.take(time.Now(), 1) == 0 {
			continue
		}
		more, err := d.readLogPage(ctx)
		switch {
		case err != nil:
			pause = logRetry
		case more:
			pause = 0
		}
	}
}

// readLogPage reads the next page of the log, and reports whether there may be more.
func (d *Dashboard) readLogPage(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, logEvery)
	defer cancel()
	read, common := 0, 0
	for h, failed := range d.console.Log(ctx, admin.LogFilter{After: d.read, Last: logPast, Limit: logPage}) {
		if err = failed; err != nil {
			break
		}
		read++
		d.read = h.ID
		s, ok := reportedEvent(h)
		if !ok || !strings.HasPrefix(s.Name, d.options.NamePrefix) {
			continue
		}
		if common++; h.Type.Rare() || common <= logCommon || !d.caughtUp {
			d.eventLog.addReported(s)
		}
	}
	d.noLog.Store(errors.Is(err, errors.ErrUnsupported))
	d.readAt = time.Now()
	more = read == logPage
	d.caughtUp = d.caughtUp || err == nil && !more
	return more, err
}

// reportedEvent returns the event that the pages show for h. It returns false for
// waits and renewals, which polling finds better.
func reportedEvent(h admin.Entry) (event, bool) {
	who := describe(h.Client, h.Client.ID, h.Note)
	s := event{
		At: h.At, Name: h.Name, Who: who.text(), purpose: who.purpose, client: h.Client.ID, owner: h.Owner, reported: true,
		Held: h.HeldFor, Left: h.Left, Mode: h.Mode, Token: h.Token, Why: short(printable(h.Reason), longReason),
		alone: h.Kind != "" && h.Mode == driver.Exclusive,
	}
	switch h.Type {
	case admin.EntryAcquired:
		s.Kind = eventAcquired
	case admin.EntryGaveUp:
		s.Kind = eventGaveUp
	case admin.EntryReleased:
		s.Kind = eventReleased
	case admin.EntryRenewedLate:
		s.Kind = eventRenewedLate
	case admin.EntryLost:
		s.Kind = eventLost
	case admin.EntryForced:
		// The client that reports it ended the hold: its purpose is not the holder's.
		s.Kind, s.Who, s.client = eventForced, "taken from "+short(printable(h.Owner), longName), clientIn(h.Owner)
		s.purpose = purpose{}
	default:
		return event{}, false
	}
	return s, s.Name != "" && len(s.Name) <= longPlace
}
