package dash

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	logEvery  = time.Second
	logCommon = 50 // limits reported events that are not rare: more would replace others
)

// readLog adds changes to the dashboard's event log until ctx ends: those that polling finds,
// and those that programs write to the event log of the store, beginning with the last hour.
func (d *Dashboard) readLog(ctx context.Context) {
	began := time.Now()
	for pause := time.Duration(0); retry.Sleep(ctx, pause); {
		pause = logEvery
		if d.store.now().failing.IsZero() && d.budget.take(time.Now(), 1) == 1 {
			limited, cancel := context.WithTimeout(ctx, 2*logEvery)
			if more, _ := d.table.ReadLog(limited, observe.Past); more { // what cannot be read is missing
				pause = 0
			}
			cancel()
		}
		d.keep(d.table.Take(time.Now()), began)
	}
	d.keep(d.table.Take(time.Now().Add(observe.Delay)), began)
}

// keep adds changes to the dashboard's event log. At most logCommon of them may be reported
// changes since began that are not rare; keep drops the others.
func (d *Dashboard) keep(changes []observe.Change, began time.Time) {
	common := 0
	for _, c := range changes {
		s, ok := eventOf(c)
		if !ok || !d.shown(s.Name) || d.eventLog.has(c) {
			continue
		}
		if c.Reported && !c.Type.Rare() && c.At.After(began) {
			if common++; common > logCommon {
				continue
			}
		}
		d.eventLog.add(s)
	}
}

// eventOf returns the event that the pages show for c, and false if they show none.
func eventOf(c observe.Change) (event, bool) {
	who := describe(c.Client, cmp.Or(c.Owner, c.Client.ID), c.Note)
	s := event{
		At: c.At, Kind: strings.ReplaceAll(string(c.Type), "-", " "), Name: c.Name, Who: who.Who(), Purpose: who.Purpose, owner: c.Owner,
		Held: c.HeldFor, Left: c.Left, Token: c.Token, Why: short(printable(c.Reason), longReason),
	}
	switch c.Type {
	case admin.EntryAcquired, admin.EntryGaveUp, admin.EntryReleased, admin.EntryRenewedLate, admin.EntryLost, observe.Expired, observe.Renewed:
	case admin.EntryForced:
		s.Who = "taken from " + s.Who
	case admin.EntryWaiting, observe.Listening:
		s.Kind, s.Who, s.Count = eventWaiting, "", c.Waiting+max(c.Listeners, 0)
		return s, !c.Reported
	default:
		return event{}, false
	}
	return s, true
}
