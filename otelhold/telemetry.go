package otelhold

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/meter"
)

const scope = "github.com/holdfast-go/holdfast/otelhold"

// Options are the settings of a Telemetry: the providers, and which names of locks may
// become attributes of metrics. A zero field means the default.
type Options struct {
	// MeterProvider and TracerProvider default to the global providers.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider

	// Group maps the name of a lock to the value of the attribute lock_group, such as
	// GroupByPrefix. It must always return the same value for a name. Several goroutines may
	// call it at once. The first 100 different values that Group returns become values of the
	// attribute. Every further value becomes "other". Default: no attribute.
	Group func(name string) string

	// Elections are the names of locks whose holder is a leader. Each name is a value of the
	// attribute election. The metric holdfast.leader has this attribute, and starts at 0. The
	// metrics of waits have this attribute, too, because a candidate may wait without limit.
	Elections []string

	// HoldSpans makes a span holdfast.hold for each hold, in a separate trace, linked to the
	// span of its acquire. This needs about a hundred bytes of memory for each held lock.
	HoldSpans bool
}

// GroupByPrefix is a function for Options.Group. It returns the text before the first colon or
// decimal digit: "stock" for "stock:42" and "stock:43", "order-" for "order-7". A name without
// a colon and without a digit is its own group, so use GroupByPrefix only for names from a
// fixed set of prefixes.
func GroupByPrefix(name string) string { return meter.Prefix(name) }

// Telemetry makes metrics and spans from the events of the Lockers of this process.
// Several goroutines may call its methods at once.
type Telemetry struct {
	meter   *meter.Meter
	spans   *spans
	metrics []instrument // the index is a meter.Metric
}

// instrument is a metric. The function `add` adds a value to it. `add` is nil for a metric that
// otelhold leaves to the instrumentation of the store's client.
type instrument struct {
	labels []string
	add    func(ctx context.Context, value float64, labels metric.MeasurementOption)
}

// New returns a Telemetry. opts may be nil. It returns an error if the MeterProvider
// refuses an instrument.
func New(opts *Options) (*Telemetry, error) {
	if opts == nil {
		opts = &Options{}
	}
	meters, tracers := opts.MeterProvider, opts.TracerProvider
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	if tracers == nil {
		tracers = otel.GetTracerProvider()
	}
	t := &Telemetry{
		meter: meter.New(opts.Group, opts.Elections),
		spans: newSpans(tracers.Tracer(scope, trace.WithInstrumentationVersion(meter.Version())), opts.HoldSpans),
	}
	m := meters.Meter(scope, metric.WithInstrumentationVersion(meter.Version()))
	for _, i := range meter.Instruments() {
		made, err := newInstrument(m, i)
		if err != nil {
			return nil, err
		}
		t.metrics = append(t.metrics, made)
	}
	t.meter.Start(t.recorder(context.Background()))
	return t, nil
}

// newInstrument returns the metric that the Instrument i describes.
func newInstrument(m metric.Meter, i meter.Instrument) (made instrument, err error) {
	made.labels = i.Labels
	name, unit, help := "holdfast."+i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help)
	switch {
	case i.Unit == "":
	case i.Kind == meter.Histogram:
		var h metric.Float64Histogram
		h, err = m.Float64Histogram(name, unit, help, metric.WithExplicitBucketBoundaries(i.Bounds...))
		made.add = func(ctx context.Context, v float64, labels metric.MeasurementOption) { h.Record(ctx, v, labels) }
	case i.Kind == meter.Counter:
		var c metric.Int64Counter
		c, err = m.Int64Counter(name, unit, help)
		made.add = func(ctx context.Context, v float64, labels metric.MeasurementOption) { c.Add(ctx, int64(v), labels) }
	default:
		var c metric.Int64UpDownCounter
		c, err = m.Int64UpDownCounter(name, unit, help)
		made.add = func(ctx context.Context, v float64, labels metric.MeasurementOption) { c.Add(ctx, int64(v), labels) }
	}
	return made, err
}

// recorder returns a function that adds a value to a metric. A label without a value does not
// become an attribute.
func (t *Telemetry) recorder(ctx context.Context) meter.Record {
	return func(id meter.Metric, value float64, labels ...string) {
		to := t.metrics[id]
		if to.add == nil {
			return
		}
		var with []attribute.KeyValue
		for n, label := range labels {
			if label != "" {
				with = append(with, attribute.String(to.labels[n], label))
			}
		}
		to.add(ctx, value, metric.WithAttributeSet(attribute.NewSet(with...)))
	}
}

// Observe handles one event. It is a function for holdfast.Options.Observe. It ignores unknown
// types of events. The time that Observe takes depends on the providers. For example, an
// exporter delays locks if it sends each span in the goroutine that ends the span.
func (t *Telemetry) Observe(ctx context.Context, e holdfast.Event) {
	ctx = t.spans.observe(ctx, e, time.Now()) // so that exemplars refer to the span
	t.meter.Observe(ctx, e, t.recorder(ctx))
}
