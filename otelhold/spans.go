package otelhold

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/meter"
)

// spans makes OpenTelemetry spans from the events of Holdfast. Each span is created when the
// acquire or the hold has ended.
type spans struct {
	tracer trace.Tracer
	holds  bool

	mu       sync.Mutex
	acquired map[holdKey]trace.SpanContext // with Options.HoldSpans: the span of the acquire of each held lock
}

// holdKey identifies a hold. It has the fields that are the same in all events of the hold. The
// token is 0 if the store has no tokens.
type holdKey struct {
	backend, kind, name string
	token               uint64
}

func grantOf(e holdfast.Event) holdKey { return holdKey{e.Backend, e.Kind, e.Name, e.Token} }

func newSpans(tracer trace.Tracer, holds bool) *spans {
	return &spans{tracer: tracer, holds: holds, acquired: make(map[holdKey]trace.SpanContext)}
}

// observe creates the span that ends with an event, and returns the context of the span. If no
// span ends with the event, it returns ctx.
func (s *spans) observe(ctx context.Context, e holdfast.Event, now time.Time) context.Context {
	switch {
	case e.Type == holdfast.EventAcquire:
		return s.acquire(ctx, e, now)
	case !s.holds || meter.FoundLost(e):
	case e.Type == holdfast.EventRelease, e.Type == holdfast.EventLoss:
		return s.hold(ctx, e, now)
	}
	return ctx
}

// acquire creates the span of an acquire that has just ended, and returns the context of the
// span.
func (s *spans) acquire(ctx context.Context, e holdfast.Event, now time.Time) context.Context {
	outcome := meter.AcquireOutcome(ctx, e.Err)
	ctx, span := s.tracer.Start(ctx, "holdfast.acquire", trace.WithTimestamp(now.Add(-e.Waited)), trace.WithAttributes(
		append(about(e),
			attribute.String("holdfast.outcome", outcome),
			attribute.Int("holdfast.attempts", e.Attempts),
			attribute.Float64("holdfast.waited", e.Waited.Seconds()))...))
	fail(span, acquireError(outcome, e.Err), e.Err)
	span.End(trace.WithTimestamp(now))
	if s.holds && e.Err == nil && e.Token != 0 {
		s.mu.Lock()
		s.acquired[grantOf(e)] = span.SpanContext()
		s.mu.Unlock()
	}
	return ctx
}

// hold creates the span of a hold that has just ended, and returns the context of the span.
// Spans of the work under the lock are not below this span: they belong to the trace of the
// caller.
func (s *spans) hold(ctx context.Context, e holdfast.Event, now time.Time) context.Context {
	s.mu.Lock()
	acquired, known := s.acquired[grantOf(e)]
	delete(s.acquired, grantOf(e))
	s.mu.Unlock()
	opts := []trace.SpanStartOption{
		trace.WithNewRoot(), trace.WithTimestamp(now.Add(-e.HeldFor)),
		trace.WithAttributes(append(about(e), attribute.String("holdfast.end", meter.HoldEnd(e)))...),
	}
	if known && acquired.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: acquired}))
	}
	ctx, span := s.tracer.Start(ctx, "holdfast.hold", opts...)
	fail(span, endError(e), e.Err)
	span.End(trace.WithTimestamp(now))
	return ctx
}

// about returns the attributes for the lock of an event.
func about(e holdfast.Event) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("holdfast.name", meter.Text(e.Name)),
		attribute.String("holdfast.kind", e.Kind),
		attribute.String("holdfast.backend", e.Backend),
		attribute.Int64("holdfast.token", int64(e.Token)),
	}
}

// fail sets the error of a span. The parameter `class` is the attribute error.type. If `class`
// is "", there is no error, and fail does nothing.
func fail(span trace.Span, class string, err error) {
	if class == "" {
		return
	}
	span.SetAttributes(attribute.String("error.type", class))
	text := class
	if err != nil {
		text = meter.Text(err.Error())
	}
	span.SetStatus(codes.Error, text)
}

// acquireError returns the attribute error.type of an acquire, or "" if there is no error. A
// lock that is busy is no error, and neither is a caller that has given up.
func acquireError(outcome string, err error) string {
	switch {
	case outcome == "timeout":
		return outcome
	case outcome != "error":
		return ""
	case errors.Is(err, holdfast.ErrDeadlock):
		return "deadlock"
	case errors.Is(err, driver.ErrMismatch):
		return "mismatch"
	case errors.Is(err, driver.ErrRefused):
		return "refused"
	case errors.Is(err, driver.ErrNotExecuted):
		return "not_sent"
	default:
		return "_OTHER"
	}
}

// endError returns the attribute error.type of a hold: the reason of a loss, "unconfirmed"
// for a release that was not confirmed, or "" if there is no error.
func endError(e holdfast.Event) string {
	if reason, lost := meter.Loss(e); lost {
		return reason
	}
	if e.Type == holdfast.EventRelease && e.Err != nil {
		return "unconfirmed"
	}
	return ""
}
