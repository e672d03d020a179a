package meter

import (
	"context"

	"github.com/holdfast-go/holdfast"
)

// Meter turns events into values of metrics. Several goroutines may call its methods at once.
type Meter struct {
	groups    *Groups
	elections map[string]bool // true for the names of the locks of elections
}

// Record receives a value of a metric: a time in seconds for a Histogram, and the change of a
// number for other kinds. `labels` has the values of the labels in Instrument.Labels, and ""
// for a label that does not apply.
type Record = func(m Metric, value float64, labels ...string)

// New returns a Meter. The function `group` returns the group of a lock; if it is nil, no lock
// has a group. `elections` has the names of the locks of elections.
func New(group func(name string) string, elections []string) *Meter {
	m := &Meter{groups: NewGroups(group), elections: make(map[string]bool)}
	for _, name := range elections {
		m.elections[name] = true
	}
	return m
}

// Election returns the value of the label election for a lock. It returns "" if the lock is not
// that of an election.
func (m *Meter) Election(name string) string {
	if m.elections[name] {
		return Text(name)
	}
	return ""
}

// Start calls `record` with the value 0 for each series that exists from the start, because an
// alert on an increase would miss a series that begins with 1.
func (m *Meter) Start(record Record) {
	for _, outcome := range []string{"ok", "late", "error", "not_owner"} {
		record(Renewals, 0, outcome)
	}
	for _, reason := range reasons() {
		record(Lost, 0, reason)
	}
	record(Wakeups, 0, "notify")
	record(Wakeups, 0, "poll")
	for _, op := range operations() {
		record(Calls, 0, op, "ok")
		record(Calls, 0, op, "refused")
		record(Calls, 0, op, "error")
		if op != holdfast.OpRenew { // a renewal has no EventIndeterminate: it is only repeated
			record(Indeterminate, 0, op, "yes")
			record(Indeterminate, 0, op, "no")
		}
	}
	for name := range m.elections {
		record(Leader, 0, m.Election(name))
	}
}

// Observe calls `record` with each value of an event. It ignores unknown types of events.
func (m *Meter) Observe(ctx context.Context, e holdfast.Event, record Record) {
	switch e.Type {
	case holdfast.EventWait:
		record(Waiting, 1, e.Kind, m.groups.Label(e.Name), m.Election(e.Name))
	case holdfast.EventWake:
		record(Wakeups, 1, either(e.Notified, "notify", "poll"))
	case holdfast.EventAcquire:
		m.acquired(ctx, e, record)
	case holdfast.EventRenew:
		record(Renewals, 1, RenewOutcome(e))
		if !e.Leased { // the end of a leased lock is fixed: its renewal extends nothing
			record(Margins, e.Margin.Seconds(), e.Kind)
		}
	case holdfast.EventRelease, holdfast.EventLoss:
		if FoundLost(e) {
			return
		}
		if reason, lost := Loss(e); lost {
			record(Lost, 1, reason)
		}
		record(Holds, e.HeldFor.Seconds(), e.Kind, HoldEnd(e))
		m.hold(e, -1, record)
	case holdfast.EventCall:
		record(Calls, e.Took.Seconds(), known(e.Op, operations()), CallOutcome(e.Err))
	case holdfast.EventIndeterminate:
		record(Indeterminate, 1, known(e.Op, operations()), either(e.Resolved, "yes", "no"))
	}
}

func (m *Meter) acquired(ctx context.Context, e holdfast.Event, record Record) {
	group, election := m.groups.Label(e.Name), m.Election(e.Name)
	if e.Blocked {
		record(Waiting, -1, e.Kind, group, election)
	}
	record(Acquires, e.Waited.Seconds(), e.Kind, e.Backend, AcquireOutcome(ctx, e.Err), group, election)
	if e.Err == nil {
		m.hold(e, 1, record)
	}
}

// hold records that a hold has begun (`by` is 1) or ended (`by` is -1). The end of a hold may
// be reported after the next acquire of the same lock. A loss may be reported even before the
// acquire of the hold that was lost. The sums are right when all events were reported.
func (m *Meter) hold(e holdfast.Event, by float64, record Record) {
	record(Held, by, e.Kind, m.groups.Label(e.Name))
	if election := m.Election(e.Name); election != "" {
		record(Leader, by, election)
	}
}
