package promhold

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast"
)

// Options say which names of locks may become labels. The zero value means none.
type Options struct {
	// Group maps the name of a lock to the value of the label lock_group, such as
	// Prefix. It must always answer the same for a name and may be called from
	// several goroutines at once. The first 100 values count, in the order in
	// which they are seen; all others are "other". Default: the label is empty.
	Group func(name string) string

	// Elections are the names of locks whose holder is a leader. Each is a value
	// of the label election of holdfast_leader, which is 0 from the start.
	Elections []string
}

// Metrics counts what the Lockers of this process do. It is a
// prometheus.Collector, to be registered once. Its methods may be called from
// several goroutines at once.
type Metrics struct {
	groups *groups

	acquires *prometheus.HistogramVec
	holds    *prometheus.HistogramVec
	margins  *prometheus.HistogramVec
	held     *prometheus.GaugeVec
	renewals *prometheus.CounterVec
	lost     *prometheus.CounterVec
	leaders  *prometheus.GaugeVec
	build    prometheus.Gauge

	leader map[string]prometheus.Gauge // by name of the lock
}

// New returns Metrics that are not registered anywhere. opts may be nil.
//
// Counters without a label that depends on use are there from the start, at 0:
// an alert on the first loss would miss a series that begins with 1.
func New(opts *Options) *Metrics {
	if opts == nil {
		opts = &Options{}
	}
	m := &Metrics{
		groups:   newGroups(opts.Group),
		acquires: histogram("acquire_duration_seconds", "Time from the call of Lock or TryLock to its end.", acquireBounds(), "kind", "backend", "outcome", "lock_group"),
		holds:    histogram("hold_duration_seconds", "Time from the acquire of a lock to its release or loss.", holdBounds(), "kind", "end"),
		margins:  histogram("renew_margin_seconds", "Time that was left, when a renewal was answered or failed, until the lock would have counted as lost.", marginBounds(), "kind"),
		held:     gauge("held", "Locks that this process holds.", "kind", "lock_group"),
		renewals: counter("renewals_total", "Renewals of locks by their answer.", "outcome"),
		lost:     counter("lost_total", "Locks that ended before they were unlocked.", "reason"),
		leaders:  gauge("leader", "Whether this process holds the lock of an election.", "election"),
		build: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "holdfast_build_info", Help: "Always 1; the version of Holdfast is a label.",
			ConstLabels: prometheus.Labels{"version": version()},
		}),
		leader: make(map[string]prometheus.Gauge),
	}
	m.build.Set(1)
	for _, outcome := range []string{"ok", "error", "not_owner"} {
		m.renewals.WithLabelValues(outcome)
	}
	for _, reason := range reasons() {
		m.lost.WithLabelValues(string(reason))
	}
	for _, name := range opts.Elections {
		m.leader[name] = m.leaders.WithLabelValues(strings.ToValidUTF8(name, "\uFFFD"))
	}
	return m
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

// Observe counts one event. Put it into holdfast.Options.Observe. It does no I/O
// and ignores kinds of events that it does not know.
func (m *Metrics) Observe(ctx context.Context, e holdfast.Event) {
	switch e.Kind {
	case holdfast.EventAcquire:
		group := m.groups.label(e.Name)
		m.acquires.WithLabelValues(e.Lock, e.Backend, acquireOutcome(ctx, e.Err), group).Observe(e.Waited.Seconds())
		if e.Err == nil {
			m.hold(e, group, 1)
		}
	case holdfast.EventRenew:
		m.renewals.WithLabelValues(renewOutcome(e.Err)).Inc()
		m.margins.WithLabelValues(e.Lock).Observe(e.Margin.Seconds())
	case holdfast.EventRelease, holdfast.EventLoss:
		if foundLost(e) {
			return
		}
		if e.Kind == holdfast.EventLoss {
			m.lost.WithLabelValues(lossReason(e.Reason)).Inc()
		}
		m.holds.WithLabelValues(e.Lock, holdEnd(e)).Observe(e.Held.Seconds())
		m.hold(e, m.groups.label(e.Name), -1)
	}
}

// hold adds one hold to the gauges, or takes one away. The report of an end may
// come after that of the next acquire, and that of a loss even before its own;
// the sums are right when all were told.
func (m *Metrics) hold(e holdfast.Event, group string, by float64) {
	m.held.WithLabelValues(e.Lock, group).Add(by)
	if leader, ok := m.leader[e.Name]; ok {
		leader.Add(by)
	}
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
	return []prometheus.Collector{m.acquires, m.holds, m.margins, m.held, m.renewals, m.lost, m.leaders, m.build}
}
