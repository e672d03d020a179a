package otelhold_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/otelhold"
)

// A program that has set the global providers passes nil to New.
func Example() {
	spans := tracetest.NewInMemoryExporter()
	telemetry, err := otelhold.New(&otelhold.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)),
		MeterProvider:  noop.NewMeterProvider(),
		HoldSpans:      true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	locker := holdfast.New(memhold.New(), &holdfast.Options{Observe: telemetry.Observe})

	err = locker.Mutex("stock:42").Do(context.Background(), func(context.Context, *holdfast.Lock) error { return nil })
	fmt.Println(err)
	for _, span := range spans.GetSpans() {
		fmt.Println(span.Name)
	}

	// Output:
	// <nil>
	// holdfast.acquire
	// holdfast.hold
}
