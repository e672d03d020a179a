package dash

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	chroniclePast  = time.Hour // as long as the charts are
	chronicleEvery = 2 * time.Second
	chronicleRetry = 15 * time.Second // of a store that keeps none, or does not let this user read it
	chroniclePage  = 1000
	chronicleMost  = 100 // that are not rare, of a page: the history has to last
)

// study reads what programs tell of themselves, where the store keeps that: what
// was before the dashboard began to watch, and what nobody can see, again and
// again until ctx ends.
func (d *Dashboard) study(ctx context.Context) {
	d.caughtUp = false
	if time.Since(d.readAt) > chroniclePast {
		d.read = ""
	}
	for pause := time.Duration(0); retry.Sleep(ctx, pause); {
		pause = chronicleEvery
		if !d.store.now().failing.IsZero() || d.budget.take(time.Now(), 1) == 0 {
			continue
		}
		more, err := d.readOn(ctx)
		switch {
		case err != nil:
			pause = chronicleRetry
		case more:
			pause = 0
		}
	}
}

// readOn reads a page of what is new, and reports whether there may be more.
func (d *Dashboard) readOn(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, chronicleEvery)
	defer cancel()
	read, common := 0, 0
	for h, failed := range d.console.Log(ctx, admin.LogFilter{After: d.read, Last: chroniclePast, Limit: chroniclePage}) {
		if err = failed; err != nil {
			break
		}
		read++
		d.read = h.ID
		s, ok := toldHappening(h)
		if !ok || !strings.HasPrefix(s.Name, d.options.NamePrefix) {
			continue
		}
		if common++; h.Type.Rare() || common <= chronicleMost || !d.caughtUp {
			d.history.learned(s)
		}
	}
	d.readAt = time.Now()
	more = read == chroniclePage
	d.caughtUp = d.caughtUp || err == nil && !more
	return more, err
}

// toldHappening is h as the history shows it. How many wait, and that leases are
// renewed, is better seen than described.
func toldHappening(h admin.Entry) (happening, bool) {
	who := describe(h.Client, h.Client.ID, h.Note)
	s := happening{
		At: h.At, Name: h.Name, Who: who.text(), purpose: who.purpose, client: h.Client.ID, owner: h.Owner, told: true,
		Held: h.HeldFor, Left: h.Left, Mode: h.Mode, Token: h.Token, Why: short(printable(h.Reason), longReason),
		alone: h.Kind != "" && h.Mode == driver.Exclusive,
	}
	switch h.Type {
	case admin.EntryAcquired:
		s.Kind = happenedAcquire
	case admin.EntryGaveUp:
		s.Kind = happenedBusy
	case admin.EntryReleased:
		s.Kind = happenedRelease
	case admin.EntryRenewedLate:
		s.Kind = happenedLate
	case admin.EntryLost:
		s.Kind = happenedLose
	case admin.EntryForced:
		// The client that reports it ended the hold: its purpose is not the holder's.
		s.Kind, s.Who, s.client = happenedForce, "taken from "+short(printable(h.Owner), longName), clientIn(h.Owner)
		s.purpose = purpose{}
	default:
		return happening{}, false
	}
	return s, s.Name != "" && len(s.Name) <= longPlace
}
