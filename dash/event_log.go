package dash

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
)

const (
	mostEvents   = 20_000
	chartMinutes = 60
)

// event is a change of a lock, as the pages show it. The Count of a renewal is how often the
// hold was renewed. The Count of EntryWaiting is the number of waiters.
type event struct {
	observe.Change
	number  uint64 // the number of the event, from 1
	who     string // the holder, as text for people
	purpose observe.Purpose
}

// kind returns the type of s as pages show it.
func (s *event) kind() string { return strings.ReplaceAll(string(s.Type), "-", " ") }

// ends reports whether a hold ended with s.
func (s *event) ends() bool {
	switch s.Type {
	case admin.EntryReleased, observe.Expired, admin.EntryForced, admin.EntryLost:
		return true
	}
	return false
}

// eventLog keeps the last 20,000 events of locks in memory.
type eventLog struct {
	mu       sync.Mutex
	ring     []event
	number   uint64                 // the number of the last event
	renewals map[admin.Ended]uint64 // by hold: the number of the event that counts the renewals of the hold
	clients  map[string]bool        // by client: whether its Locker reports to Observe
	minutes  [chartMinutes]minute
}

// minute has the largest number of waiters in one minute.
type minute struct {
	number  int64 // the minute, counted from 1970
	waiting int
}

func newEventLog() *eventLog {
	return &eventLog{renewals: map[admin.Ended]uint64{}, clients: map[string]bool{}}
}

// Observe adds an event of a Locker to the event log of the dashboard. The times of the events
// of that Locker are then exact to the millisecond, and its losses have their reasons. It is a
// function for holdfast.Options.Observe, and does not block:
//
//	dashboard := dash.Handler(admin.New(backend), nil)
//	locker := holdfast.New(backend, &holdfast.Options{Observe: dashboard.Observe})
func (d *Dashboard) Observe(_ context.Context, e holdfast.Event) {
	c := observe.Change{Reported: true, Entry: admin.Entry{At: time.Now(), Name: e.Name, Owner: e.Owner, Token: e.Token, HeldFor: e.HeldFor}}
	switch {
	case e.Type == holdfast.EventAcquire && e.Err == nil:
		c.Type = admin.EntryAcquired
	case e.Type == holdfast.EventAcquire && errors.Is(e.Err, holdfast.ErrBusy):
		c.Type = admin.EntryGaveUp
	case e.Type == holdfast.EventRenew && e.Err == nil:
		c.Type = observe.Renewed
	case e.Type == holdfast.EventRelease && e.Err == nil:
		c.Type = admin.EntryReleased
	case e.Type == holdfast.EventLoss:
		c.Type, c.Reason = admin.EntryLost, printable(string(e.Reason))
	default:
		return
	}
	d.eventLog.mu.Lock()
	d.eventLog.clients[e.Client] = true
	d.eventLog.mu.Unlock()
	d.eventLog.add(event{Change: c, who: "this process"})
}

// has reports whether the dashboard's event log already has the event in c, because the client
// of c reports its events to Observe. Clients do not report forced unlocks to Observe.
func (h *eventLog) has(c observe.Change) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return c.Type != admin.EntryForced && h.clients[c.ClientID()]
}

// add adds the event s. All renewals of one hold are one event.
func (h *eventLog) add(s event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case s.Type == observe.Renewed:
		s.Count = 1
		if o := h.at(h.renewals[s.Hold()]); o != nil {
			o.Count, o.At = o.Count+1, s.At
			return
		}
		h.renewals[s.Hold()] = h.number + 1
	case s.ends() || s.Type == admin.EntryAcquired:
		delete(h.renewals, s.Hold()) // the next renewal belongs to another hold
	}
	h.number++
	s.number = h.number
	if len(h.ring) < mostEvents {
		h.ring = append(h.ring, s)
		return
	}
	lost := &h.ring[(h.number-1)%mostEvents]
	if h.renewals[lost.Hold()] == lost.number {
		delete(h.renewals, lost.Hold())
	}
	*lost = s
}

// at returns the event with the number n, or nil if the log does not have it.
func (h *eventLog) at(n uint64) *event {
	if n == 0 || n > h.number || h.number-n >= uint64(len(h.ring)) {
		return nil
	}
	return &h.ring[(n-1)%mostEvents]
}

// sample records the number of waiters at the time `now`, for the charts.
func (h *eventLog) sample(now time.Time, waiting int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	number := now.Unix() / 60
	m := &h.minutes[number%chartMinutes]
	if m.number != number {
		*m = minute{number: number}
	}
	m.waiting = max(m.waiting, waiting)
}

// samples returns the largest number of waiters in each minute of the last hour, the oldest
// minute first.
func (h *eventLog) samples(now time.Time) (values [chartMinutes]value) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.minutes {
		if age := int(now.Unix()/60 - m.number); age >= 0 && age < chartMinutes {
			values[chartMinutes-1-age].high = float64(m.waiting)
		}
	}
	return values
}

// of returns at most `most` events, the latest first. It leaves out events from before the
// time `since`, and events for which the function `want` returns false.
func (h *eventLog) of(since time.Time, most int, want func(*event) bool) []event {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []event
	for n := h.number; len(list) < most; n-- {
		s := h.at(n)
		if s == nil {
			break
		}
		if !s.At.Before(since) && want(s) {
			list = append(list, *s)
		}
	}
	slices.SortStableFunc(list, func(a, b event) int { return b.At.Compare(a.At) })
	return list
}
