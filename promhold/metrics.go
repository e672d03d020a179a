package promhold

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/meter"
)

// Options define which names of locks may become labels. With the zero value, no name becomes a
// label.
type Options struct {
	// Group maps the name of a lock to the value of the label lock_group, such as
	// GroupByPrefix. It must always return the same value for a name. Several goroutines may
	// call it at once. The first 100 different values that Group returns become values of the
	// label. Every further value becomes "other". Default: the label is empty.
	Group func(name string) string

	// Elections are the names of locks whose holder is a leader. Each name is a value of the
	// label election. The metric holdfast_leader has this label, and starts at 0. The metrics
	// of waits have this label, too, because a candidate may wait without limit. These locks
	// are not in holdfast_oldest_hold_seconds.
	Elections []string
}

// GroupByPrefix is a function for Options.Group. It returns the text before the first colon or
// decimal digit: "stock" for "stock:42" and "stock:43", "order-" for "order-7". A name without
// a colon and without a digit is its own group, so use GroupByPrefix only for names from a
// fixed set of prefixes.
func GroupByPrefix(name string) string { return meter.Prefix(name) }

// Metrics counts the events of the Lockers of this process. It is a prometheus.Collector;
// register it once. Several goroutines may call its methods at once.
type Metrics struct {
	meter   *meter.Meter
	metrics []prometheus.Collector // the index is a meter.Metric; after these come the metric with the version of Holdfast, and ages
	ages    *ages
}

// New returns Metrics. The caller registers them. opts may be nil.
//
// Counters exist from the start, at 0, if the values of their labels are known. If a counter
// began with 1, an alert on its increase would miss the first event.
func New(opts *Options) *Metrics {
	if opts == nil {
		opts = &Options{}
	}
	m := &Metrics{meter: meter.New(opts.Group, opts.Elections), ages: newAges()}
	for _, i := range meter.Instruments() {
		m.metrics = append(m.metrics, collector(i))
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "holdfast_build_info", Help: "Always 1; the version of Holdfast is a label.",
		ConstLabels: prometheus.Labels{"version": meter.Version()},
	})
	build.Set(1)
	m.metrics = append(m.metrics, build, m.ages)
	m.meter.Start(func(id meter.Metric, _ float64, labels ...string) { m.series(id, labels) })
	return m
}

// collector returns the metric that the Instrument i describes.
func collector(i meter.Instrument) prometheus.Collector {
	name := "holdfast_" + strings.ReplaceAll(i.Name, ".", "_")
	switch i.Kind {
	case meter.Histogram:
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name + "_seconds", Help: i.Help, Buckets: i.Bounds}, i.Labels)
	case meter.Counter:
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name + "_total", Help: i.Help}, i.Labels)
	default:
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: i.Help}, i.Labels)
	}
}

// series returns the function that adds a value to a series. It creates the series if it does
// not exist.
func (m *Metrics) series(id meter.Metric, labels []string) (add func(float64)) {
	switch of := m.metrics[id].(type) {
	case *prometheus.HistogramVec:
		return of.WithLabelValues(labels...).Observe
	case *prometheus.CounterVec:
		return of.WithLabelValues(labels...).Add
	default:
		return of.(*prometheus.GaugeVec).WithLabelValues(labels...).Add
	}
}

// Observe counts one event. It is a function for holdfast.Options.Observe. It does no
// I/O, and ignores unknown types of events.
func (m *Metrics) Observe(ctx context.Context, e holdfast.Event) {
	m.meter.Observe(ctx, e, func(id meter.Metric, value float64, labels ...string) {
		m.series(id, labels)(value)
		if id == meter.Held && m.meter.Election(e.Name) == "" {
			m.ages.add(e, labels[1], int(value))
		}
	})
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.metrics {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.metrics {
		c.Collect(ch)
	}
}
