package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

// chronicle is how far the history was read.
type chronicle struct {
	begun time.Time
	last  string // the ID of the last happening
	shut  bool   // there is none that this user may read
}

// recall prints what programs have told of the time before, if that is wanted.
func (t *tailing) recall(ctx context.Context) error {
	if t.since == 0 {
		return nil
	}
	printed := false
	for {
		list, err := t.locker.History(ctx, driver.HistoryOptions{After: t.past.last, Past: t.since})
		if err != nil {
			return err
		}
		for _, h := range list {
			t.past.last = h.ID
			if !tellable(h, t.pattern) {
				continue
			}
			printed = true
			if err := t.print(toldChange(h)); err != nil {
				return err
			}
		}
		if len(list) == 0 {
			break
		}
	}
	if !printed {
		t.report.line(levelNotice, "nothing was told: programs tell what they do with --history, or holdfast.Options.History")
	}
	return nil
}

// listen prints what cannot be seen: that a lock was lost.
func (t *tailing) listen(ctx context.Context) error {
	if t.past.shut {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, progressLimit)
	defer cancel()
	list, err := t.locker.History(ctx, driver.HistoryOptions{After: t.past.last, Past: time.Since(t.past.begun)})
	var refused *redishold.ReplyError
	t.past.shut = errors.Is(err, errors.ErrUnsupported) || errors.As(err, &refused)
	for _, h := range list {
		t.past.last = h.ID
		if h.Step != driver.StepLost || !tellable(h, t.pattern) {
			continue
		}
		if err := t.print(toldChange(h)); err != nil {
			return err
		}
	}
	return nil
}

// tellable reports that a happening is one of those that a pattern means. That some
// are missing matters to all.
func tellable(h driver.Happening, pattern string) bool {
	if h.Step == driver.StepMissed {
		return true
	}
	return h.Step != "" && h.Name != "" && matches(pattern, h.Name)
}

// toldChange is a happening as a line of tail.
func toldChange(h driver.Happening) change {
	c := change{
		At: h.At, Event: string(h.Step), Told: true, Name: h.Name, Kind: string(h.Kind), Who: person("", h.Note, h.Client),
		Owner: h.Owner, Token: h.Token, Count: h.Count, WaitMS: h.Waited.Milliseconds(), HeldMS: h.Held.Milliseconds(),
		LeaseMS: h.Left.Milliseconds(), Reason: h.Reason,
	}
	if h.Kind != "" {
		c.Mode = h.Mode.String()
	}
	return c
}

// clock is a time for people who read it at now.
func clock(at, now time.Time) string {
	const today = "15:04:05.0"
	at, now = at.Local(), now.Local()
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format(today)
	}
	return at.Format("2006-01-02 " + today)
}

// toldText is what follows the name in a line for people.
func (c change) toldText() string {
	ms := func(n int64) time.Duration { return coarse(time.Duration(n) * time.Millisecond) }
	switch driver.Step(c.Event) {
	case driver.StepMissed:
		return fmt.Sprintf(" %d more by %s", c.Count, c.Who)
	case driver.StepAcquired:
		if c.WaitMS < 1 {
			return "  by " + c.Who
		}
		return fmt.Sprintf("  by %s, after %s", c.Who, ms(c.WaitMS))
	case driver.StepGaveUp:
		return fmt.Sprintf("  by %s, after %s", c.Who, ms(c.WaitMS))
	case driver.StepReleased:
		return fmt.Sprintf("  by %s, held for %s", c.Who, ms(c.HeldMS))
	case driver.StepLost:
		return fmt.Sprintf("  by %s, held for %s: %s", c.Who, ms(c.HeldMS), clean(c.Reason))
	case driver.StepRenewedLate:
		return fmt.Sprintf("  by %s, %s were left", c.Who, ms(c.LeaseMS))
	case driver.StepForced:
		return fmt.Sprintf("  taken from %s: %s", clean(c.Owner), clean(c.Reason))
	default:
		return "  by " + c.Who
	}
}
