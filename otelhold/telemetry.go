package otelhold

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

const scope = "github.com/holdfast-go/holdfast/otelhold"

// Options say where to send what, and which names of locks may become attributes
// of metrics. The zero value of each field means its default.
type Options struct {
	// MeterProvider and TracerProvider default to the global ones.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider

	// Group maps the name of a lock to the value of the attribute lock_group, such
	// as Prefix. It must always answer the same for a name and may be called from
	// several goroutines at once. The first 100 values count, in the order in
	// which they are seen; all others are "other". Default: no attribute.
	Group func(name string) string

	// Elections are the names of locks whose holder is a leader. Each is a value
	// of the attribute election of holdfast.leader, which is 0 from the start.
	Elections []string

	// HoldSpans makes a span holdfast.hold of each time that a lock was held, in
	// a trace of its own, linked to the span of its acquire. It keeps about a
	// hundred bytes for each lock that is held.
	HoldSpans bool
}

// Telemetry reports what the Lockers of this process do. Its methods may be
// called from several goroutines at once.
type Telemetry struct {
	groups    *groups
	elections map[string]metric.MeasurementOption // by name of the lock
	spans     *spans

	acquires metric.Float64Histogram
	holds    metric.Float64Histogram
	margins  metric.Float64Histogram
	held     metric.Int64UpDownCounter
	renewals metric.Int64Counter
	lost     metric.Int64Counter
	leader   metric.Int64UpDownCounter
}

// New returns a Telemetry. opts may be nil. It returns the errors of a
// MeterProvider that refuses an instrument.
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
		groups:    newGroups(opts.Group),
		elections: make(map[string]metric.MeasurementOption),
		spans:     newSpans(tracers.Tracer(scope, trace.WithInstrumentationVersion(version())), opts.HoldSpans),
	}
	if err := t.instruments(meters.Meter(scope, metric.WithInstrumentationVersion(version()))); err != nil {
		return nil, err
	}
	t.begin(opts.Elections)
	return t, nil
}

func (t *Telemetry) instruments(m metric.Meter) error {
	var errs [7]error
	t.acquires, errs[0] = m.Float64Histogram("holdfast.acquire.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the call of Lock or TryLock to its end."),
		metric.WithExplicitBucketBoundaries(acquireBounds()...))
	t.holds, errs[1] = m.Float64Histogram("holdfast.hold.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the acquire of a lock to its release or loss."),
		metric.WithExplicitBucketBoundaries(holdBounds()...))
	t.margins, errs[2] = m.Float64Histogram("holdfast.renew.margin", metric.WithUnit("s"),
		metric.WithDescription("Time that was left, when a renewal was answered or failed, until the lock would have counted as lost."),
		metric.WithExplicitBucketBoundaries(marginBounds()...))
	t.held, errs[3] = m.Int64UpDownCounter("holdfast.held", metric.WithUnit("{lock}"),
		metric.WithDescription("Locks that this process holds."))
	t.renewals, errs[4] = m.Int64Counter("holdfast.renewals", metric.WithUnit("{renewal}"),
		metric.WithDescription("Renewals of locks by their answer."))
	t.lost, errs[5] = m.Int64Counter("holdfast.lost", metric.WithUnit("{lock}"),
		metric.WithDescription("Locks that ended before they were unlocked."))
	t.leader, errs[6] = m.Int64UpDownCounter("holdfast.leader", metric.WithUnit("{leader}"),
		metric.WithDescription("Whether this process holds the lock of an election."))
	return errors.Join(errs[:]...)
}

// begin makes series that an alert wants to see at 0: one on the first loss
// would miss a series that begins with 1.
func (t *Telemetry) begin(elections []string) {
	ctx := context.Background()
	for _, outcome := range []string{"ok", "error", "not_owner"} {
		t.renewals.Add(ctx, 0, with(attribute.String("outcome", outcome)))
	}
	for _, reason := range reasons() {
		t.lost.Add(ctx, 0, with(attribute.String("reason", string(reason))))
	}
	for _, name := range elections {
		t.elections[name] = with(attribute.String("election", strings.ToValidUTF8(name, "\uFFFD")))
		t.leader.Add(ctx, 0, t.elections[name])
	}
}

// with is one set of attributes; empty ones are left out.
func with(kvs ...attribute.KeyValue) metric.MeasurementOption {
	kept := kvs[:0]
	for _, kv := range kvs {
		if kv.Value.AsString() != "" {
			kept = append(kept, kv)
		}
	}
	return metric.WithAttributeSet(attribute.NewSet(kept...))
}

// Observe reports one event. Put it into holdfast.Options.Observe. It ignores
// kinds of events that it does not know. What it costs is up to the providers:
// exporters that send from the goroutine that ends a span would hold up locks.
func (t *Telemetry) Observe(ctx context.Context, e holdfast.Event) {
	now := time.Now()
	switch e.Kind {
	case holdfast.EventAcquire:
		t.acquired(ctx, e, now)
	case holdfast.EventRenew:
		t.renewals.Add(ctx, 1, with(attribute.String("outcome", renewOutcome(e.Err))))
		t.margins.Record(ctx, e.Margin.Seconds(), with(attribute.String("kind", e.Lock)))
	case holdfast.EventRelease, holdfast.EventLoss:
		if foundLost(e) {
			return
		}
		t.ended(ctx, e, now)
	}
}

func (t *Telemetry) acquired(ctx context.Context, e holdfast.Event, now time.Time) {
	outcome, group := acquireOutcome(ctx, e.Err), t.groups.label(e.Name)
	ctx = t.spans.acquire(ctx, e, outcome, now) // exemplars point at the span
	t.acquires.Record(ctx, e.Waited.Seconds(), with(
		attribute.String("kind", e.Lock), attribute.String("backend", e.Backend),
		attribute.String("outcome", outcome), attribute.String("lock_group", group)))
	if e.Err == nil {
		t.hold(ctx, e, group, 1)
	}
}

func (t *Telemetry) ended(ctx context.Context, e holdfast.Event, now time.Time) {
	end := holdEnd(e)
	ctx = t.spans.hold(ctx, e, end, now)
	if e.Kind == holdfast.EventLoss {
		t.lost.Add(ctx, 1, with(attribute.String("reason", lossReason(e.Reason))))
	}
	t.holds.Record(ctx, e.Held.Seconds(), with(attribute.String("kind", e.Lock), attribute.String("end", end)))
	t.hold(ctx, e, t.groups.label(e.Name), -1)
}

// hold adds one hold to the sums, or takes one away. The report of an end may
// come after that of the next acquire, and that of a loss even before its own;
// the sums are right when all were told.
func (t *Telemetry) hold(ctx context.Context, e holdfast.Event, group string, by int64) {
	t.held.Add(ctx, by, with(attribute.String("kind", e.Lock), attribute.String("lock_group", group)))
	if election, ok := t.elections[e.Name]; ok {
		t.leader.Add(ctx, by, election)
	}
}
