package otelhold

import (
	"context"
	"errors"
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
	// MeterProvider and TracerProvider default to the global ones.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider

	// Group maps the name of a lock to the value of the attribute lock_group, such as
	// GroupByPrefix. It must always return the same value for a name. Several goroutines
	// may call it at once. The first 100 values are used, in the order of their first
	// use; all others become "other". Default: no attribute.
	Group func(name string) string

	// Elections are the names of locks whose holder is a leader. Each name is a value of the
	// attribute election. The metric holdfast.leader has this attribute, and starts at 0. The
	// metrics of waits have it, too, because a candidate may wait without limit.
	Elections []string

	// HoldSpans makes a span holdfast.hold for each hold, in a separate trace, linked to
	// the span of its acquire. It needs about a hundred bytes for each held lock.
	HoldSpans bool
}

// GroupByPrefix is a function for Options.Group. It returns the text before the first
// colon or decimal digit: "stock" for "stock:42" and "stock:43", "order-" for "order-7".
// A name with neither is its own group, so use GroupByPrefix only for names from a fixed
// set of prefixes.
func GroupByPrefix(name string) string { return meter.Prefix(name) }

// Telemetry makes metrics and spans from the events of the Lockers of this process.
// Several goroutines may call its methods at once.
type Telemetry struct {
	groups    *meter.Groups
	elections map[string]metric.MeasurementOption // by name of the lock
	spans     *spans

	acquires metric.Float64Histogram
	holds    metric.Float64Histogram
	margins  metric.Float64Histogram
	held     metric.Int64UpDownCounter
	waiting  metric.Int64UpDownCounter
	renewals metric.Int64Counter
	lost     metric.Int64Counter
	wakeups  metric.Int64Counter
	resolved metric.Int64Counter
	leader   metric.Int64UpDownCounter
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
		groups:    meter.NewGroups(opts.Group),
		elections: make(map[string]metric.MeasurementOption),
		spans:     newSpans(tracers.Tracer(scope, trace.WithInstrumentationVersion(meter.Version())), opts.HoldSpans),
	}
	if err := t.instruments(meters.Meter(scope, metric.WithInstrumentationVersion(meter.Version()))); err != nil {
		return nil, err
	}
	t.begin(opts.Elections)
	return t, nil
}

func (t *Telemetry) instruments(m metric.Meter) error {
	var errs [10]error
	t.acquires, errs[0] = m.Float64Histogram("holdfast.acquire.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the call of Lock or TryLock to its end."),
		metric.WithExplicitBucketBoundaries(meter.AcquireBounds()...))
	t.holds, errs[1] = m.Float64Histogram("holdfast.hold.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the acquire of a lock to its release or loss."),
		metric.WithExplicitBucketBoundaries(meter.HoldBounds()...))
	t.margins, errs[2] = m.Float64Histogram("holdfast.renew.margin", metric.WithUnit("s"),
		metric.WithDescription("Time that was left, when a renewal was answered or failed, until the lock would have counted as lost."),
		metric.WithExplicitBucketBoundaries(meter.MarginBounds()...))
	t.held, errs[3] = m.Int64UpDownCounter("holdfast.held", metric.WithUnit("{lock}"),
		metric.WithDescription("Locks that this process holds."))
	t.renewals, errs[4] = m.Int64Counter("holdfast.renewals", metric.WithUnit("{renewal}"),
		metric.WithDescription("Renewals of locks by their answer."))
	t.lost, errs[5] = m.Int64Counter("holdfast.lost", metric.WithUnit("{lock}"),
		metric.WithDescription("Locks that ended before they were unlocked, other than by their option Lease."))
	t.leader, errs[6] = m.Int64UpDownCounter("holdfast.leader", metric.WithUnit("{leader}"),
		metric.WithDescription("Whether this process holds the lock of an election."))
	t.waiting, errs[7] = m.Int64UpDownCounter("holdfast.waiting", metric.WithUnit("{call}"),
		metric.WithDescription("Calls of Lock and TryLock that wait in this process."))
	t.wakeups, errs[8] = m.Int64Counter("holdfast.wakeups", metric.WithUnit("{wakeup}"),
		metric.WithDescription("Times that a waiter asked the store again: after a notification, or after a pause."))
	t.resolved, errs[9] = m.Int64Counter("holdfast.indeterminate", metric.WithUnit("{call}"),
		metric.WithDescription("Calls without an answer that were followed up: whether it is certain what became of them."))
	return errors.Join(errs[:]...)
}

// begin creates at 0 the series for which there are alerts. An alert on the first loss
// would miss a series that begins with 1.
func (t *Telemetry) begin(elections []string) {
	ctx := context.Background()
	for _, outcome := range meter.RenewOutcomes() {
		t.renewals.Add(ctx, 0, with(attribute.String("outcome", outcome)))
	}
	for _, reason := range meter.Reasons() {
		t.lost.Add(ctx, 0, with(attribute.String("reason", reason)))
	}
	for _, source := range meter.WakeSources() {
		t.wakeups.Add(ctx, 0, with(attribute.String("source", source)))
	}
	for _, op := range meter.IndeterminateOps() {
		for _, resolved := range []bool{true, false} {
			t.resolved.Add(ctx, 0, indeterminate(op, resolved))
		}
	}
	for _, name := range elections {
		t.elections[name] = with(attribute.String("election", meter.Text(name)))
		t.leader.Add(ctx, 0, t.elections[name])
	}
}

// with returns the attributes as an option, without empty ones.
func with(kvs ...attribute.KeyValue) metric.MeasurementOption {
	kept := kvs[:0]
	for _, kv := range kvs {
		if kv.Value.AsString() != "" {
			kept = append(kept, kv)
		}
	}
	return metric.WithAttributeSet(attribute.NewSet(kept...))
}

func indeterminate(op string, resolved bool) metric.MeasurementOption {
	return with(attribute.String("op", meter.Op(op)), attribute.String("resolved", meter.Resolved(resolved)))
}

// Observe handles one event. It is a function for holdfast.Options.Observe. It ignores
// unknown types of events. Its cost depends on the providers: an exporter that sends from
// the goroutine that ends a span delays locks.
func (t *Telemetry) Observe(ctx context.Context, e holdfast.Event) {
	now := time.Now()
	switch e.Type {
	case holdfast.EventWait:
		t.wait(ctx, e, t.groups.Label(e.Name), 1)
	case holdfast.EventWake:
		t.wakeups.Add(ctx, 1, with(attribute.String("source", meter.WakeSource(e.Notified))))
	case holdfast.EventAcquire:
		t.acquired(ctx, e, now)
	case holdfast.EventRenew:
		t.renewals.Add(ctx, 1, with(attribute.String("outcome", meter.RenewOutcome(e))))
		if !e.Leased { // otherwise its end is fixed, and the renewal extended nothing
			t.margins.Record(ctx, e.Margin.Seconds(), with(attribute.String("kind", e.Kind)))
		}
	case holdfast.EventRelease, holdfast.EventLoss:
		t.ended(ctx, e, now)
	case holdfast.EventIndeterminate:
		t.resolved.Add(ctx, 1, indeterminate(e.Op, e.Resolved))
	}
}

func (t *Telemetry) acquired(ctx context.Context, e holdfast.Event, now time.Time) {
	outcome, group := meter.AcquireOutcome(ctx, e.Err), t.groups.Label(e.Name)
	if e.Blocked {
		t.wait(ctx, e, group, -1)
	}
	ctx = t.spans.acquire(ctx, e, outcome, now) // so that exemplars refer to the span
	t.acquires.Record(ctx, e.Waited.Seconds(), with(
		attribute.String("kind", e.Kind), attribute.String("backend", e.Backend),
		attribute.String("outcome", outcome), attribute.String("lock_group", group), t.election(e.Name)))
	if e.Err == nil {
		t.hold(ctx, e, group, 1)
	}
}

func (t *Telemetry) ended(ctx context.Context, e holdfast.Event, now time.Time) {
	if meter.FoundLost(e) {
		return
	}
	end := meter.HoldEnd(e)
	ctx = t.spans.hold(ctx, e, end, now)
	if reason, lost := meter.Loss(e); lost {
		t.lost.Add(ctx, 1, with(attribute.String("reason", reason)))
	}
	t.holds.Record(ctx, e.HeldFor.Seconds(), with(attribute.String("kind", e.Kind), attribute.String("end", end)))
	t.hold(ctx, e, t.groups.Label(e.Name), -1)
}

// wait adds the number `by` to the number of calls that wait.
func (t *Telemetry) wait(ctx context.Context, e holdfast.Event, group string, by int64) {
	t.waiting.Add(ctx, by, with(attribute.String("kind", e.Kind), attribute.String("lock_group", group), t.election(e.Name)))
}

// election returns the attribute for a lock: an empty one if it is not the lock of an
// election.
func (t *Telemetry) election(name string) attribute.KeyValue {
	if _, ok := t.elections[name]; !ok {
		name = ""
	}
	return attribute.String("election", meter.Text(name))
}

// hold adds the number `by` to the sums: 1 for a new hold, -1 for one that has ended. The end
// of a hold may be reported after the next acquire, and a loss even before its own acquire.
// The sums are right when all events were reported.
func (t *Telemetry) hold(ctx context.Context, e holdfast.Event, group string, by int64) {
	t.held.Add(ctx, by, with(attribute.String("kind", e.Kind), attribute.String("lock_group", group)))
	if election, ok := t.elections[e.Name]; ok {
		t.leader.Add(ctx, by, election)
	}
}
