package dash

import (
	"context"
	"errors"
	"slices"
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

// Kinds of events.
const (
	eventAcquired    = "acquired"
	eventReleased    = "released"
	eventExpired     = "expired"
	eventRenewed     = "renewed"
	eventRenewedLate = "renewed late"
	eventWaiting     = "waiting"
	eventForced      = "forced"
	eventLost        = "lost"
	eventGaveUp      = "gave up"
)

// event is one event of a lock, as the pages show it.
type event struct {
	number uint64 // counts from 1
	before uint64 // the number of the event before it with the same name; 0 for none
	At     time.Time
	Kind   string
	Name   string
	Who    string // for people
	observe.Purpose
	owner string        // the owner of the hold; "" if there is none
	Held  time.Duration // released, expired, lost, forced
	Left  time.Duration // renewed, renewed late: the shortest rest of the lease before a renewal
	Token uint64        // of a hold, if it is known
	Count int           // waiting: how many; renewed: how often
	Why   string        // forced, lost
}

// ends reports whether a hold ended with s.
func (s *event) ends() bool {
	switch s.Kind {
	case eventReleased, eventExpired, eventForced, eventLost:
		return true
	}
	return false
}

// hold names the hold of s.
func (s *event) hold() admin.Ended { return admin.Ended{Name: s.Name, Owner: s.owner} }

// EventLog keeps the last 20,000 events of locks in memory. They have three sources:
// a Dashboard finds events when it polls the store, programs write them to the store
// with package audit, and a Locker reports them to Observe.
type EventLog struct {
	mu       sync.Mutex
	ring     []event
	number   uint64                 // of the last event
	last     map[string]uint64      // by name: the number of its last event
	renewals map[admin.Ended]uint64 // by hold: the number of the event that has its renewals
	clients  map[string]bool        // by client: whether its Locker reports to Observe
	minutes  [chartMinutes]minute
}

// minute has the largest number of holds and of waiters in one minute.
type minute struct {
	number  int64 // minutes since 1970
	held    int   // the largest number of holds at once
	waiting int
}

// NewEventLog returns an empty event log. A Dashboard without one makes its own. If a Locker
// reports to it, the times of that Locker's events are exact to the millisecond, and its
// losses have their reasons:
//
//	log := dash.NewEventLog()
//	locker := holdfast.New(backend, &holdfast.Options{Observe: log.Observe})
//	handler := dash.Handler(admin.New(backend), &dash.Options{EventLog: log})
func NewEventLog() *EventLog {
	return &EventLog{last: map[string]uint64{}, renewals: map[admin.Ended]uint64{}, clients: map[string]bool{}}
}

// Observe adds an event of a Locker. It is a function for holdfast.Options.Observe,
// and does not block.
func (h *EventLog) Observe(_ context.Context, e holdfast.Event) {
	s := event{At: time.Now(), Name: e.Name, Who: "this process", owner: e.Owner, Token: e.Token, Held: e.HeldFor}
	switch {
	case e.Type == holdfast.EventAcquire && e.Err == nil:
		s.Kind = eventAcquired
	case e.Type == holdfast.EventAcquire && errors.Is(e.Err, holdfast.ErrBusy):
		s.Kind = eventGaveUp
	case e.Type == holdfast.EventRenew && e.Err == nil:
		s.Kind, s.Left = eventRenewed, e.Margin
	case e.Type == holdfast.EventRelease && e.Err == nil:
		s.Kind = eventReleased
	case e.Type == holdfast.EventLoss:
		s.Kind, s.Why = eventLost, printable(string(e.Reason))
	default:
		return
	}
	h.mu.Lock()
	h.clients[e.Client] = true
	h.mu.Unlock()
	h.add(s)
}

// has reports whether the client of c reports its events to Observe, which does not report
// forced unlocks.
func (h *EventLog) has(c observe.Change) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return c.Type != admin.EntryForced && h.clients[c.ClientID()]
}

// add adds s. All renewals of a hold are one event.
func (h *EventLog) add(s event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case s.Kind == eventRenewed:
		s.Count = 1
		if o := h.at(h.renewals[s.hold()]); o != nil {
			o.Count, o.At, o.Left = o.Count+1, s.At, min(o.Left, s.Left)
			return
		}
		h.renewals[s.hold()] = h.number + 1
	case s.ends() || s.Kind == eventAcquired:
		delete(h.renewals, s.hold()) // the next renewal belongs to another hold
	}
	h.number++
	s.number, s.before = h.number, h.last[s.Name]
	if len(h.ring) < mostEvents {
		h.ring = append(h.ring, s)
	} else {
		lost := &h.ring[(h.number-1)%mostEvents]
		if h.last[lost.Name] == lost.number {
			delete(h.last, lost.Name)
		}
		if h.renewals[lost.hold()] == lost.number {
			delete(h.renewals, lost.hold())
		}
		*lost = s
	}
	h.last[s.Name] = s.number
}

// at returns event number n, or nil if newer events have replaced it.
func (h *EventLog) at(n uint64) *event {
	if n == 0 || n > h.number || h.number-n >= uint64(len(h.ring)) {
		return nil
	}
	return &h.ring[(n-1)%mostEvents]
}

// sample adds the numbers of holds and waiters at now to the charts.
func (h *EventLog) sample(now time.Time, held, waiting int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	number := now.Unix() / 60
	m := &h.minutes[number%chartMinutes]
	if m.number != number {
		*m = minute{number: number}
	}
	m.held, m.waiting = max(m.held, held), max(m.waiting, waiting)
}

// samples returns the minutes of the last hour, the oldest first.
func (h *EventLog) samples(now time.Time) []minute {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]minute, chartMinutes)
	this := now.Unix() / 60
	for i := range list {
		number := this - chartMinutes + 1 + int64(i)
		if m := h.minutes[number%chartMinutes]; m.number == number {
			list[i] = m
		}
	}
	return list
}

// of returns the events of name that are not older than since, the latest first. If name is
// "", it returns the events of all names. It returns at most `most` events, and only those
// that want accepts; a nil want accepts all.
func (h *EventLog) of(name string, since time.Time, most int, want func(*event) bool) []event {
	h.mu.Lock()
	defer h.mu.Unlock()
	number := h.number
	if name != "" {
		number = h.last[name]
	}
	var list []event
	for s := h.at(number); s != nil && len(list) < most; s = h.at(number) {
		if number--; name != "" {
			number = s.before
		}
		if !s.At.Before(since) && (want == nil || want(s)) {
			list = append(list, *s)
		}
	}
	slices.SortStableFunc(list, func(a, b event) int { return b.At.Compare(a.At) })
	return list
}
