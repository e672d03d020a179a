package main

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// logPage is how much of the event log comes at once.
const logPage = 1000

// listenAgain is how long an event log that could not be read is left alone. It may be
// on a node of a cluster that hangs, while the locks are elsewhere.
const listenAgain = 15 * time.Second

// logPosition tells how far the event log was read.
type logPosition struct {
	begun   time.Time // since when changes are seen
	last    string    // the ID of the last event
	next    time.Time // not read before
	failing bool      // the last read failed
}

// recall prints what programs reported of the time before, if that is wanted. It
// waits for a store that does not answer.
func (t *tailer) recall(ctx context.Context) error {
	found := false
	for more := t.since > 0; more; {
		list, err := t.read(ctx, t.since)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := t.trouble(err); err != nil {
			return err
		}
		if err != nil {
			if !retry.Sleep(ctx, t.every) {
				return ctx.Err()
			}
			continue
		}
		if err := t.answered(); err != nil {
			return err
		}
		found = found || len(list) > 0
		if err := t.printEntries(list, func(admin.Entry) bool { return true }); err != nil {
			return err
		}
		more = len(list) == logPage
	}
	t.past.begun = time.Now()
	if t.since > 0 && !found {
		t.report.line(levelNotice, "the event log has nothing of that time: programs write it with --event-log, or package audit")
	}
	return nil
}

// read returns a page of what follows in the event log, or of the time past.
func (t *tailer) read(ctx context.Context, past time.Duration) (page []admin.Entry, err error) {
	for e, err := range t.console.Log(ctx, admin.LogFilter{After: t.past.last, Last: past, Limit: logPage}) {
		if err != nil {
			return page, err
		}
		page = append(page, e)
	}
	return page, nil
}

// listen prints what cannot be seen: that a lock was lost. After recall it also
// prints what was reported late of the time before.
func (t *tailer) listen(ctx context.Context) error {
	for more := time.Now().After(t.past.next); more; {
		limited, cancel := context.WithTimeout(ctx, progressLimit)
		list, err := t.read(limited, time.Since(t.past.begun))
		cancel()
		if err != nil {
			t.past.next = time.Now().Add(listenAgain)
			if !t.past.failing {
				t.report.detail("what programs tell is not shown for now: %v", err)
			}
		}
		t.past.failing = err != nil
		if err := t.printEntries(list, t.onlyLogged); err != nil {
			return err
		}
		more = len(list) == logPage
	}
	return nil
}

// onlyLogged reports that a look cannot show what a program reports.
func (t *tailer) onlyLogged(h admin.Entry) bool {
	return h.Type == admin.EntryLost || t.since > 0 && h.At.Before(t.past.begun)
}

// printEntries prints those of list that are wanted.
func (t *tailer) printEntries(list []admin.Entry, wanted func(admin.Entry) bool) error {
	for _, h := range list {
		t.past.last = h.ID
		if !isMatched(h, t.pattern) || !wanted(h) {
			continue
		}
		c := loggedChange(h)
		t.sameEnd(&c)
		if err := t.print(c); err != nil {
			return err
		}
	}
	return nil
}

// isMatched reports that an event is one of those that a pattern means. That some
// are missing matters to all.
func isMatched(h admin.Entry, pattern string) bool {
	if h.Type == admin.EntryMissed {
		return true
	}
	return h.Type != "" && h.Name != "" && matches(pattern, h.Name)
}

// loggedChange is an event as a line of tail.
func loggedChange(h admin.Entry) change {
	c := change{
		ID: h.ID, At: h.At, Event: string(h.Type), Reported: true, Name: h.Name, Kind: string(h.Kind), Who: person("", h.Note, h.Client),
		Owner: h.Owner, Token: h.Token, Count: h.Count, WaitMS: h.Waited.Milliseconds(), HeldMS: h.HeldFor.Milliseconds(),
		LeaseMS: h.Left.Milliseconds(), Reason: h.Reason,
	}
	if h.Kind != "" {
		c.Mode = h.Mode.String()
	}
	return c
}

// timeText is a time for people, at now.
func timeText(at, now time.Time) string {
	const today = "15:04:05.0"
	at, now = at.Local(), now.Local()
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format(today)
	}
	return at.Format("2006-01-02 " + today)
}

// loggedText is what follows the name in a line for people.
func (c change) loggedText() string {
	ms := func(n int64) time.Duration { return coarse(time.Duration(n) * time.Millisecond) }
	switch admin.EntryType(c.Event) {
	case admin.EntryMissed:
		return fmt.Sprintf(" %d more by %s", c.Count, c.Who)
	case admin.EntryAcquired:
		if c.WaitMS < 1 {
			return "  by " + c.Who
		}
		return fmt.Sprintf("  by %s, after %s", c.Who, ms(c.WaitMS))
	case admin.EntryGaveUp:
		return fmt.Sprintf("  by %s, after %s", c.Who, ms(c.WaitMS))
	case admin.EntryReleased:
		text := fmt.Sprintf("  by %s, held for %s", c.Who, ms(c.HeldMS))
		if c.Reason != "" {
			text += ": " + clean(c.Reason)
		}
		return text
	case admin.EntryLost:
		text := fmt.Sprintf("  by %s, held for %s: %s", c.Who, ms(c.HeldMS), clean(c.Reason))
		if c.SeenAs != "" {
			text += "; seen as " + c.SeenAs + " before"
		}
		return text
	case admin.EntryRenewedLate:
		return fmt.Sprintf("  by %s, %s were left", c.Who, ms(c.LeaseMS))
	case admin.EntryForced:
		return fmt.Sprintf("  taken from %s: %s", clean(c.Owner), clean(c.Reason))
	default:
		return "  by " + c.Who
	}
}
