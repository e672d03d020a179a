package dash

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

const (
	mostHappenings = 20_000
	chartMinutes   = 60
)

// Kinds of events.
const (
	happenedAcquire = "acquired"
	happenedRelease = "released"
	happenedExpire  = "expired"
	happenedRenew   = "renewed"
	happenedLate    = "renewed late"
	happenedWait    = "waiting"
	happenedForce   = "forced"
	happenedLose    = "lost"
	happenedBusy    = "gave up"
)

// happening is one event of a lock.
type happening struct {
	number uint64 // counts them
	before uint64 // the one before of the same name
	told   bool   // by the program that did it; others were seen
	At     time.Time
	Kind   string
	Name   string
	Who    string // for people
	purpose
	client string        // whose hold it is; "" where a Locker reports to Observe
	owner  string        // likewise: of the hold; "" if it is not known
	Held   time.Duration // released, expired, lost, forced
	Late   time.Duration // lost: how long after the hold was over its holder noticed
	Left   time.Duration // renewed, renewed late: what was left of the lease at most
	Mode   driver.Mode   // acquired
	alone  bool          // an exclusive hold, as far as is known
	Token  uint64        // of a hold, if it is known
	Count  int           // waiting: how many; renewed: how often
	Why    string        // forced, lost
}

// History keeps what happened to locks: what a Dashboard sees while it watches,
// what programs write to the event log with package audit, and what a Locker
// reports to Observe. It is kept in memory, and limited: the last 20,000 steps.
type History struct {
	mu       sync.Mutex
	ring     []happening
	number   uint64            // of the last
	last     map[string]uint64 // by name: its last event
	renewals map[hold]uint64   // the renewals of each hold that may go on
	minutes  [chartMinutes]minute
}

// hold names a hold whose renewals are shown in one row.
type hold struct{ name, client, owner, who string }

func (s *happening) hold() hold { return hold{s.Name, s.client, s.owner, s.Who} }

// minute is what was seen within a minute.
type minute struct {
	number  int64 // since 1970
	held    int   // the most that were held at once
	waiting int
}

// NewHistory returns an empty history. A Dashboard makes its own; one that a
// Locker reports to as well knows what that Locker did to the millisecond, and why
// it lost a lock:
//
//	history := dash.NewHistory()
//	locker := holdfast.New(backend, &holdfast.Options{Observe: history.Observe})
//	handler := dash.Handler(admin.New(backend), &dash.Options{History: history})
func NewHistory() *History { return &History{last: map[string]uint64{}, renewals: map[hold]uint64{}} }

// Observe notes what a Locker reports. It is made for holdfast.Options.Observe,
// and does not block.
func (h *History) Observe(_ context.Context, e holdfast.Event) {
	s := happening{At: time.Now(), Name: e.Name, Who: "this process", told: true, Token: e.Token, Held: e.HeldFor}
	switch {
	case e.Type == holdfast.EventAcquire && e.Err == nil:
		s.Kind = happenedAcquire
	case e.Type == holdfast.EventAcquire && errors.Is(e.Err, holdfast.ErrBusy):
		s.Kind = happenedBusy
	case e.Type == holdfast.EventRenew && e.Err == nil:
		s.Kind, s.Left = happenedRenew, e.Margin
	case e.Type == holdfast.EventRelease && e.Err == nil:
		s.Kind = happenedRelease
	case e.Type == holdfast.EventLoss:
		s.Kind, s.Why = happenedLose, printable(string(e.Reason))
	default:
		return
	}
	h.add(s)
}

func (h *History) add(s happening) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.push(s)
}

// push adds s. The renewals of a hold are one.
func (h *History) push(s happening) {
	switch {
	case s.Kind == happenedRenew:
		s.Count = 1
		if o := h.at(h.renewals[s.hold()]); o != nil {
			o.Count, o.At, o.Left = o.Count+1, s.At, min(o.Left, s.Left)
			return
		}
		h.renewals[s.hold()] = h.number + 1
	case s.ends() || s.Kind == happenedAcquire:
		h.parted(&s)
	}
	h.number++
	s.number, s.before = h.number, h.last[s.Name]
	if len(h.ring) < mostHappenings {
		h.ring = append(h.ring, s)
	} else {
		lost := &h.ring[(h.number-1)%mostHappenings]
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

// parted notes that a hold began or ended: renewals from now on are of the next.
func (h *History) parted(s *happening) {
	delete(h.renewals, s.hold())
	h.latest(s.Name, func(o *happening) bool {
		if o.Kind == happenedRenew && s.about(o) && h.renewals[o.hold()] == o.number {
			delete(h.renewals, o.hold())
		}
		return true
	})
}

// at returns event number n if it is still there.
func (h *History) at(n uint64) *happening {
	if n == 0 || n > h.number || h.number-n >= uint64(len(h.ring)) {
		return nil
	}
	return &h.ring[(n-1)%mostHappenings]
}

// sample notes how much is held at now.
func (h *History) sample(now time.Time, held, waiting int) {
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
func (h *History) samples(now time.Time) []minute {
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

// of returns the events of name since a time, or of all names if name is "",
// the latest first, up to most of those that want says yes to.
func (h *History) of(name string, since time.Time, most int, want func(*happening) bool) []happening {
	h.mu.Lock()
	defer h.mu.Unlock()
	number := h.number
	if name != "" {
		number = h.last[name]
	}
	var list []happening
	for s := h.at(number); s != nil && len(list) < most; s = h.at(number) {
		if number--; name != "" {
			number = s.before
		}
		if !s.At.Before(since) && (want == nil || want(s)) {
			list = append(list, *s)
		}
	}
	slices.SortStableFunc(list, func(a, b happening) int { return b.At.Compare(a.At) })
	return list
}
