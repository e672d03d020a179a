package dash

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	logEvery  = time.Second
	logCommon = 50 // the most reported events that one call of keep adds, rare ones not counted
)

// readLog adds changes to the dashboard's event log until ctx ends: the changes that polling
// finds, and the entries that programs write to the event log of the store. It begins with the
// entries of the last hour.
func (d *Dashboard) readLog(ctx context.Context) {
	began := time.Now()
	for pause := time.Duration(0); retry.Sleep(ctx, pause); {
		pause = logEvery
		if d.store.now().failing.IsZero() && d.budget.take(time.Now(), 1, 1) == 1 {
			if more, _ := d.table.ReadLog(ctx, observe.Past); more { // after an error, the entries that could not be read are missing
				pause = 0
			}
		}
		d.keep(d.table.Take(time.Now()), began)
	}
	d.keep(d.table.Take(time.Now().Add(observe.Delay)), began)
}

// keep adds changes to the dashboard's event log. Of the reported changes that are not rare
// and happened after `began`, it adds the first logCommon and drops the others.
func (d *Dashboard) keep(changes []observe.Change, began time.Time) {
	common := 0
	for _, c := range changes {
		if !shows(c) || !d.shown(c.Name) || d.eventLog.has(c) {
			continue
		}
		if c.Reported && !c.Type.Rare() && c.At.After(began) {
			if common++; common > logCommon {
				continue
			}
		}
		d.eventLog.add(eventOf(c))
	}
}

// shows reports whether the pages show c. They do not show changes of all types, and they
// show the number of waiters only from polls.
func shows(c observe.Change) bool {
	switch c.Type {
	case admin.EntryAcquired, admin.EntryGaveUp, admin.EntryReleased, admin.EntryRenewedLate, admin.EntryLost, admin.EntryForced, observe.Expired, observe.Renewed:
		return true
	case admin.EntryWaiting, observe.Listening:
		return !c.Reported
	}
	return false
}

func eventOf(c observe.Change) event {
	who := describe(c.Client, cmp.Or(c.Owner, c.Client.ID), c.Note)
	c.Reason = short(printable(c.Reason), longReason)
	if c.Type == admin.EntryWaiting || c.Type == observe.Listening {
		c.Type, c.Count = admin.EntryWaiting, c.Waiting+max(c.Listeners, 0)
	}
	return event{Change: c, who: who.Who(), purpose: who.Purpose}
}
