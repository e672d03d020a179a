package promhold

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/meter"
)

// Options define which names of locks may become labels. The zero value means none.
type Options struct {
	// Group maps the name of a lock to the value of the label lock_group, such as
	// GroupByPrefix. It must always return the same value for a name. Several goroutines
	// may call it at once. The first 100 values are used, in the order of their first
	// use; all others become "other". Default: the label is empty.
	Group func(name string) string

	// Elections are the names of locks whose holder is a leader. Each name is a value of the
	// label election. The metric holdfast_leader has this label, and starts at 0. The metrics
	// of waits have it, too, because a candidate may wait without limit. These locks are not
	// in holdfast_oldest_hold_seconds.
	Elections []string
}

// GroupByPrefix is a function for Options.Group. It returns the text before the first
// colon or decimal digit: "stock" for "stock:42" and "stock:43", "order-" for "order-7".
// A name with neither is its own group, so use GroupByPrefix only for names from a fixed
// set of prefixes.
func GroupByPrefix(name string) string { return meter.Prefix(name) }

// Metrics counts the events of the Lockers of this process. It is a prometheus.Collector;
// register it once. Several goroutines may call its methods at once.
type Metrics struct {
	groups *meter.Groups

	acquires *prometheus.HistogramVec
	holds    *prometheus.HistogramVec
	margins  *prometheus.HistogramVec
	calls    *prometheus.HistogramVec
	held     *prometheus.GaugeVec
	waiting  *prometheus.GaugeVec
	renewals *prometheus.CounterVec
	lost     *prometheus.CounterVec
	wakeups  *prometheus.CounterVec
	resolved *prometheus.CounterVec
	leaders  *prometheus.GaugeVec
	build    prometheus.Gauge
	ages     *ages

	leader map[string]prometheus.Gauge // by name of the lock
}

// New returns Metrics. The caller registers them. opts may be nil.
//
// Counters exist from the start, at 0, if the values of their labels are known: an alert
// on an increase would miss a series that begins with 1.
func New(opts *Options) *Metrics {
	if opts == nil {
		opts = &Options{}
	}
	m := &Metrics{
		groups:   meter.NewGroups(opts.Group),
		acquires: histogram("acquire_duration_seconds", "Time from the call of Lock or TryLock to its end.", meter.AcquireBounds(), "kind", "backend", "outcome", "lock_group", "election"),
		holds:    histogram("hold_duration_seconds", "Time from the acquire of a lock to its release or loss.", meter.HoldBounds(), "kind", "end"),
		margins:  histogram("renew_margin_seconds", "Time that was left, when a renewal was answered or failed, until the lock would have counted as lost.", meter.MarginBounds(), "kind"),
		calls:    histogram("backend_operation_duration_seconds", "Time of one call to the store, until the reply or the timeout.", meter.CallBounds(), "op", "outcome"),
		held:     gauge("held", "Locks that this process holds.", "kind", "lock_group"),
		waiting:  gauge("waiting", "Calls of Lock and TryLock that wait in this process.", "kind", "lock_group", "election"),
		renewals: counter("renewals_total", "Renewals of locks by their answer.", "outcome"),
		lost:     counter("lost_total", "Locks that ended before they were unlocked, other than by their option Lease.", "reason"),
		wakeups:  counter("wakeups_total", "Times that a waiter asked the store again: after a notification, or after a pause.", "source"),
		resolved: counter("indeterminate_total", "Calls without an answer that were followed up: whether it is certain what became of them.", "op", "resolved"),
		leaders:  gauge("leader", "Whether this process holds the lock of an election.", "election"),
		build: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "holdfast_build_info", Help: "Always 1; the version of Holdfast is a label.",
			ConstLabels: prometheus.Labels{"version": meter.Version()},
		}),
		ages:   newAges(),
		leader: make(map[string]prometheus.Gauge),
	}
	m.build.Set(1)
	m.begin(opts.Elections)
	return m
}

// begin creates the series that exist from the start.
func (m *Metrics) begin(elections []string) {
	for _, outcome := range meter.RenewOutcomes() {
		m.renewals.WithLabelValues(outcome)
	}
	for _, reason := range meter.Reasons() {
		m.lost.WithLabelValues(reason)
	}
	for _, source := range meter.WakeSources() {
		m.wakeups.WithLabelValues(source)
	}
	for _, op := range meter.IndeterminateOps() {
		for _, resolved := range []bool{true, false} {
			m.resolved.WithLabelValues(op, meter.Resolved(resolved))
		}
	}
	for _, op := range meter.Ops() {
		for _, outcome := range meter.CallOutcomes() {
			m.calls.WithLabelValues(op, outcome)
		}
	}
	for _, name := range elections {
		m.leader[name] = m.leaders.WithLabelValues(meter.Text(name))
	}
}

func histogram(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "holdfast_" + name, Help: help, Buckets: bounds}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "holdfast_" + name, Help: help}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_" + name, Help: help}, labels)
}

// Observe counts one event. It is a function for holdfast.Options.Observe. It does no
// I/O, and ignores unknown types of events.
func (m *Metrics) Observe(ctx context.Context, e holdfast.Event) {
	switch e.Type {
	case holdfast.EventWait:
		m.waiting.WithLabelValues(e.Kind, m.groups.Label(e.Name), m.election(e.Name)).Inc()
	case holdfast.EventWake:
		m.wakeups.WithLabelValues(meter.WakeSource(e.Notified)).Inc()
	case holdfast.EventAcquire:
		m.acquired(ctx, e)
	case holdfast.EventRenew:
		m.renewals.WithLabelValues(meter.RenewOutcome(e)).Inc()
		if !e.Leased { // otherwise its end is fixed, and the renewal extended nothing
			m.margins.WithLabelValues(e.Kind).Observe(e.Margin.Seconds())
		}
	case holdfast.EventRelease, holdfast.EventLoss:
		m.ended(e)
	case holdfast.EventCall:
		m.calls.WithLabelValues(meter.Op(e.Op), meter.CallOutcome(e.Err)).Observe(e.Took.Seconds())
	case holdfast.EventIndeterminate:
		m.resolved.WithLabelValues(meter.Op(e.Op), meter.Resolved(e.Resolved)).Inc()
	}
}

func (m *Metrics) acquired(ctx context.Context, e holdfast.Event) {
	group, election := m.groups.Label(e.Name), m.election(e.Name)
	if e.Blocked {
		m.waiting.WithLabelValues(e.Kind, group, election).Dec()
	}
	m.acquires.WithLabelValues(e.Kind, e.Backend, meter.AcquireOutcome(ctx, e.Err), group, election).Observe(e.Waited.Seconds())
	if e.Err == nil {
		m.hold(e, group, 1)
	}
}

func (m *Metrics) ended(e holdfast.Event) {
	if meter.FoundLost(e) {
		return
	}
	if reason, lost := meter.Loss(e); lost {
		m.lost.WithLabelValues(reason).Inc()
	}
	m.holds.WithLabelValues(e.Kind, meter.HoldEnd(e)).Observe(e.HeldFor.Seconds())
	m.hold(e, m.groups.Label(e.Name), -1)
}

// hold adds the number `by` to the gauges: 1 for a new hold, -1 for one that has ended. The
// end of a hold may be reported after the next acquire, and a loss even before its own
// acquire. The sums are right when all events were reported.
func (m *Metrics) hold(e holdfast.Event, group string, by int) {
	m.held.WithLabelValues(e.Kind, group).Add(float64(by))
	if leader, ok := m.leader[e.Name]; ok {
		leader.Add(float64(by))
		return
	}
	m.ages.add(e, group, by)
}

// election returns the label for a lock: "" if it is not the lock of an election.
func (m *Metrics) election(name string) string {
	if _, ok := m.leader[name]; ok {
		return meter.Text(name)
	}
	return ""
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(ch)
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.acquires, m.holds, m.margins, m.calls, m.held, m.waiting,
		m.renewals, m.lost, m.wakeups, m.resolved, m.leaders, m.build, m.ages,
	}
}
