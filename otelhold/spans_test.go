package otelhold_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/otelhold"
)

// errRefused is the error of a provider that refuses.
var errRefused = errors.New("refused")

// refusing is a provider whose meters make no counters.
type refusing struct{ metric.MeterProvider }

func (r refusing) Meter(name string, opts ...metric.MeterOption) metric.Meter {
	return refusingMeter{r.MeterProvider.Meter(name, opts...)}
}

type refusingMeter struct{ metric.Meter }

func (refusingMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errRefused
}

// tracing returns a recorder of spans, and a Telemetry that creates them.
func tracing(t *testing.T, holds bool) (*tracetest.SpanRecorder, *sdktrace.TracerProvider, *otelhold.Telemetry) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	tel, err := otelhold.New(&otelhold.Options{
		TracerProvider: provider, MeterProvider: noop.NewMeterProvider(), HoldSpans: holds,
	})
	if err != nil {
		t.Fatal(err)
	}
	return recorder, provider, tel
}

// TestAcquireSpan checks the span of an acquire: it is below the caller's span, and as long
// as the acquire.
func TestAcquireSpan(t *testing.T) {
	recorder, provider, tel := tracing(t, false)
	ctx, parent := provider.Tracer("caller").Start(t.Context(), "request")
	before := time.Now()
	tel.Observe(ctx, holdfast.Event{
		Type: holdfast.EventAcquire, Name: "stock:42", Kind: "mutex", Backend: "memory",
		Token: 7, Waited: time.Minute, Attempts: 3,
	})
	tel.Observe(t.Context(), holdfast.Event{Type: holdfast.EventRelease, Name: "stock:42", Kind: "mutex", Backend: "memory", Token: 7})
	ended := recorder.Ended()
	if len(ended) != 1 {
		t.Fatalf("got %d spans, want one", len(ended))
	}
	span := ended[0]
	if span.Name() != "holdfast.acquire" || span.Parent().SpanID() != parent.SpanContext().SpanID() {
		t.Errorf("got span %q below %v, want holdfast.acquire below the caller's", span.Name(), span.Parent().SpanID())
	}
	if took := span.EndTime().Sub(span.StartTime()); took != time.Minute || span.EndTime().Before(before) {
		t.Errorf("got a span of %v that ended at %v, want one of a minute that ends now", took, span.EndTime())
	}
	wantAttributes(t, span, attribute.String("holdfast.name", "stock:42"), attribute.String("holdfast.kind", "mutex"),
		attribute.String("holdfast.backend", "memory"), attribute.Int64("holdfast.token", 7),
		attribute.String("holdfast.outcome", "acquired"), attribute.Int("holdfast.attempts", 3), attribute.Float64("holdfast.waited", 60))
}

// TestFailedAcquireSpan shows which failures make a span an error, and with which class.
func TestFailedAcquireSpan(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, c := range []struct {
		ctx   context.Context
		err   error
		class string // "" if the span is no error
	}{
		{t.Context(), &holdfast.BusyError{Name: "n"}, ""},
		{over, context.Canceled, ""},
		{late, context.DeadlineExceeded, "timeout"},
		{t.Context(), fmt.Errorf("lock: %w", holdfast.ErrDeadlock), "deadlock"},
		{t.Context(), fmt.Errorf("lock: %w", driver.ErrMismatch), "mismatch"},
		{t.Context(), fmt.Errorf("lock: %w: NOPERM\xff", driver.ErrRefused), "refused"},
		{t.Context(), fmt.Errorf("lock: %w", driver.ErrNotExecuted), "not_sent"},
		{t.Context(), errors.New("strange"), "_OTHER"},
	} {
		recorder, _, tel := tracing(t, false)
		tel.Observe(c.ctx, holdfast.Event{Type: holdfast.EventAcquire, Name: "n\xff", Kind: "mutex", Err: c.err})
		span := recorder.Ended()[0]
		wantClass(t, span, c.class)
		if c.class == "" && span.Status().Code != codes.Unset || c.class != "" && span.Status().Code != codes.Error {
			t.Errorf("%v: got status %v", c.err, span.Status())
		}
	}
}

// TestHoldSpan requires a separate trace, with a link to the acquire.
func TestHoldSpan(t *testing.T) {
	recorder, provider, tel := tracing(t, true)
	locker := holdfast.New(memhold.New(), &holdfast.Options{Observe: tel.Observe})
	ctx, parent := provider.Tracer("caller").Start(t.Context(), "request")
	defer parent.End()
	lock, err := locker.Lock(ctx, "stock:42")
	if err == nil {
		err = lock.Unlock()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := recorder.Ended()
	if len(ended) != 2 || ended[1].Name() != "holdfast.hold" {
		t.Fatalf("got %d spans, want an acquire and a hold", len(ended))
	}
	acquire, hold := ended[0], ended[1]
	if links := hold.Links(); len(links) != 1 || links[0].SpanContext.SpanID() != acquire.SpanContext().SpanID() {
		t.Errorf("got links %v, want one to the acquire", links)
	}
	wantClass(t, hold, "")

	tel.Observe(ctx, holdfast.Event{Type: holdfast.EventLoss, Name: "stock:42", Kind: "mutex", Backend: "memory", Token: lock.Token(), HeldFor: time.Hour, Reason: driver.ReasonEvicted, Err: holdfast.ErrLost})
	tel.Observe(t.Context(), holdfast.Event{Type: holdfast.EventRelease, Name: "stock:42", Kind: "mutex", Err: errors.New("not confirmed")})
	ended = recorder.Ended()
	wantClass(t, ended[2], "evicted")
	wantClass(t, ended[3], "unconfirmed")
	wantAttributes(t, ended[2], attribute.String("holdfast.end", "lost"))
	for _, span := range []sdktrace.ReadOnlySpan{hold, ended[2]} {
		if span.Parent().IsValid() || span.SpanContext().TraceID() == parent.SpanContext().TraceID() {
			t.Errorf("%v: the hold is not a trace of its own", span.Status())
		}
	}
	if took := ended[2].EndTime().Sub(ended[2].StartTime()); took != time.Hour || len(ended[2].Links()) != 0 {
		t.Errorf("got a span of %v with links %v, want one of an hour without", took, ended[2].Links())
	}
}

// TestHoldSpanOfFixedEnd: the end that the option FixedLease set is no failure.
func TestHoldSpanOfFixedEnd(t *testing.T) {
	recorder, _, tel := tracing(t, true)
	tel.Observe(t.Context(), holdfast.Event{Type: holdfast.EventLoss, Name: "stock:42", Kind: "mutex", HeldFor: time.Second, Reason: driver.ReasonExpired, Leased: true, Err: holdfast.ErrLost})
	span := recorder.Ended()[0]
	wantClass(t, span, "")
	wantAttributes(t, span, attribute.String("holdfast.end", "fixed_lease"))
	if span.Status().Code != codes.Unset {
		t.Errorf("got status %v, want none", span.Status())
	}
}

func wantAttributes(t *testing.T, span sdktrace.ReadOnlySpan, want ...attribute.KeyValue) {
	t.Helper()
	set := attribute.NewSet(span.Attributes()...)
	for _, kv := range want {
		if got, ok := set.Value(kv.Key); !ok || got != kv.Value {
			t.Errorf("%s: got %v, want %v", kv.Key, got.String(), kv.Value.String())
		}
	}
}

// wantClass compares the attribute error.type of a span.
func wantClass(t *testing.T, span sdktrace.ReadOnlySpan, want string) {
	t.Helper()
	set := attribute.NewSet(span.Attributes()...)
	if got, _ := set.Value("error.type"); got.AsString() != want {
		t.Errorf("%s %v: got error.type %q, want %q", span.Name(), span.Status(), got.AsString(), want)
	}
}
